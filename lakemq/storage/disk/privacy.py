"""Whose the log's files are: of the user who runs the gateway, and of nobody else.

What others may read they can also lock, and a lock that a stranger holds stops a start.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)

UMASK = 0o077
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
_OTHERS = 0o077


def tighten(directory: Path, *inner: Path) -> None:
    """Take from all others what they may do with the directory, with the directories `inner` and with the files
    in these. Modes that can't be changed, as somebody else's can't, are said and left."""
    _tighten(directory)
    for each in inner:
        if each.is_dir():
            _tighten(each)
            for path in each.iterdir():
                if path.is_file() and not path.is_symlink():
                    _tighten(path)


def _tighten(path: Path) -> None:
    mode = path.stat().st_mode & 0o7777
    if mode & _OTHERS:
        try:
            path.chmod(mode & ~_OTHERS)
        except PermissionError as error:
            logger.warning("%s can be used by other users of this machine: %s", path, error)


def write_private(path: Path, text: str) -> None:
    """A file with that text, in place of what is there, that others can read at no moment.

    It appears whole, and isn't made to last: what a crash leaves beside it is nobody else's to read either. Raises
    `OSError`, as where the file system lets others read whatever is in it.
    """
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, FILE_MODE), "w", encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & _OTHERS:
                raise PermissionError(errno.EPERM, "this file system lets others read it", str(path))
            file.write(text)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def be_private() -> None:
    """Let this process make files for its user alone from now on."""
    os.umask(UMASK)
