"""Whether an error is what became of an interrupt."""

from __future__ import annotations


def was_interrupted(error: BaseException) -> bool:
    """Whether it was raised while a KeyboardInterrupt went up: code that tidies up fails at what the interrupt left
    half done, and its error takes the interrupt's place."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, KeyboardInterrupt):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False
