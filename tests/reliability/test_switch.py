"""The quick form of `python -m tests.reliability.switch`, and whether it finds what it looks for."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.etcd_server import EtcdServer
from tests.reliability.ledger import Ledger, Reader, Taken
from tests.reliability.network import CONTROL, Network, is_possible
from tests.reliability.switch import parse, percentile, run
from tests.reliability.verdict import find, lost


def test_a_switch_a_death_a_lost_answer_and_a_damaged_disk_lose_nothing_that_was_acknowledged(
    tmp_path: Path, etcd: EtcdServer
) -> None:
    """The run has an etcd of its own; that of the tests says that there is one."""
    assert etcd.address
    faults = {"switches": 1, "deaths": 1, "start-deaths": 1, "lost-replies": 1, "damages": 1, "wipes": 1}
    done = run(tmp_path, faults, seed=3, count=2, store="etcd", consumers=True)
    assert done.findings == []
    assert dict(done.done) == faults
    assert done.messages > 90
    assert done.epochs > 1
    assert len(done.seconds) == len(done.ordered) == 1
    consumers = {f"{kind}_after_{fault}" for kind in ("push", "pull") for fault in ("switch", "death")}
    assert {name: len(seconds) for name, seconds in done.went_on.items()} == dict.fromkeys(consumers, 1)


def test_a_switch_and_a_death_lose_nothing_where_a_bucket_says_who_leads(tmp_path: Path) -> None:
    faults = {"switches": 1, "deaths": 1}
    done = run(tmp_path, faults, seed=5, count=2, store="bucket")
    assert done.findings == []
    assert dict(done.done) == faults


@pytest.mark.skipif(not is_possible(), reason="network namespaces need root and `ip`")
def test_one_way_that_is_cut_loses_nothing_that_was_acknowledged(tmp_path: Path, etcd: EtcdServer) -> None:
    assert etcd.address
    done = run(tmp_path, {"one-way": 3}, seed=4, count=2, store="etcd")
    assert done.findings == []
    assert dict(done.done) == {"one-way": 3}


@pytest.mark.skipif(not is_possible(), reason="network namespaces need root and `ip`")
def test_a_way_that_is_cut_carries_nothing_and_the_way_back_goes_on() -> None:
    asks = """
import itertools, socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(0.05)
for number in itertools.count():
    asking.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
    try:
        sys.exit(int(asking.recv(100)) <= int(sys.argv[3]))
    except TimeoutError:
        pass
