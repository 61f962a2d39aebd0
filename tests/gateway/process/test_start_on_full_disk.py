"""A start after a power cut, on a disk that has no room."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from lakemq.gateway.process.server import serve
from lakemq.model.errors import LakemqError
from lakemq.settings import Gateway, Settings, Storage
from lakemq.testing.faulty_files import FaultyFiles
from lakemq.web.server import Server
from tests.storage.harness import LogHarness


def test_it_says_how_much_it_needs_and_starts_with_that(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path).open()
    harness.put_topic("a")
    harness.flush()
    begin = harness.active.size
    for number in range(20):
        harness.append("a", 0, b"message %d" % number * 1000)
    harness.crash()
    (path,) = harness.segment_paths()
    content = bytearray(path.read_bytes())
    content[begin + 20] ^= 1
    path.write_bytes(content)
    files = FaultyFiles()
    files.boots = harness.files.boots + 1
    settings = Settings(storage=Storage(data_dir=tmp_path), gateway=Gateway(port=0))
    started: list[str] = []

    def stop(server: Server, url: str) -> None:
        started.append(url)
        server.stop(drains=False)

    files.room_bytes = 10
    with pytest.raises(LakemqError, match="Nothing is lost so far") as error:
        asyncio.run(serve(settings, stop, files=files))
    needed = re.search(r"Make ([0-9]+) MiB of room", error.value.detail)
    assert needed is not None
    assert not started
    assert path.read_bytes() == content
    files.room_bytes = int(needed[1]) * 2**20
    asyncio.run(serve(settings, stop, files=files))
    assert started
    assert path.with_name(f"{path.name}.torn-1").read_bytes() == content[begin:]
