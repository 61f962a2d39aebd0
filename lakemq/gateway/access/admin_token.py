"""The first administrator's token: a file in the data folder that only its owner reads.

Who has the folder has the broker, so this proves no more than that. It is this replica's alone, and stands in no log:
there is an administrator before anything is written, also of a follower, which can write nothing.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

from lakemq.model.errors import LakemqError, Unauthenticated
from lakemq.model.token import ID_BYTES, SECRET_BYTES, Token, make_token, parse_token
from lakemq.storage.disk.files import Files

logger = logging.getLogger(__name__)

NAME = "admin.token"
_BYTES_MAX = 1_000


class BadAdminToken(LakemqError):
    """The file of the administrator's token holds none."""

    code = "bad_admin_token"
    lasting = True


def open_admin_token(files: Files, directory: Path) -> Token:
    """The token in the folder's file, which is made where there is none: whole or not at all, 0600, on disk on return.
    Raises `BadAdminToken`, `OSError`."""
    path = directory / NAME
    try:
        files.tighten(path)  # first: nobody else opens it any more once it is this broker's word
        text = files.read_whole(path, _BYTES_MAX)
    except FileNotFoundError:
        token = make_token(secrets.token_bytes(ID_BYTES + SECRET_BYTES))
        if files.create(path, token.text.encode() + b"\n"):
            logger.info("the administrator's token is in %s", path)
            return token
        text = files.read_whole(path, _BYTES_MAX)
    try:
        return parse_token(text.decode("latin-1").strip())
    except Unauthenticated:
        raise BadAdminToken(f"{path} holds no token: remove it, and the next start makes one") from None