"""
    last = 5
    with Network(["0"]) as network, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as answering:
        answering.bind((network.address(CONTROL), 0))
        answering.settimeout(60)
        network.cut(CONTROL, "0")
        where = [str(each) for each in answering.getsockname()]
        process = network.spawn("0", ["python3", "-c", asks, *where, str(last)], {"PATH": "/usr/bin:/bin"})
        # What it sends comes, number by number, as each answer is lost: else it would have ended by that one.
        for number in range(last + 1):
            asked, whom = answering.recvfrom(100)
            assert asked == str(number).encode()
            answering.sendto(asked, whom)
        network.heal()
        asked, whom = answering.recvfrom(100)
        answering.sendto(asked, whom)
        assert process.wait(60) == 0
        assert process.stderr is not None
        process.stderr.close()


def stored(body: str, position: int, message_id: str = "") -> dict[str, Any]:
    place = {"queue_id": 0, "queue_offset": position}
    return {"body": body, "position": position, "message_id": message_id or f"id-{position}", **place}


def test_what_is_lost_twice_out_of_order_or_at_one_place_is_found() -> None:
    ledger = Ledger()
    for number, position in enumerate((3, 4, 5, 5)):
        ledger.sent[f"0-{number}"] = number
        ledger.taken[f"0-{number}"] = Taken(f"id-{position}", position, 0.0)
    sound = [stored("0-0", 3), stored("0-1", 4), stored("0-2", 5), stored("0-3", 5)]
    assert find(ledger, sound) == ["position 5 was acknowledged 2 times"]
    del ledger.taken["0-3"]
    assert find(ledger, sound) == []
    assert find(ledger, sound[1:]) == ["0-0 was acknowledged at 3, and is lost"]
    assert find(ledger, [stored("0-0", 9), *sound[1:]]) == ["0-0 was acknowledged as id-3, and is ('id-9', 9)"]
    assert find(ledger, [*sound, stored("0-3", 6)]) == ["0-3 is stored 2 times", "0-3 comes after 0-3"]
    assert find(ledger, [sound[1], sound[0], *sound[2:]]) == ["0-0 comes after 0-1"]
    assert find(ledger, [*sound, stored("0-9", 9)]) == ["nobody has sent 0-9"]


def test_what_is_cut_under_async_is_no_finding_where_it_was_counted_and_else_it_is() -> None:
    ledger = Ledger(taken={"0-0": Taken("a-1.3", 3, 0.0), "0-1": Taken("a-1.4", 4, 0.0)}, sent={"0-0": 0, "0-1": 1})
    there = [stored("0-0", 3, "a-1.3")]
    assert find(ledger, there, ["a-1.4"]) == []
    assert find(ledger, there, []) == ["0-1 was acknowledged at 4, and is lost"]
    assert lost(ledger, there) == {"a-1.4"}


def test_who_acknowledges_after_a_later_leader_has_is_found() -> None:
    ledger = Ledger(sent={"0-0": 0, "1-0": 1})
    ledger.taken = {"0-0": Taken("a-2.9", 9, at_s=5.0, sent_s=4.0), "1-0": Taken("a-1.4", 4, at_s=6.0, sent_s=4.9)}
    there = [stored("1-0", 4, "a-1.4"), stored("0-0", 9, "a-2.9")]
    assert find(ledger, there) == []
    ledger.taken["1-0"] = Taken("a-1.4", 4, at_s=6.0, sent_s=5.1)
    assert find(ledger, there) == ["1-0 was acknowledged in epoch 1 1000 ms after epoch 2 had begun"]
    ledger.taken["1-0"] = Taken("a-1.4", 4, at_s=6.0, sent_s=5.1, times=2)
    assert find(ledger, there) == []


def test_what_a_reader_was_shown_and_is_gone_is_found() -> None:
    ledger = Ledger(shown={(0, 7): "a-1.3"}, changed=["another"])
    assert find(ledger, []) == ["another", "a-1.3 was shown at (0, 7), and is lost"]
    assert find(ledger, [], []) == []


def test_what_a_reader_was_told_to_go_on_beyond_and_is_there_is_found() -> None:
    """Such as an answer without a message, of a queue that has gone on by what isn't confirmed."""
    answers = iter([([3, 6], 7), ([], 40), ([], 0)])

    def answer(_: httpx.Request) -> httpx.Response:
        offsets, next_offset = next(answers)
        messages = [{"queue_offset": each, "message_id": f"id-{each}"} for each in offsets]
        return httpx.Response(200, json={"messages": messages, "next_offset": next_offset})

    ledger = Ledger(sent={"0-0": 0})
    reader = Reader(["http://one"], ledger, threading.Event())
    with httpx.Client(transport=httpx.MockTransport(answer), timeout=60) as http:
        for _ in range(3):
            reader.read(http, "http://one", 0)
    assert ledger.passed == dict.fromkeys([(0, 0, 3), (0, 4, 6), (0, 7, 40)], "http://one")
    sound = [stored("0-0", 3), stored("0-1", 6), stored("0-2", 40)]
    ledger.sent = {each["body"]: number for number, each in enumerate(sound)}
    assert find(ledger, sound) == []
    there = [*sound[:2], stored("0-2", 39)]
    assert find(ledger, there) == ["id-39 is at (0, 39), and http://one passed over 7 to 39 there"]
    assert find(ledger, there, []) == []


def test_faults_that_a_run_can_not_do_are_refused() -> None:
    assert parse([]).faults["deaths"] == 20
    assert parse(["--store", "etcd", "--store-deaths", "2"]).faults["deaths"] == 0
    for words in (
        ["--lost-replies", "1"],
        ["--ack", "async", "--damages", "1"],
        ["--ack", "async", "--wipes", "1"],
        ["--ack", "async", "--start-deaths", "1"],
        ["--store", "etcd", "--one-way", "1", "--lost-replies", "1"],
        ["--consumers", "--partitions", "1"],
    ):
        with pytest.raises(SystemExit):
            parse(words)


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([3.0, 1.0, 2.0], part) for part in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]
