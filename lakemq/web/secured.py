"""A connection by TLS: between the socket's transport and a protocol that knows nothing of it.

OpenSSL is given one record at a time, so what it does for one client in a turn of the loop is bounded by their number,
and what it keeps by the largest. An answer is encrypted as fast as the client takes it. Until the handshake is over
nothing is answered, and what the client sends waits for its turn (`handshakes.Handshakes`), unread. OpenSSL isn't there
before a whole hello is that it may be given.

Records that say nothing to us, but have OpenSSL work and answer (KeyUpdate, a wish to renegotiate), are few: who sends
more is cut. So no such answers pile up either.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import Any

from lakemq.web.handshakes import Handshakes
from lakemq.web.hello import NoHello, hello_is_whole, is_handshake
from lakemq.web.problems import make_problem, to_bytes
from lakemq.web.records import RECORD_BYTES, record_bytes

READS_MAX = 64
"""Records that are read before others have their turn: they may be as small as a byte."""
SILENT_MAX = 32
"""Records without data that a connection may send, and one more for each `SILENT_BYTES` of data: whoever changes his
keys for good reason does it after gigabytes."""
SILENT_BYTES = 1024 * 1024
SHAKEN_MAX = 64
"""Records that a handshake may take, with the certificates of a client."""
_REFUSED = bytes((21, 3, 3, 0, 2, 2, 40))
"""The alert `handshake_failure`."""
_PLAIN = to_bytes(make_problem("invalid_request", "TLS is spoken here: ask by https://"), close=True)


class Secured(asyncio.Transport, asyncio.Protocol):
    """The socket's protocol, and the transport of `inner`, whose `connection_made` comes before the handshake: so it is
    counted, and watched, from the beginning. `ready` says whether that is over."""

    def __init__(self, inner: asyncio.Protocol, context: ssl.SSLContext, handshakes: Handshakes) -> None:
        super().__init__()
        self.ready = False
        self._inner = inner
        self._context = context
        self._handshakes = handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Any = None  # an ssl.SSLObject, from the whole hello on
        self._shaken = 0
        self._raw: Any = None
        self._unfed = memoryview(b"")
        """What has come and is not with OpenSSL yet."""
        self._data_bytes = self._silent = 0
        """What has come of data, and how many records without any."""
        self._held = False
        """Whether `inner` wants nothing for now."""
        self._closing = False
        self._full = False
        """Whether the socket takes no more for now."""
        self._told = False
        """Whether `inner` knows that it had better wait."""
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0

    # As the socket's protocol ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport
        self._inner.connection_made(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self.ready and not self._unfed and record_bytes(data) == len(data):
            self._incoming.write(data)
            self._read_one()
            return
        self._unfed = memoryview(bytes(self._unfed) + data)
        if self.ready:
            self._read()
        else:
            self._raw.pause_reading()
            self._handshakes.add(self)

    def eof_received(self) -> bool:
        if self.ready and not self._closing:
            self._inner.eof_received()
        self.close()
        return True  # what is unsent goes out first

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._forget()
        self._handshakes.remove(self)
        inner, self._inner = self._inner, asyncio.Protocol()  # they know each other: one has to let go
        inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._full = True
        self._tell()

    def resume_writing(self) -> None:
        self._full = False
        self._flush()
        self._tell()

    # The handshake ---------------------------------------------------------------------------

    def shake(self) -> None:
        """As `Greeting`."""
        if self._closing:
            return
        try:
            self.ready = self._shake()
        except (ssl.SSLError, NoHello) as error:
            self._fail(error)
            return
        self._send()
        self._raw.resume_reading()
        if self.ready and self._unfed:
            self._read()

    def _shake(self) -> bool:
        """Go on as far as what has come goes; True when it is over."""
        if not self._begin():
            return False
        while self._feed():
            self._shaken += 1
            if self._shaken > SHAKEN_MAX:
                raise NoHello(f"a handshake of more than {SHAKEN_MAX} records")
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                return True
        return False

    def _begin(self) -> bool:
        """False while the hello isn't whole. Raises `NoHello`."""
        if self._tls is not None:
            return True
        if not record_bytes(self._unfed) or (is_handshake(self._unfed) and not hello_is_whole(self._unfed)):
            return False
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        return True

    def _fail(self, error: ssl.SSLError | NoHello) -> None:
        """End it, with the alert that says why."""
        reason = getattr(error, "reason", None) or str(error)
        if not self.ready:
            self._handshakes.failed(self._client, reason)
        if isinstance(error, NoHello):
            self._raw.write(_REFUSED)
        elif not self.ready and reason in ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"):
            self._raw.write(_PLAIN)
        else:
            self._send()
        self._closing = True
        self._forget()
        self._raw.close()

    @property
    def _client(self) -> str | None:
        peer = self._raw.get_extra_info("peername")
        return peer[0] if peer else None

    # Reading ---------------------------------------------------------------------------------

    def _read_one(self) -> None:
        """Hand on the record that has come: most of all requests are one."""
        try:
            piece = self._tls.read(RECORD_BYTES)
        except ssl.SSLWantReadError:
            self._note_silent()
            if not self._closing:
                self._send()
            return
        except ssl.SSLZeroReturnError:
            self.eof_received()
            return
        except ssl.SSLError as error:
            self._fail(error)
            return
        if not piece:
            self.eof_received()
            return
        self._data_bytes += len(piece)
        self._inner.data_received(piece)

    def _read(self) -> None:
        """Hand on what has come."""
        pieces: list[bytes] = []
        try:
            ended = self._decrypt(pieces)
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as error:
            self._fail(error)
            return
        if self._closing:
            return
        self._send()
        if pieces:
            self._inner.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if ended:
            self.eof_received()
        elif record_bytes(self._unfed) and not self._closing:
            self._raw.pause_reading()
            if not self._held:
                asyncio.get_running_loop().call_soon(self._read_on)

    def _decrypt(self, pieces: list[bytes]) -> bool:
        """Add what has come; True when there comes no more."""
        for _ in range(READS_MAX):
            if self._closing or not self._feed():
                return False
            try:
                piece = self._tls.read(RECORD_BYTES)
            except ssl.SSLWantReadError:
                self._note_silent()
                continue
            if not piece:
                return True
            self._data_bytes += len(piece)
            pieces.append(piece)
        return False

    def _note_silent(self) -> None:
        """A record came and there was no data in it."""
        self._silent += 1
        if self._silent > SILENT_MAX + self._data_bytes // SILENT_BYTES:
            self._handshakes.cut(self._client)
            self.abort()

    def _feed(self) -> bool:
        """Give OpenSSL the next record; False when none is whole."""
        size = record_bytes(self._unfed)
        if not size:
            self._unfed = memoryview(bytes(self._unfed))  # it may be a byte of a large piece, and all that is kept
            return False
        self._incoming.write(self._unfed[:size])
        self._unfed = self._unfed[size:]
        return True

    def _read_on(self) -> None:
        """Take in what others had their turn before, and then what comes."""
        if self._closing or self._held:
            return
        self._raw.resume_reading()
        self._read()

    def pause_reading(self) -> None:
        self._held = True
        if not self._closing:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._held = False
        if self._closing or not self.ready:
            return
        if record_bytes(self._unfed):
            asyncio.get_running_loop().call_soon(self._read_on)
        else:
            self._raw.resume_reading()

    def is_reading(self) -> bool:
        return not self._closing and self._raw.is_reading()

    # Writing ---------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Before the handshake is over there is nobody to say anything to: it is dropped."""
        if self._closing or not self.ready or not data:
            return
        if not self._backlog and len(data) <= RECORD_BYTES:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                self._fail(error)
                return
            self._raw.write(self._outgoing.read())
            return
        self._backlog.append(memoryview(data).cast("B"))
        self._backlog_bytes += len(data)
        self._flush()
        self._tell()

    def _flush(self) -> None:
        """Encrypt what waits, as long as the socket takes it."""
        try:
            while self._backlog and not self._full:
                self._encrypt_one()
                self._send()
        except ssl.SSLError as error:
            self._fail(error)
            return
        if self._closing and not self._backlog:
            self._end()

    def _encrypt_one(self) -> None:
        """A record of what waits."""
        view = self._backlog[0]
        count = self._tls.write(view[:RECORD_BYTES])
        self._backlog_bytes -= count
        if count == len(view):
            self._backlog.popleft()
        else:
            self._backlog[0] = view[count:]

    def _send(self) -> None:
        if self._outgoing.pending:
            self._raw.write(self._outgoing.read())

    def _tell(self) -> None:
        """Say to `inner` whether it had better wait."""
        wait = self._full or bool(self._backlog)
        if wait == self._told:
            return
        self._told = wait
        if wait:
            self._inner.pause_writing()
        else:
            self._inner.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self._backlog_bytes + self._raw.get_write_buffer_size()

    # The end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """What is unsent goes out first, and that there is no more."""
        if self._closing:
            return
        self._closing = True
        if not self._backlog:
            self._end()
        else:
            self._raw.pause_reading()

    def _end(self) -> None:
        if self.ready:
            with suppress(ssl.SSLError):  # it waits for the client's, which nobody needs
                self._tls.unwrap()
            self._send()
        self._raw.close()

    def abort(self) -> None:
        self._closing = True
        self._forget()
        self._raw.abort()

    def _forget(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0
        self._unfed = memoryview(b"")

    def is_closing(self) -> bool:
        return self._closing or self._raw.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._context
        if name == "ssl_object":
            return self._tls
        return self._raw.get_extra_info(name, default)
