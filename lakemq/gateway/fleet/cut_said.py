"""What was cut off a follower's log, as it is said."""

from __future__ import annotations

from typing import Any

from lakemq.storage.log.cutting import Cut


def summary(cut: Cut) -> dict[str, Any]:
    """As `GET /v1/broker` says it."""
    names = ("position", "epoch", "positions", "messages", "kept", "kept_positions")
    return {name: getattr(cut, name) for name in names}


def described(cut: Cut) -> str:
    """What was cut, in a line."""
    what = (
        f"{cut.messages} messages ({cut.positions} positions) that its primary lacks were cut off this follower's log"
    )
    kept = f"the first {cut.kept_positions} positions are" if cut.kept_positions < cut.positions else "they are"
    where = f"{kept} kept in {cut.kept}" if cut.kept else "they are not kept"
    return f"{what} at position {cut.position}, and may have been acknowledged; {where}"
