"""The socket that a server listens on."""

from __future__ import annotations

import contextlib
import resource
import socket

from lakemq.model.errors import LakemqError

_BACKLOG = 4096


class CantListen(LakemqError):
    """The address can't be listened on."""

    code = "cant_listen"


def allow_many_connections() -> None:
    """A connection is an open file, and of those a process may have few unless it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `CantListen`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        raise CantListen(f"can't listen on {host}:{port}: {error}") from None
    return listener


def url_of(listener: socket.socket, by_tls: bool = False) -> str:
    """Where a client on the same machine finds it."""
    host, port = listener.getsockname()[:2]
    return f"{'https' if by_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
