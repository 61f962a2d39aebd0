"""A client that does with TLS what Python's module has no way to: by OpenSSL's own functions."""

from __future__ import annotations

import ctypes
import socket
from ctypes.util import find_library
from types import TracebackType
from typing import Any

_ssl, _crypto = (ctypes.CDLL(find_library(name)) for name in ("ssl", "crypto"))
_POINTERS = {
    _ssl: ("TLS_client_method", "SSL_CTX_new", "SSL_new"),
    _crypto: ("BIO_new", "BIO_s_mem"),
}
for _library, _names in _POINTERS.items():
    for _name in _names:
        getattr(_library, _name).restype = ctypes.c_void_p
_crypto.BIO_ctrl_pending.restype = ctypes.c_size_t


def _pointer(value: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)


class Hostile:
    """A connection whose handshake is over. What is sent can be made before, and seen."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        context = _pointer(_ssl.SSL_CTX_new(_pointer(_ssl.TLS_client_method())))
        self._tls = _pointer(_ssl.SSL_new(context))
        _ssl.SSL_CTX_free(context)
        self._in, self._out = (_pointer(_crypto.BIO_new(_pointer(_crypto.BIO_s_mem()))) for _ in range(2))
        _ssl.SSL_set_bio(self._tls, self._in, self._out)
        _ssl.SSL_set_connect_state(self._tls)
        while True:
            done = _ssl.SSL_do_handshake(self._tls)
            self.socket.sendall(self._made())
            if done == 1:
                return
            self.take(self.socket.recv(65536))

    def _made(self) -> bytes:
        size = _crypto.BIO_ctrl_pending(self._out)
        made = ctypes.create_string_buffer(size + 1)
        count = _crypto.BIO_read(self._out, made, size) if size else 0
        return made.raw[:count]

    def take(self, data: bytes) -> None:
        """This has come."""
        assert data
        _crypto.BIO_write(self._in, data, len(data))

    def read(self) -> bytes:
        """The next data."""
        found = ctypes.create_string_buffer(65536)
        while (count := _ssl.SSL_read(self._tls, found, len(found))) <= 0:
            self.take(self.socket.recv(65536))
        return found.raw[:count]

    def record(self, data: bytes) -> bytes:
        """It, encrypted."""
        assert _ssl.SSL_write(self._tls, data, len(data)) == len(data)
        return self._made()

    def key_updates(self, count: int, asked: bool) -> bytes:
        """So many records that change the keys. `asked`: the server is to change its own too."""
        for _ in range(count):
            assert _ssl.SSL_key_update(self._tls, int(asked)) == 1
            assert _ssl.SSL_do_handshake(self._tls) == 1
        return self._made()

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()
        _ssl.SSL_free(self._tls)
