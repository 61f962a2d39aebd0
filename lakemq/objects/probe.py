"""Whether a store keeps what a lake is built on: of those who make the same object at once, one does."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

from lakemq.model.errors import StoreUnsafe
from lakemq.objects.path import ObjectPath

RIVALS = 6
ROUNDS = 8
TRIES = 5
"""Of a round in which nobody was told that it made the object: its answer was lost."""


def check_store(folder: ObjectPath, rounds: int = ROUNDS) -> None:
    """Makes some small objects below the folder in a race, and removes them. Raises `StoreUnsafe`; `OSError` where the
    store doesn't answer or refuses.

    It finds stores that don't know conditional puts, and such that look first and write then. A store whose race is
    won by two once in thousands passes: it can't prove that one is sound.
    """
    with ThreadPoolExecutor(RIVALS, "probe") as threads:
        for _ in range(rounds):
            if not any(_one_wins(folder, threads) for _ in range(TRIES)):
                raise OSError(
                    f"of {RIVALS} who made one object in {folder} at once none was told so, {TRIES} times over"
                )


def _one_wins(folder: ObjectPath, threads: ThreadPoolExecutor) -> bool:
    place = folder / f"probe-{uuid.uuid4().hex}"
    try:
        return _race(place, threads)
    finally:
        with suppress(OSError):
            place.unlink()


def _race(place: ObjectPath, threads: ThreadPoolExecutor) -> bool:
    """Whether one was told that it made it. None is where the answer was lost, and the request, made again, met the
    object that it had made itself: that says nothing."""
    together = Barrier(RIVALS)

    def make(rival: int) -> bool:
        together.wait()
        return place.create(f"rival {rival}".encode())

    won = [rival for rival, made in enumerate(threads.map(make, range(RIVALS))) if made]
    if len(won) > 1:
        raise StoreUnsafe(
            f"of {RIVALS} who made one object in {place.parent} at once {len(won)} were told that they did: the store "
            "doesn't keep conditional puts (If-None-Match), and two drivers would overwrite each other's commits"
        )
    if place.create(b"later"):
        raise StoreUnsafe(f"an object in {place.parent} was made twice: the store passes over If-None-Match")
    if won and place.read_bytes() != f"rival {won[0]}".encode():
        raise StoreUnsafe(f"an object in {place.parent} isn't what the one who made it wrote")
    return bool(won)
