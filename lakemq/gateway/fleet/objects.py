"""What a store of objects is asked for, by those who keep in it who leads."""

from __future__ import annotations

from typing import Protocol

OBJECT_BYTES_MAX = 1024 * 1024
NAMES_MAX = 10_000
"""A folder with more isn't ours."""


class Objects(Protocol):
    """Objects by names such as `folder/name`. All that asks raises `OSError`; what changes something may be done
    then. `errno.ENOTSUP`: the store has no such thing."""

    async def names(self, folder: str) -> list[str]:
        """Those in the folder, without its own: at least all that were there before the call and weren't deleted."""
        ...

    async def get(self, name: str, lasting: bool) -> bytes | None:
        """What the object holds, whole; None: there is none. `lasting`: what is read survives what the store
        survives."""
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Have the object hold that, whole or not at all. A power cut may take it."""
        ...

    async def put_new(self, name: str, data: bytes) -> bool:
        """Make the object; False where there is one of that name. On return it survives what the store survives."""
        ...

    async def delete(self, name: str) -> None:
        """Take the object away; a missing one is no error."""
        ...

    async def close(self) -> None:
        """Ask no more."""
        ...
