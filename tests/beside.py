"""What goes on beside a test, in a thread of its own."""

from __future__ import annotations

import threading
from typing import Self


class Beside:
    """`_run` goes on from the first to the last line of a `with`: it ends once `_ends` is set."""

    def __init__(self) -> None:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def _run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
