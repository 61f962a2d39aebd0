"""The HTTP gateway: it moves bytes between connections and the CommitLog."""

from __future__ import annotations

from lakemq.gateway.serve import serve

__all__ = ["serve"]
