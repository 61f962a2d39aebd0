"""Where a page of a message's history goes on, as clients carry it: signed, as it names positions of the log that were
found to be about that message, and nobody may name others."""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode

from lakemq.gateway.pull.history import Place
from lakemq.model.errors import InvalidRequest

CHARACTERS_MAX = 16_384
_KEY = secrets.token_bytes(32)
"""Of this process: after a restart a look begins anew."""
_SIGNATURE_BYTES = 16


def pack_place(place: Place, message_id: str) -> str:
    """As text of ASCII."""
    content = json.dumps([place.position, *place.causes]).encode()
    return urlsafe_b64encode(_signature(content, message_id) + content).decode()


def unpack_place(text: str, message_id: str) -> Place:
    """What `pack_place` made for the message. Raises `InvalidRequest`."""
    try:
        packed = urlsafe_b64decode(text)
    except ValueError:
        packed = b""
    signature, content = packed[:_SIGNATURE_BYTES], packed[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(content, message_id)):
        raise InvalidRequest("after is not what this broker returned for this message: start again without it")
    position, *causes = json.loads(content)
    return Place(position, tuple(causes))


def _signature(content: bytes, message_id: str) -> bytes:
    return hmac.digest(_KEY, message_id.encode(errors="replace") + b"\0" + content, "sha256")[:_SIGNATURE_BYTES]
