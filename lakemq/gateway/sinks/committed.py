"""The outcome of a commit."""

from __future__ import annotations

from typing import NamedTuple


class Committed(NamedTuple):
    """`new` is False for a batch that was committed before."""

    new: bool
    messages: int
    dropped: int
