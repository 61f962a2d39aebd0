"""The server's side of TLS: its certificate, and whose certificates it asks for, read again when the files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from lakemq.model.errors import SettingsError
from lakemq.settings import Settings
from lakemq.settings import Tls as Files
from lakemq.web.certificate import text_of, validity_of
from lakemq.wire.file_facts import FileFacts, facts_of
from lakemq.wire.tls import client_context, no_password

LOOK_S = 2.0
"""Whether the files have changed is looked at so often."""
AGAIN_LOOKS = 30
"""After so many looks what couldn't be used is read again, though it seems the same: it may not have been the files."""
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: keys are agreed upon by elliptic curves only, which costs the server little (for 1.3: `hello`)."""
_OTHERS = stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH | stat.S_IWGRP

logger = logging.getLogger(__name__)

Facts = tuple[FileFacts | None, ...]


def tls_of(settings: Settings) -> Tls | None:
    """What servers with these settings speak by; None: no TLS. Raises `SettingsError` for files that
    can't be used, also such as are for asking others."""
    if any(settings.tls.trust):
        client_context(settings.tls.trust)
    return Tls(settings.tls) if settings.tls.on else None


def end_of(tls: Tls | None) -> Callable[[], float | None]:
    """Says until when the certificate is valid by which the next connection speaks; None: there is none, or that isn't
    known."""
    return lambda: None if tls is None else tls.end_s


def check_files(files: Files) -> None:
    """Raises `SettingsError` for files that can't be used, or whose certificate no client trusts now."""
    if fault := validity_of(_make(files), _text_of(files)).fault:
        _refuse("cert_file", files.cert_file, fault)


class Tls:
    """What a server's connections speak by. `context` is that of the next connection; those that there are keep theirs.

    Raises `SettingsError`, which names the setting, for files that can't be used.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._facts = self._seen = self._look()
        self._refused_looks: int | None = None
        """How many looks ago they couldn't be used; None: they could."""
        self.context = _make(files)
        self._text = _text_of(files)
        found = validity_of(self.context, self._text)
        self.end_s = found.end_s
        """Until when the certificate of `context` is valid, in seconds since 1970; None: that isn't known."""
        if fault := found.fault:
            logger.warning("no client will trust tls.cert_file %s: %s", files.cert_file, fault)

    def look(self) -> None:
        """Take what has been put into the files. It is read once they have been the same for two looks: a certificate
        and its key are two files, and nobody changes both at once. What can't be used is logged, is read again
        each minute, and until then the old stays."""
        before, self._seen = self._seen, self._look()
        if self._refused_looks is not None:
            self._refused_looks += 1
        again = self._refused_looks is not None and self._refused_looks >= AGAIN_LOOKS
        if (self._seen == self._facts and not again) or self._seen != before:
            return
        self._facts, self._refused_looks = self._seen, None
        try:
            self._take(_make(self._files), _text_of(self._files))
        except SettingsError as error:
            self._refused_looks = 0
            logger.warning("TLS keeps its previous certificate: %s", error.detail)
        else:
            logger.info("TLS now uses the new files %s", self._files.cert_file)

    def _take(self, context: ssl.SSLContext, text: str) -> None:
        fault, end_s = validity_of(context, text)
        if fault and not validity_of(self.context, self._text).fault:
            _refuse("cert_file", self._files.cert_file, fault)
        self.context, self._text, self.end_s = context, text, end_s

    async def follow(self, pause_s: float = LOOK_S) -> None:
        """Look now and then, until it is cancelled; in a thread, as a file system may keep whoever asks it waiting."""
        while True:
            await asyncio.sleep(pause_s)
            try:
                await asyncio.to_thread(self.look)
            except (RuntimeError, MemoryError, OSError):  # no thread for it now, or no descriptor
                logger.exception("can't check whether the certificate has changed")

    def _look(self) -> Facts:
        files = self._files
        return tuple(facts_of(each) for each in (files.cert_file, files.key_file, files.client_ca_file))


def _make(files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    _check_key(files.key_file)
    # For its errors alone: what a certificate lacks is said by the same words as what its key does.
    _load(
        "cert_file",
        files.cert_file,
        lambda: _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files.cert_file),
    )
    _load("key_file", files.key_file, lambda: context.load_cert_chain(files.cert_file, files.key_file, no_password))
    if files.client_ca_file:
        _load("client_ca_file", files.client_ca_file, lambda: _load_authorities(context, files.client_ca_file))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _text_of(files: Files) -> str:
    try:
        return text_of(files.cert_file)
    except OSError as error:
        _refuse("cert_file", files.cert_file, str(error.strerror))


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    context.load_verify_locations(cafile=file)


def _load(setting: str, file: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)
        _refuse(setting, file, _IN_WORDS.get(reason, reason))


_IN_WORDS = {
    "KEY_VALUES_MISMATCH": "it is the key of another certificate than that of tls.cert_file",
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no certificate in it",
    "NO_START_LINE": "there is no PEM in it",
}


def _check_key(file: str) -> None:
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        _refuse("key_file", file, str(error.strerror))
    if mode & _OTHERS:
        _refuse("key_file", file, f"others may read or write it (mode {stat.S_IMODE(mode):04o}): chmod 600 it")


def _refuse(setting: str, file: str, reason: str) -> NoReturn:
    raise SettingsError(f"tls.{setting}: {file} can't be used: {reason}")
