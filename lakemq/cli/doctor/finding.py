"""What is wrong, how much that matters, and what to do about it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Grade(IntEnum):
    """How much it matters: what matters most comes first."""

    DOWN = 0
    """Messages can't be sent, or taken, or are lost."""
    WRONG = 1
    """It goes on, and something doesn't work."""
    SOON = 2
    """It will, if nothing is done."""
    NOTE = 3
    """As it may be meant."""


class Finding(NamedTuple):
    """`about`: what it was found at, such as a broker's address. `do`: what to do, a sentence or a command."""

    grade: Grade
    about: str
    what: str
    do: str
