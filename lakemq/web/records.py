"""Where the records of TLS end (RFC 8446, 5.1): so OpenSSL is given one at a time, and none that isn't whole."""

from __future__ import annotations

HEADER_BYTES = 5
RECORD_BYTES = 16 * 1024
"""No record says more."""
_WHOLE_BYTES_MAX = HEADER_BYTES + RECORD_BYTES + 2048
"""Encrypted by TLS 1.2, which may add most."""
_TYPES = range(20, 25)


def record_bytes(data: bytes | memoryview) -> int:
    """How many bytes the record has that `data` begins with; 0 while it isn't whole. What can be none is a record
    as far as it has come: OpenSSL knows best what is wrong with it."""
    if len(data) < HEADER_BYTES:
        return 0
    size = HEADER_BYTES + (data[3] << 8 | data[4])
    if data[0] not in _TYPES or size > _WHOLE_BYTES_MAX:
        return min(len(data), _WHOLE_BYTES_MAX)
    return size if size <= len(data) else 0
