"""The bounds of a produce request, and of what `lakemq.model.message_columns` doesn't say."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.settings import Gateway


class Limits(NamedTuple):
    """The bounds that are settings: of one message's body and of a request, inflated. `at_once`: others wait meanwhile,
    so what takes long is not even begun (`TakesLong`)."""

    message_bytes_max: int
    request_bytes_max: int
    at_once: bool = False

    @classmethod
    def of(cls, settings: Gateway) -> Limits:
        """Those of a gateway."""
        return cls(settings.message_bytes_max, settings.request_bytes_max)


class TakesLong(Exception):
    """A request that is to be decoded where nobody waits for it; nothing was done yet."""


AT_ONCE_BYTES_MAX = 4 * 1024 * 1024
"""Of an Arrow request, inflated: its body says little of that, as a million empty rows are 464 bytes when packed."""
AT_ONCE_VALUES_MAX = 32_768
"""Of all its arrays, nested ones too: that is a matter of milliseconds, whatever is in them."""
DRAFTS_MAX = 20_000
"""Messages a request in the forms that are decoded one by one: that blocks the event loop."""
ROWS_MAX = 1_000_000
"""Messages a request as Arrow."""
BATCHES_MAX = 1_024
"""Record batches a request as Arrow: each costs Python's time, however small it is."""
METADATA_BYTES_MAX = 4_194_304
"""Of all messages of an Arrow stream together: what Python has to look at."""
JSON_VALUES_MAX = 400_000
"""Values in a JSON document: each takes up to 64 bytes of memory, however short its text, and time for which the
parser keeps the interpreter from everybody else. Twenty for each of as many messages as there may be."""

KEYS_MAX = 64
PROPERTIES_MAX = 256
PROPERTIES_BYTES_MAX = 65_536
"""Of all names and values of one message's properties together."""
DELAY_LEVEL_MAX = 2**31 - 1
