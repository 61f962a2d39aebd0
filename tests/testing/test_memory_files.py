"""Files in memory do what real files do, step by step."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lakemq.storage.disk.files import Files
from lakemq.testing import MemoryFiles

NAMES = st.sampled_from(["a", "b", "inner/c", "inner/d", "nowhere/e"])
FOLDERS = st.sampled_from(["inner", "inner/deep", "a"])
DATA = st.binary(max_size=20)
SIZES = st.integers(0, 40)
WRITES = {"open_append": ["append", "truncate"], "open_update": ["write_at", "truncate"], "open_read": []}
"""What a descriptor is used for, beside reads, by how it was opened."""


class Both(RuleBasedStateMachine):
    """The same steps on a folder of the disk and in memory."""

    folder: Path

    @initialize()
    def begin(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.real, self.memory = Files(), MemoryFiles()
        self.memory.make_dirs(self.folder)
        self.open: list[tuple[str, int, int]] = []

    def same(self, step: str, *real: object, memory: tuple[object, ...] | None = None) -> object:
        """What the step did, which is the same on both."""
        outcomes: list[object] = []
        for files, arguments in ((self.real, real), (self.memory, real if memory is None else memory)):
            try:
                outcomes.append(getattr(files, step)(*arguments))
            except OSError as error:
                outcomes.append(("error", error.errno))
        if step.startswith("open") and all(isinstance(each, int) for each in outcomes):
            return outcomes
        assert outcomes[0] == outcomes[1], (step, real)
        return outcomes[0]

    @rule(step=st.sampled_from(["open_append", "open_update", "open_read"]), name=NAMES)
    def opened(self, step: str, name: str) -> None:
        path = self.folder / name
        if step == "open_read" and path.is_dir():  # a folder's descriptor is of no use to anybody
            return
        descriptors = self.same(step, path)
        if not isinstance(descriptors, list):
            return
        self.open.append((step, descriptors[0], descriptors[1]))  # pyright: ignore[reportUnknownArgumentType]

    @rule(data=st.data())
    def used(self, data: st.DataObject) -> None:
        if not self.open:
            return
        opened, real, memory = data.draw(st.sampled_from(self.open))
        step = data.draw(st.sampled_from(["read", "size", "close", *WRITES[opened]]))
        more: tuple[object, ...] = ()
        if step == "append":
            more = (data.draw(st.lists(DATA, min_size=1, max_size=3)),)
        elif step == "write_at":
            more = (data.draw(DATA), data.draw(SIZES))
        elif step == "read":
            more = (data.draw(SIZES), data.draw(SIZES))
        elif step == "truncate":
            more = (data.draw(SIZES),)
        elif step == "close":
            self.open.remove((opened, real, memory))
        self.same(step, real, *more, memory=(memory, *more))

    @rule(step=st.sampled_from(["remove", "size_of", "read_whole", "exists", "is_dir"]), name=NAMES)
    def named(self, step: str, name: str) -> None:
        path = self.folder / name
        if not path.is_dir() or step in ("remove", "exists", "is_dir"):  # the size of a folder is the disk's matter
            self.same(step, path)

    @rule(step=st.sampled_from(["rename", "keep"]), one=NAMES, other=NAMES)
    def moved(self, step: str, one: str, other: str) -> None:
        paths = self.folder / one, self.folder / other
        if one != other and all(path.parent.is_dir() and not path.is_dir() for path in paths):
            self.same(step, *paths)

    @rule(name=NAMES, content=st.lists(DATA, max_size=3))
    def replaced(self, name: str, content: list[bytes]) -> None:
        path = self.folder / name
        if path.parent.is_dir() and not path.is_dir():
            self.same("replace", path, content)

    @rule(name=FOLDERS)
    def made(self, name: str) -> None:
        path = self.folder / name
        self.same("make_entry", path)

    @rule(name=st.sampled_from(["", "inner", "none", "a"]))
    def listed(self, name: str) -> None:
        self.same("names", self.folder / name)

    def teardown(self) -> None:
        for _, real, _ in getattr(self, "open", ()):
            self.real.close(real)


def test_whatever_is_done_is_done_to_both(tmp_path: Path) -> None:
    machine = type("BothHere", (Both,), {"folder": tmp_path / "files"})
    (tmp_path / "files").mkdir()
    case = machine.TestCase
    case.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
    case().runTest()


def test_writing_nothing_past_the_end_leaves_a_file_as_it_is(tmp_path: Path) -> None:
    memory = MemoryFiles()
    memory.make_dirs(tmp_path)
    for files in (Files(), memory):
        descriptor = files.open_update(tmp_path / "a")
        files.write_at(descriptor, b"", 1)
        assert files.size(descriptor) == 0
        files.close(descriptor)


def test_nobody_reads_by_a_descriptor_that_is_closed(tmp_path: Path) -> None:
    files = MemoryFiles()
    files.make_dirs(tmp_path)
    descriptor = files.open_append(tmp_path / "a")
    files.append(descriptor, [b"abc"])
    assert files.size_bytes == 3
    files.close(descriptor)
    for step in (lambda: files.read(descriptor, 1, 0), lambda: files.size(descriptor), lambda: files.close(descriptor)):
        with pytest.raises(OSError, match="Bad file descriptor"):
            step()


def test_a_folder_is_held_and_a_file_that_was_removed_or_replaced_is_gone() -> None:
    files = MemoryFiles()
    files.make_dirs(Path("/a"))
    held = files.lock_folder(Path("/a"))
    assert held is not None
    files.close(held)
    opened = files.open_append(Path("/a/log"))
    assert files.still_has(opened, Path("/a/log"))
    files.remove(Path("/a/log"))
    assert not files.still_has(opened, Path("/a/log"))
    files.open_append(Path("/a/log"))
    assert not files.still_has(opened, Path("/a/log"))
    for path in (Path("/a/log"), Path("/nowhere")):
        with pytest.raises(OSError, match=str(path)):
            files.lock_folder(path)
