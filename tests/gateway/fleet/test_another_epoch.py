"""A follower that has not heard that another has led: nothing is taken, and nothing counts, before the histories are
compared."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.fleet.follower import Follower
from lakemq.gateway.fleet.primary import Answered, Primary
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.testing import start_gateway
from tests.gateway.fleet.following import SMALL, broker_of
from tests.gateway.fleet.test_cutting import Ended, follow, settings_of
from tests.gateway.http_client import connect, is_problem
from tests.ports import free_port
from tests.storage.harness import LogHarness

LIMITS: dict[str, Any] = {**SMALL, "gateway__wait_ms_max": 500}


class _Elected(CommitLog):
    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.begins_epoch = 2


def write_logs(root: Path, own: int) -> tuple[int, int]:
    """Two logs of one id, the same up to the first of the positions returned: there `old` goes on in epoch 1 with so
    many messages of its own, up to the second one, and `new` in epoch 2 with more."""
    old, new = LogHarness(root / "old"), LogHarness(root / "new")
    old.open().put_topic("t", 1)
    old.append("t", 0, b"both")
    common = old.log.next_position
    old.close()
    shutil.copytree(root / "old", root / "new")
    old.open()
    for number in range(own):
        old.append("t", 0, b"old %d" % number)
    end = old.log.next_position
    old.close()
    new.kind = _Elected
    new.open()
    for number in range(5):
        new.append("t", 0, b"new %d" % number)
    assert new.log.identity.epochs == [*old.log.identity.epochs, (2, common)]
    new.close()
    return common, end


def follow_over_a_switch(root: Path, end: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Ended, list[tuple[int, int]]]:
    """Follow the old log, until just before the follower, which has all of it, asks for more the new one is at its
    address. Returns once more is taken or it follows no more, with the epochs that the follower's log has then."""
    port, ask, led, epochs = free_port(), Primary.frames, ["old"], list[tuple[int, int]]()

    def asks_late(asked: Primary, begin: int, *what: Any) -> Answered:
        if begin == end and led == ["old"]:
            led.append("new")
            leading.close()
            leading.enter_context(start_gateway(root / "new", gateway__port=port, **LIMITS))
        return ask(asked, begin, *what)

    def has_ended(follower: Follower, log: FollowedLog) -> bool:
        epochs[:] = log.identity.epochs
        return follower.fault is not None or log.next_position > end

    monkeypatch.setattr(Primary, "frames", asks_late)
    with ExitStack() as leading:
        leading.enter_context(start_gateway(root / "old", gateway__port=port, **LIMITS))
        ended = follow(settings_of(root / "follower", f"http://127.0.0.1:{port}"), has_ended)
    return ended, epochs


def test_a_follower_that_has_what_the_new_leader_lacks_takes_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common, end = write_logs(tmp_path, own=2)
    ended, epochs = follow_over_a_switch(tmp_path, end, monkeypatch)
    assert (ended.end, epochs) == (end, [(1, 0)])
    assert f"goes on otherwise from {common} on, in epoch 2" in str(ended.follower.fault)
    assert ended.said == [ended.follower.fault]  # and so it begins anew, and cuts that


def test_a_follower_that_ends_where_the_new_epoch_begins_compares_the_histories_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    common, end = write_logs(tmp_path, own=0)
    greet, greeted = Primary.greet, list[int]()

    def greets(asked: Primary) -> Any:
        found = greet(asked)
        greeted.append(found.epoch)
        return found

    monkeypatch.setattr(Primary, "greet", greets)
    ended, epochs = follow_over_a_switch(tmp_path, end, monkeypatch)
    assert (ended.follower.fault, ended.said, epochs) == (None, [], [(1, 0), (2, common)])
    assert greeted[-1] == 2
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


def test_a_question_counts_only_of_a_log_that_the_leaders_goes_on_from(tmp_path: Path) -> None:
    common, _ = write_logs(tmp_path, own=0)
    with start_gateway(tmp_path / "new", **LIMITS) as gateway, connect(gateway) as http:
        end = broker_of(http)["flushed_position"]

        def ask(said: dict[str, Any], begin: int, epoch: int) -> Any:
            return http.get("/v1/log/frames", params={"from": begin, "epoch": epoch, **said})

        played: dict[str, Any] = {"replica": 1, "incarnation": "played", "durable": 0}
        for said in (played, {}):
            for begin, epoch in ((0, 1), (common, 1), (common + 1, 2), (end, 2)):
                answer = ask(said, begin, epoch)
                assert (answer.status_code, answer.headers["lakemq-epoch"]) == (200, "2"), (begin, epoch)
            for begin, epoch, *shared in (
                (common + 1, 1, 1, common),
                (end, 1, 1, common),
                (common - 1, 2, 1, common - 1),
                (end, 3, 2, end),
            ):
                answer = ask(said, begin, epoch)
                assert is_problem(answer, 409, "epoch_diverged"), (begin, epoch)
                assert [answer.json()[name] for name in ("epoch", "position")] == shared
