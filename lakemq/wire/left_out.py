"""Addresses that name servers name, and that aren't asked."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakemq.model.names import why_not_asked

SAID_MAX = 64
"""So many of them are said: whoever may register could name any number."""

logger = logging.getLogger("lakemq.client")
_said: set[str] = set()


def why_left_out(servers: Iterable[str], broker: str, address: str) -> str:
    """As `why_not_asked`; a line of the log says it once for each address."""
    why = why_not_asked(servers, address)
    if why and address not in _said and len(_said) < SAID_MAX:
        _said.add(address)
        logger.warning("ignoring a replica of broker %.100s: %s", broker, why)
    return why
