"""The administrator's token, as a client on the gateway's machine finds it by itself.

A gateway that listens on loopback names the file; who may read that file is who runs the gateway. What is believed of
that answer is little, as any program may listen on a port: the file has to be of the kind and name that a gateway
makes, this user's own and nobody else's to read, and who listens on the port has to be this user too, or root.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

from lakemq.model.environment import TOKEN
from lakemq.model.errors import Unauthenticated
from lakemq.model.names import to_url
from lakemq.model.proc_net import Address, Listener, loopback_address, read_listeners, who_listens
from lakemq.model.token import TOKEN_CHARACTERS_MAX, Token, parse_token

FILE_NAME = "admin.token"
_TABLES = ("tcp", "tcp6")
PROC_NET = Path("/proc/net")
_PORTS = {"http": 80, "https": 443}
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotFound(Exception):
    """There is no token here for that address. Says why, for people."""


class FileFacts(NamedTuple):
    """What is asked of a file before it is read."""

    mode: int
    uid: int
    size: int


def find_token(address: str, token_file: str, net: Path = PROC_NET) -> Token:
    """The token of that file, for who listens at that address. Raises `NotFound`."""
    check_listener(address, net)
    return read_own_token(token_file)


def is_loopback(address: str) -> bool:
    """Whether it is this machine, by its name alone."""
    host = urlsplit(to_url(address)).hostname or ""
    return host == "localhost" or loopback_address(host) is not None


def check_listener(address: str, net: Path = PROC_NET) -> None:
    """Raises `NotFound` unless the address is this machine's own, and this user or root listens there."""
    parts = urlsplit(to_url(address))
    port = parts.port or _PORTS[parts.scheme]
    hosts = _loopback(parts.hostname or "", port)
    listeners = _listeners(net)
    mine = {0, os.geteuid()}
    uids = frozenset[int]().union(*(who_listens(listeners, host, port) for host in hosts))
    if not uids:
        raise NotFound(f"it is not known which user listens on port {port}")
    if uids - mine:
        raise NotFound(f"who listens on port {port} is another user (uid {min(uids - mine)}) than this one")


def read_own_token(token_file: str) -> Token:
    """The token of that file. Raises `NotFound`; what is no token isn't shown."""
    path = PurePosixPath(token_file)
    if "\0" in token_file or not path.is_absolute() or path.name != FILE_NAME:
        raise NotFound(f"{token_file[:200]!r} is no whole path to a file {FILE_NAME}")
    try:
        # Without waiting: of a pipe there would be no end.
        descriptor = os.open(token_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"{token_file} can't be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        check_facts(token_file, FileFacts(found.st_mode, found.st_uid, found.st_size), os.geteuid())
        content = os.read(descriptor, TOKEN_CHARACTERS_MAX + 1)
    except OSError as error:
        raise NotFound(f"{token_file} can't be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    try:
        return parse_token(content.decode("ascii").strip())
    except (UnicodeDecodeError, Unauthenticated):
        raise NotFound(f"{token_file} holds no token") from None


def check_facts(token_file: str, facts: FileFacts, uid: int) -> None:
    """Raises `NotFound` for a file that isn't this user's own secret."""
    if not stat.S_ISREG(facts.mode):
        raise NotFound(f"{token_file} is no file")
    if facts.uid != uid:
        raise NotFound(f"{token_file} is of another user (uid {facts.uid}) than this one (uid {uid})")
    if facts.mode & _OTHERS:
        raise NotFound(f"{token_file} may be read or written by others (mode {stat.S_IMODE(facts.mode):04o})")
    if facts.size > TOKEN_CHARACTERS_MAX:
        raise NotFound(f"{token_file} is larger than a token")


def how_to_get_on(token_file: str, reason: str) -> str:
    """What somebody does who has no token. `token_file`: what the gateway says."""
    if not token_file:
        return f"give a token, or put one into {TOKEN}"
    return f"the administrator's token was not taken from {token_file[:300]}: {reason}; put a token into {TOKEN}"


def _loopback(host: str, port: int) -> list[Address]:
    """Raises `NotFound` unless it is this machine itself; a name may be all of its addresses."""
    if (address := loopback_address(host)) is not None:
        return [address]
    if host != "localhost":
        raise NotFound("the gateway is not asked by an address of this machine's own (127.0.0.1, ::1, localhost)")
    try:
        named = [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except OSError as error:
        raise NotFound(f"localhost has no address: {error}") from None
    addresses = [loopback_address(each) for each in named]
    own = [each for each in addresses if each is not None]
    if len(own) < len(addresses) or not own:
        raise NotFound("localhost is another machine here")
    return own


def _listeners(net: Path) -> list[Listener]:
    found: list[Listener] = []
    for name in _TABLES:
        try:
            with (net / name).open(encoding="ascii") as rows:
                found += read_listeners(rows)
        except FileNotFoundError:
            continue  # without IPv6, or no Linux
        except (OSError, ValueError) as error:
            raise NotFound(f"can't find out which user listens: {error}") from None
    return found
