"""Whether a server's certificate is valid now, as OpenSSL has it.

Python's `ssl` tells the times of a peer's certificate only. So a client that trusts nothing but the server's own file
shakes hands with the server, in memory.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

_NOT_YET, _RUN_OUT = 9, 10
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""
_FAULTS = {_NOT_YET: "it isn't valid yet", _RUN_OUT: "it has expired"}
_ANY_TIME = ssl.VerifyFlags(0x200000)
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python has no name for."""
_FLIGHTS_MAX = 4
"""The client knows the certificate after two."""


class Validity(NamedTuple):
    """`fault`: why it is no certificate now; empty: it is one. `end_s`: until when it is, or was, in seconds since
    1970; None: that isn't known."""

    fault: str
    end_s: float | None


def text_of(cert_file: str) -> str:
    """The certificates in a file; what stands around them may be in any encoding. Raises `OSError`."""
    return Path(cert_file).read_bytes().decode("ascii", "replace").replace("\ufffd", "?")


def validity_of(server: ssl.SSLContext, text: str) -> Validity:
    """Of the certificate that the server speaks by, which is in that text. Nothing is known of it where the text can't
    be read: the file is being written again, or has a form that only a server's own may have."""
    found = _met(server, text, ssl.VerifyFlags(0))
    return found._replace(end_s=_met(server, text, _ANY_TIME).end_s) if found.fault else found


def _met(server: ssl.SSLContext, text: str, flags: ssl.VerifyFlags) -> Validity:
    """As a client with these flags finds it."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | flags
    try:
        trusting.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        return Validity("", None)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks, answers = trusting.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_FLIGHTS_MAX):
        try:
            asks.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            return Validity(_FAULTS.get(error.verify_code, ""), None)
        except ssl.SSLError:  # it wants a client's certificate, or whatever else: that says nothing of its own
            break
        try:
            answers.do_handshake()
        except ssl.SSLError:  # it waits for more, or refuses a client without a certificate
            continue
    found = asks.getpeercert() if asks.version() is not None else None
    end = (found or {}).get("notAfter")
    return Validity("", ssl.cert_time_to_seconds(end) if isinstance(end, str) else None)
