"""Which files this process has open: the others' come and go meanwhile, as threads of other tests end."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def open_files(within: str | Path) -> list[str]:
    """Those of which the path has that in it, once for each descriptor."""
    found = [_target(each) for each in Path("/proc/self/fd").iterdir()]
    return sorted(path for path in found if str(within) in path)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


@contextmanager
def no_descriptors() -> Generator[None]:
    """Meanwhile no file can be opened. A limit of 0 would also be one of what servers in threads here may poll."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
