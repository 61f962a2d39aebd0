"""How a client speaks TLS. The server's certificate and its name are always checked; nothing turns that off."""

from __future__ import annotations

import logging
import math
import os
import ssl
import threading
import time
from typing import NamedTuple, NoReturn

from lakemq.model.environment import name_of
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.model.trust import SECTION, Trust, trust_of
from lakemq.wire.file_facts import FileFacts, facts_of

LOOK_S = 1.0
"""Files that may have changed are looked at so often at most."""
AGAIN_S = 60.0
"""Files that couldn't be used are read again so often, also where nothing is seen to have changed: it may have been for
want of a descriptor. Each time it is said what is wrong."""
KEPT_MAX = 16
"""What programs ask by different files: more are made anew each time."""

logger = logging.getLogger("lakemq.client")

Facts = tuple[FileFacts | None, ...]


class NotTrusted(LakemqError):
    """The server has no certificate that this client trusts, or one for another name; or a server on https refers to
    one without https. Asking again doesn't help.
    What to do: name the authority in LAKEMQ_TLS__CA_FILE, or correct the address."""

    code = "not_trusted"
    lasting = True


class _Kept(NamedTuple):
    context: ssl.SSLContext
    facts: Facts
    looked_s: float
    again_s: float
    """Monotonic: when the files are read again, whatever they look like."""


class _Contexts:
    """Those of this process. For any thread."""

    def __init__(self) -> None:
        self._of: dict[Trust, _Kept] = {}
        self._lock = threading.Lock()

    def get(self, trust: Trust) -> ssl.SSLContext:
        """Raises `SettingsError`, but where files that were good have become bad: these are told of, and stay."""
        now = time.monotonic()
        kept = self._of.get(trust)
        if kept is not None and now - kept.looked_s < LOOK_S:
            return kept.context
        with self._lock:
            kept, facts = self._of.get(trust), _facts(trust)
            if kept is not None and kept.facts == facts and now < kept.again_s:
                context, again_s = kept.context, kept.again_s
            else:
                try:
                    context, again_s = _make(trust), math.inf
                except SettingsError as error:
                    if kept is None:
                        raise
                    logger.warning("the files read before stay in use: %s", error.detail)
                    context, again_s = kept.context, now + AGAIN_S
            if kept is None and len(self._of) >= KEPT_MAX:
                self._of.pop(next(iter(self._of)))
            self._of[trust] = _Kept(context, facts, now, again_s)
            return context


_contexts = _Contexts()


def client_context(trust: Trust | None) -> ssl.SSLContext:
    """That for connections of who trusts so; None: as the environment says. What files say is read again when they have
    changed. Raises `SettingsError`, which names the setting."""
    return _contexts.get(trust_of(os.environ) if trust is None else trust)


def is_refusal(error: BaseException) -> bool:
    """Whether asking again can't help before somebody has changed a certificate."""
    return isinstance(error, ssl.SSLCertVerificationError)


def explain(error: BaseException) -> str:
    """What a connection failed of, with what helps where that is known."""
    text = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"tls.ca_file ({name_of(SECTION, 'ca_file')}) names authorities to trust in addition to the system's"
        is_other = error.verify_code in _OTHER_NAME
        said = error.verify_message.rstrip(".")
        return f"its certificate is not trusted: {said}" + ("" if is_other or "expired" in said else f"; {hint}")
    reason = str(getattr(error, "reason", "") or "")
    if reason in _NO_TLS:
        return f"no TLS is spoken there: ask by http:// ({text})"
    if "CERTIFICATE_REQUIRED" in reason:
        return f"it wants a client's certificate: tls.client_cert_file and tls.client_key_file name it ({text})"
    return text


_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


def _facts(trust: Trust) -> Facts:
    return tuple(facts_of(file) for file in trust)


def _make(trust: Trust) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if trust.ca_file:
        try:
            context.load_verify_locations(cafile=trust.ca_file)
        except OSError as error:
            _refuse("ca_file", trust.ca_file, error)
    if trust.client_cert_file:
        try:
            context.load_cert_chain(trust.client_cert_file, trust.client_key_file or None, password=no_password)
        except (OSError, ValueError) as error:
            file = f"{trust.client_cert_file}, {trust.client_key_file}"
            _refuse("client_cert_file, tls.client_key_file", file, error)
    return context


def no_password() -> NoReturn:
    """Instead of OpenSSL's question on the terminal."""
    raise ValueError("the key is encrypted: keys are without a password here")


def _refuse(setting: str, file: str, error: Exception) -> NoReturn:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    raise SettingsError(f"tls.{setting}: {file} can't be used: {reason}") from None
