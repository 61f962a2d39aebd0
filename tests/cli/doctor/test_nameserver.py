"""What `lakemq doctor` says of name servers: by the facts alone, and with real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakemq.cli.doctor.broker import Broker
from lakemq.cli.doctor.finding import Grade
from lakemq.cli.doctor.nameserver import NameServer, findings_of, lines_of
from lakemq.testing import start_gateway, start_nameserver
from lakemq.wire.name_servers import Replica
from tests.cli.shell import Run
from tests.gateway.routing.asking import wait_until
from tests.ports import free_port

BROKER = Broker("http://a:8080", described={"name": "a", "replica": 0, "role": "primary", "epoch": 3})
OWN = Replica("a", "default", 0, "http://a:8080", "primary", 3, "rw", 1, 10, "log")
OTHER = OWN._replace(broker="b")


def test_nothing_is_wrong_where_all_say_what_the_broker_says() -> None:
    servers = [NameServer("http://n1", [OWN, OTHER]), NameServer("http://n2", [OTHER, OWN])]
    assert list(findings_of(servers, [BROKER])) == []
    assert list(lines_of(servers[:1], [BROKER])) == ["http://n1 knows it as primary in epoch 3 (replica 0 of a)"]
    assert list(lines_of(servers[:1], [])) == ["http://n1 answers, and knows 2 replicas"]


@pytest.mark.parametrize(
    ("replicas", "what"),
    [
        ([OTHER], "it doesn't know replica 0 of a, which answers at http://a:8080"),
        ([OTHER, OWN._replace(role="follower")], "it knows it as follower in epoch 3: replica 0 of a, which itself"),
        ([OTHER, OWN._replace(epoch=2)], "says that it is primary in epoch 3"),
        ([OWN], "they differ on replica 0 of b: http://n1 knows it as primary in epoch 3; http://n2 doesn't know it"),
        ([OWN, OTHER._replace(epoch=4)], "http://n2 knows it as primary in epoch 4"),
    ],
)
def test_one_that_says_something_else_is_wrong(replicas: list[Replica], what: str) -> None:
    servers = [NameServer("http://n1", [OWN, OTHER]), NameServer("http://n2", replicas)]
    (found,) = findings_of(servers, [BROKER])
    assert found.grade is Grade.WRONG
    assert what in found.what


def test_one_that_is_silent_is_wrong_and_all_are_down() -> None:
    silent = NameServer("http://n2", problem="no answer")
    (found,) = findings_of([NameServer("http://n1", [OWN]), silent], [BROKER])
    assert (found.grade, found.about, found.what) == (Grade.WRONG, "http://n2", "no answer")
    assert [each.grade for each in findings_of([silent], [BROKER])] == [Grade.WRONG, Grade.DOWN]
    assert list(lines_of([silent], [BROKER])) == ["http://n2 doesn't answer"]


def test_where_they_know_no_broker_or_no_primary_of_one_it_is_down() -> None:
    (none,) = findings_of([NameServer("http://n1"), NameServer("http://n2")], [])
    assert (none.grade, none.what) == (Grade.DOWN, "they know no broker: clients find none")
    follower = OWN._replace(role="follower")
    (headless,) = findings_of([NameServer("http://n1", [follower, OTHER])], [])
    assert (headless.grade, headless.about) == (Grade.DOWN, "a")
    assert "no name server knows a primary" in headless.what


def test_each_name_server_is_asked_what_it_knows(run: Run, tmp_path: Path) -> None:
    silent = f"http://127.0.0.1:{free_port()}"
    folders = ("--data-dir", str(tmp_path / "data"), "--lake", str(tmp_path / "lake"))
    with start_nameserver() as first, start_nameserver() as second:
        with start_gateway(tmp_path / "data", fleet__nameservers=first.url):
            asking = ("doctor", "--nameservers", f"{first.url},{second.url},{silent}", *folders)
            wait_until(lambda: "as primary" in run(*asking).stdout)
            done, told = run(*asking), run(*asking, "--json").stdout.splitlines()
        assert f"name server {first.url} knows it as primary in epoch" in done.stdout
        assert f"name server {second.url} doesn't know it" in done.stdout
        assert f"name server {silent} doesn't answer" in done.stdout
        found = {each["about"]: each for each in map(json.loads, told)}
        assert first.url not in found
        assert (done.code, found[second.url]["grade"], found[silent]["grade"]) == (1, "wrong", "wrong")
    with start_nameserver() as empty:
        found = run("doctor", "--nameservers", empty.url, *folders)
        assert (found.code, "they know no broker: clients find none" in found.stdout) == (1, True)
    down = run("doctor", "--nameservers", silent, *folders)
    assert (down.code, "no name server answers: clients" in down.stdout) == (1, True)
