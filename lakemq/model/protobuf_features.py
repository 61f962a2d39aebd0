"""What an edition of Protobuf decides by features (protobuf.dev, "Feature Settings for Editions"), and proto2 and
proto3 by their names: whether a field's presence is tracked, and how a message within another is written.

A feature holds where it is set and in all that is declared there, unless it is set again. The other features don't
change which columns a body has: packed and expanded numbers are both read, and text is UTF-8 in any case.
"""

from __future__ import annotations

from typing import NamedTuple

from lakemq.model.protobuf_wire import Fields

EXPLICIT, IMPLICIT, LEGACY_REQUIRED = 1, 2, 3
_DELIMITED = 2
_EDITIONS = (1000, 1001)
"""2023 and 2024, which have the same defaults of what counts here."""
_OF_A_FILE, _OF_A_MESSAGE, _OF_A_FIELD, _OF_A_ONEOF = 50, 12, 21, 1
"""The number that `features` has in the options of each."""
_SHOWN = 60


class Features(NamedTuple):
    """`presence`: of a field that is neither a message nor repeated nor in a oneof. `is_delimited`: messages are
    written as groups."""

    presence: int
    is_delimited: bool = False

    def in_file(self, said: Fields) -> Features:
        """Those of a file's messages."""
        return self._changed(said.all(8), _OF_A_FILE)

    def in_message(self, said: Fields) -> Features:
        """Those of a message's fields, and of what is declared in it."""
        return self._changed(said.all(7), _OF_A_MESSAGE)

    def in_oneof(self, said: Fields) -> Features:
        """Those of a oneof's fields."""
        return self._changed(said.all(2), _OF_A_ONEOF)

    def of_field(self, said: Fields) -> Features:
        """A field's own."""
        return self._changed(said.all(8), _OF_A_FIELD)

    def _changed(self, options: list[Fields], number: int) -> Features:
        found = self
        for each in (features for option in options for features in option.all(number)):
            presence, encoding = each.number(1), each.number(5)
            found = Features(
                found.presence if presence is None else presence,
                found.is_delimited if encoding is None else encoding == _DELIMITED,
            )
        return found


def features_of(file: Fields) -> Features | str:
    """Those of a file's messages; a text: why they can't be read."""
    syntax, edition = file.text(12) or "proto2", file.number(14)
    if syntax == "editions" and edition in _EDITIONS:
        return Features(EXPLICIT).in_file(file)
    if syntax in ("proto2", "proto3"):
        return Features(EXPLICIT if syntax == "proto2" else IMPLICIT)
    shown = f"edition {edition or 0}" if syntax == "editions" else f"syntax {syntax[:_SHOWN]!r}"
    return f"its file has the {shown}; only proto2, proto3 and the editions 2023 and 2024 are read"
