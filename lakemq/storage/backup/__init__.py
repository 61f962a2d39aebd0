"""Copies of a broker and its lake that belong together, made while both go on (docs/backup.md)."""

from __future__ import annotations

from lakemq.storage.backup.make import Made, back_up
from lakemq.storage.backup.restore import Restored, restore

__all__ = ["Made", "Restored", "back_up", "restore"]
