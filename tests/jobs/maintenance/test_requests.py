from __future__ import annotations

import fcntl
import multiprocessing
from multiprocessing.synchronize import Event
from pathlib import Path

from lakemq.jobs.maintenance import requests


def test_a_request_stays_until_it_is_answered_and_counts_its_starts(tmp_path: Path) -> None:
    first = requests.submit(tmp_path, "optimize", {})
    second = requests.submit(tmp_path, "verify", {"a": 1})
    found = {request.request_id: request for request in requests.waiting(tmp_path)}
    assert set(found) == {first, second}
    requests.begin(tmp_path, found[first])
    (again,) = (request for request in requests.waiting(tmp_path) if request.request_id == first)
    assert again.starts == 1
    requests.answer(tmp_path, again, {"result": "done"})
    assert [request.job for request in requests.waiting(tmp_path)] == ["verify"]
    assert requests.take_result(tmp_path, first) == {"result": "done"}
    assert requests.take_result(tmp_path, first) is None


def test_what_is_no_request_is_removed_and_what_nobody_waits_for_is_withdrawn(tmp_path: Path) -> None:
    request_id = requests.submit(tmp_path, "optimize", {})
    folder = tmp_path / requests.FOLDER / "requests"
    (folder / "torn.json").write_text('{"job": ')
    (folder / "other.json").write_text('{"job": "optimize"}')
    assert [request.request_id for request in requests.waiting(tmp_path)] == [request_id]
    assert len(list(folder.iterdir())) == 1
    requests.withdraw(tmp_path, request_id)
    requests.withdraw(tmp_path, request_id)
    assert requests.waiting(tmp_path) == []


def test_a_lake_is_held_while_another_process_has_its_lock(tmp_path: Path) -> None:
    assert not requests.is_held(tmp_path)
    (tmp_path / "_lock").touch()
    assert not requests.is_held(tmp_path)
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "_lock", held, done))
    holder.start()
    try:
        assert held.wait(60)
        assert requests.is_held(tmp_path)
    finally:
        done.set()
        holder.join()
    assert not requests.is_held(tmp_path)


def _hold(file: Path, held: Event, done: Event) -> None:
    with file.open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        held.set()
        done.wait(60)
