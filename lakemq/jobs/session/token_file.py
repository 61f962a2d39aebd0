"""The token of the jobs' Spark Connect server, where nobody has set one: a file that only its owner reads.

Whoever may read it may do all that the jobs can. It is beside what says where the server is (`discovery`), and
another one with each start of the jobs.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from lakemq.model.errors import SettingsError
from lakemq.objects.path import beside
from lakemq.settings import Sql
from lakemq.storage.disk.privacy import write_private

FILE = "_connect.token"
"""In the lake's folder; Delta's readers pass over names like this, and no backup has it."""

TOKEN_BYTES_MAX = 4096
_OTHERS = 0o077

logger = logging.getLogger(__name__)


def keep_token(lake: Path, token: str) -> None:
    """Lets this user's programs find the token; "": it is set, so that none is to be found here.

    Where a file can't be kept from others there is none, which is said.
    """
    file = beside(lake) / FILE
    file.unlink(missing_ok=True)
    if not token:
        return
    try:
        write_private(file, token + "\n")
    except PermissionError as error:
        logger.warning("%s: programs can't find the token of the SQL server: set sql.token", error)


def forget_token(lake: Path) -> None:
    """Removes the file."""
    (beside(lake) / FILE).unlink(missing_ok=True)


def token_for(settings: Sql, lake: Path) -> str:
    """What the server of that lake's jobs is shown: what is set, else what its file has. Raises `SettingsError`."""
    return settings.token or read_token(lake)


def read_token(lake: Path) -> str:
    """What the file has. Raises `SettingsError` where there is none for this user, with what to do."""
    file = beside(lake) / FILE
    try:
        # A pipe that somebody has put there would be waited for.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SettingsError(
            f"the SQL server of these jobs needs a token, and there is none in {file}: set "
            "sql.token to the value that the jobs have"
        ) from None
    except PermissionError:
        raise SettingsError(
            f"the SQL server of these jobs wants a token; it is in {file}, which only its owner reads; set sql.token"
        ) from None
    except OSError as error:
        raise _refused(file, error.strerror or "it can't be read") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(file, "it is no file")
        if found.st_uid not in (os.geteuid(), 0):
            raise _refused(file, "it is another user's")
        if found.st_mode & _OTHERS:
            raise _refused(file, "others can read or write it")
        token = os.read(descriptor, TOKEN_BYTES_MAX).decode("ascii", "replace").strip()
    except OSError as error:
        raise _refused(file, error.strerror or "it can't be read") from None
    finally:
        os.close(descriptor)
    if not token or not token.isascii():
        raise _refused(file, "there is no token in it")
    return token


def _refused(file: Path, why: str) -> SettingsError:
    return SettingsError(
        f"the token of the SQL server in {file} is not to be trusted: {why}; remove it and start the jobs again, "
        "or set sql.token"
    )
