"""What is raised for an argument of a type that can't be sent."""

from __future__ import annotations

from lakemq.model.errors import InvalidRequest


class WrongType(InvalidRequest, TypeError):
    """What was given is of a type that can't be sent. The detail says what was expected.
    What to do: correct the argument."""

    def __init__(self, expected: str, given: object) -> None:
        super().__init__(f"{expected}, not {repr(given)[:100]} ({type(given).__name__})")
