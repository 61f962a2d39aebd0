"""Receipts and the ids of transactions: ids of rows that nobody can guess who wasn't given them.

A row's nonce is a keyed hash of its position; the key stands in the log's state frames, so each start, each copy and
each follower of the log knows it, and no row, column or answer holds a nonce that nobody was given. The log's id goes
into it: a restored log has the same key and other nonces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest

from lakemq.model.ids import NONCE_DIGITS, split_nonce, with_nonce
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds

_PER_HASH = 8
"""A hash gives the nonces of so many positions, one after the other: receipts come many at a time."""
_HASHES_KEPT = 4096
"""What was given lately is mostly asked for soon."""
_DIGEST_BYTES = _PER_HASH * NONCE_DIGITS // 2


class SecretIds:
    """Makes and reads the receipts and the transactions' ids of one broker, once its log is open."""

    def __init__(self, ids: MessageIds) -> None:
        self._ids = ids

    def open(self, identity: LogIdentity) -> None:
        """The log is open, and of this identity."""
        log_id = identity.now.log_id
        keyed = blake2b(key=identity.key, person=log_id, digest_size=_DIGEST_BYTES)

        @lru_cache(maxsize=_HASHES_KEPT)
        def nonces(number: int) -> str:
            own = keyed.copy()
            own.update(number.to_bytes(8, "little"))
            return own.hexdigest()

        self._nonces = nonces

    def nonce(self, position: int) -> str:
        """The nonce of the row at `position`: 16 hex digits."""
        begin = position % _PER_HASH * NONCE_DIGITS
        return self._nonces(position // _PER_HASH)[begin : begin + NONCE_DIGITS]

    def of(self, position: int) -> str:
        """The receipt, or the transaction's id, of the row at `position`."""
        return with_nonce(self._ids.of(position), self.nonce(position))

    def texts(self, positions: Sequence[int]) -> list[str]:
        """`of` of each of these positions."""
        nonce = self.nonce
        return [
            with_nonce(text, nonce(position))
            for text, position in zip(self._ids.texts(positions), positions, strict=True)
        ]

    def is_nonce(self, position: int, nonce: str) -> bool:
        """Whether it is that position's; takes as long wherever they differ."""
        return nonce.isascii() and compare_digest(self.nonce(position), nonce)

    def find(self, text: str) -> int | None:
        """The position whose receipt or transaction's id this is; None for all other text."""
        message_id, nonce = split_nonce(text)
        position = self._ids.find(message_id)
        return position if position is not None and self.is_nonce(position, nonce) else None
