"""Which files this process has open: the others' come and go meanwhile, as threads of other tests end."""

from __future__ import annotations

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
