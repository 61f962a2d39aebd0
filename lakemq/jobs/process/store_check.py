"""The lake's store as the jobs start: one that is away is waited for, one that refuses or is unsafe is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event

from lakemq.jobs.process.keep_running import Failures
from lakemq.jobs.process.store_away import is_away
from lakemq.model.errors import SettingsError
from lakemq.objects.path import is_object
from lakemq.objects.probe import check_store
from lakemq.storage.lake.proof_mark import FOLDER


def store_away(lake: Path) -> OSError | None:
    """What a store said that is away; None for one that is there and keeps what a lake is built on, and for a disk.

    Raises `StoreUnsafe`, and `SettingsError` for one that refuses or has no such bucket.
    """
    if not is_object(lake):
        return None
    try:
        check_store(lake / FOLDER)
    except OSError as error:
        if is_away(error):
            return error
        raise SettingsError(f"the lake's store can't be written: {error}") from None
    return None


def once_there(lake: Path, away: OSError | None, stop: Event, work: Callable[[], None]) -> None:
    """Does the work, of a store that is `away` once it is back; not at all where `stop` comes before.

    Raises what `store_away` does, and `LakemqError` when it has been away for as long as a query would wait.
    """
    failures = Failures("check of the lake's store")
    while away is not None:
        if stop.wait(failures.pause_s(away, did_batches=False)):
            return
        away = store_away(lake)
    work()
