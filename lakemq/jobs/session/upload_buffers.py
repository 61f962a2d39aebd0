"""Where S3A keeps a file until it is in the bucket: a folder for each process, which goes when it has ended.

Bodies are in it. Hadoop's own place is below /tmp, where what a killed JVM leaves stays, whoever is erased.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import uuid
from pathlib import Path

from lakemq.objects.path import ObjectPath
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.privacy import DIRECTORY_MODE

BUFFERS = "buffers"
"""Below the lake's `work_dir`."""

_HELD = ".held"
_NEW, _NEW_S_MAX = ".new", 24 * 3600.0
_held: dict[Path, tuple[Path, int | None]] = {}
"""This process's folders, by what they are in, and the descriptors that hold them."""

logger = logging.getLogger(__name__)


def buffer_folder(lake: ObjectPath) -> Path:
    """This process's own, until it ends, however it ends. Removes those of processes that have; what can't be
    removed is logged. Where nothing can be written below `work_dir`, as another user's, it is one among the
    temporary files, for this user alone."""
    above = (lake.work_dir / BUFFERS).absolute()
    if above not in _held:
        try:
            _held[above] = _make(above)
        except OSError:  # such a process doesn't write the tables
            _held[above] = Path(tempfile.mkdtemp(prefix="lakemq-")), None
        else:
            _sweep(above)
    return _held[above][0]


def _make(above: Path) -> tuple[Path, int]:
    files = Files()
    new = above / f"{uuid.uuid4().hex}{_NEW}"
    above.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)  # others' files come to be there too
    above.mkdir(exist_ok=True, mode=DIRECTORY_MODE)
    new.mkdir(mode=DIRECTORY_MODE)
    descriptor = files.open_update(new / _HELD)
    files.lock(descriptor)
    return new.rename(new.with_suffix("")), descriptor


def _sweep(above: Path) -> None:
    for folder in above.iterdir():
        try:
            if _is_left(folder):
                shutil.rmtree(folder)
        except FileNotFoundError:  # another one removes it
            continue
        except OSError as error:
            logger.warning("can't delete unfinished uploads of an ended process: %s", error)


def _is_left(folder: Path) -> bool:
    if folder.suffix == _NEW:  # not held yet, and nothing is in it
        return folder.stat().st_mtime < SystemClock().now_ms() / 1000 - _NEW_S_MAX
    files = Files()
    descriptor = files.open_update(folder / _HELD)
    try:
        return files.lock(descriptor)
    finally:
        files.close(descriptor)
