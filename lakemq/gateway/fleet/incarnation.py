"""Which stretch of a replica's life this is, and what it must remember of who led: its file `REPLICA`.

What a follower has said of its disk counts for one stretch alone. A stretch ends where the disk may have lost what was
not synced: with any end that is no clean stop. A clean stop has all of the log on disk, and says how much that is; who
finds just that goes on as before.

What was said to be on disk still is, after any end: so the folder may stand for all stretches of its life, until it is
begun anew.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from lakemq.model.election import Seal
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import read_sealed, write_sealed

NAME = "REPLICA"
LIVES_MAX = 16
"""So many stretches of its life are remembered, beside the one that the record names."""


class Incarnation:
    """That of a replica whose folder that is. `lives`: all that the folder is known to have been, this one too.
    `epoch`: the highest that was seen in force; `seal`: what was promised before something was proposed, as long as
    that may come into force; `named`: which of its lives the record was last seen to have. `is_opening`: it was to
    lead, and has opened no broker since."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._path = directory / NAME
        self._turn = threading.Lock()
        self._log_id = ""
        self._clean_end: int | None = None
        self.name = ""
        self.lives: tuple[str, ...] = ()
        self.epoch = 0
        self.seal: Seal | None = None
        self.named = ""
        self.is_opening = False

    def load(self) -> None:
        """Know what the file says; a file that isn't sound says nothing. Raises `OSError`."""
        try:
            held = read_sealed(self._files, self._path) or {}
            self._take(held)
        except (ValueError, KeyError, TypeError):
            self.name, self.lives = "", ()

    def _take(self, held: Mapping[str, Any]) -> None:
        self._log_id, self._clean_end = str(held.get("log_id", "")), held.get("clean_end")
        self.name = str(held.get("incarnation", ""))
        self.lives = tuple(map(str, held.get("lives", [self.name] if self.name else [])))
        self.epoch = int(held.get("epoch", 0))
        seal = held.get("seal")
        self.seal = None if seal is None else Seal(*map(int, seal))
        self.named = str(held.get("named", ""))
        self.is_opening = bool(held.get("opening", False))

    def begin(self, log_id: str, end: int) -> None:
        """Go on, or begin anew, with that log as it was found, up to `end`. On disk on return, before anything is said
        in its name. Raises `OSError`."""
        self.load()
        if self._log_id != log_id:
            self.lives = ()
        if self._log_id != log_id or self._clean_end != end:
            self._be_another()
        self._log_id, self._clean_end, self.is_opening = log_id, None, False
        self._write()

    def _be_another(self) -> None:
        self.name = uuid4().hex[:16]
        lives = (*self.lives, self.name)
        # While nobody leads, nobody changes the record: however often this one is started, it is a member by that life.
        self.lives = (*(each for each in lives[:-LIVES_MAX] if each == self.named), *lives[-LIVES_MAX:])

    def end(self, log_id: str, end: int) -> None:
        """It stops cleanly: all of the log, up to `end`, is on disk. Raises `OSError`."""
        if self.name:
            self._log_id, self._clean_end = log_id, end
            self._write()

    def forget(self) -> None:
        """The folder begins anew, or has less than was said in its name: it is nobody that it was. Raises `OSError`."""
        if self.lives:
            self.name, self.lives, self._clean_end = "", (), None
            self._write()

    def begin_to_lead(self) -> None:
        """A process that has begun just now is to lead, and its log isn't open yet. On disk on return; raises
        `OSError`, and then it is who it was."""
        before = self.name, self.lives, self._clean_end, self.is_opening
        if self._clean_end is None or not self.name:
            self._be_another()
        self._clean_end, self.is_opening = None, True
        try:
            self._write()
        except OSError:
            self.name, self.lives, self._clean_end, self.is_opening = before
            raise

    def is_to_open(self) -> None:
        """It leads once its log is open. Raises `OSError`."""
        self.is_opening = True
        self._write()

    def go_on(self) -> None:
        """From now on nothing but a clean end says how much is on disk. On disk on return; raises `OSError`."""
        self._clean_end = None
        self._write()

    def has_opened(self) -> None:
        """It leads, and all is open. Raises `OSError`."""
        self.is_opening = False
        self._write()

    def see(self, epoch: int, named: str = "") -> None:
        """That one is in force, and none below it ever is again; the record names that life of this one, or none. On
        disk on return; raises `OSError`."""
        if epoch > self.epoch or named != self.named:
            self.epoch, self.named = max(self.epoch, epoch), named
            self._write()

    def promise(self, seal: Seal) -> None:
        """Serve no epoch below that any more, until it is known that what is proposed won't come into force. On disk on
        return; raises `OSError`: then nothing may be proposed, and what was promised before is all that holds."""
        before = self.seal, self.is_opening
        self.seal, self.is_opening = seal, True  # if it leads
        try:
            self._write()
        except OSError:
            self.seal, self.is_opening = before
            raise

    def lift(self) -> None:
        """What was promised is over. Raises `OSError`."""
        if self.seal is not None:
            self.seal = None
            self._write()

    @property
    def highest(self) -> int:
        """Who leads in an epoch below is refused."""
        return self.epoch if self.seal is None else max(self.epoch, self.seal.epoch)

    @property
    def log_id(self) -> str:
        """Of which log it was last."""
        return self._log_id

    def _write(self) -> None:
        with self._turn:  # threads of the election and of the broker, one file
            held = {"incarnation": self.name, "log_id": self._log_id, "clean_end": self._clean_end}
            later = {"lives": self.lives, "epoch": self.epoch, "seal": self.seal, "named": self.named}
            write_sealed(self._files, self._path, held | later | {"opening": self.is_opening})
