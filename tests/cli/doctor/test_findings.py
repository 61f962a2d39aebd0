"""What is said to be wrong, by the facts alone."""

from __future__ import annotations

import pytest

from lakemq.cli.doctor import broker, machine
from lakemq.cli.doctor.broker import ADVICE, Broker
from lakemq.cli.doctor.finding import Finding, Grade
from lakemq.cli.doctor.machine import Machine

URL = "http://127.0.0.1:8080"
WELL = Broker(URL, version="1", described={"role": "primary", "jobs": {"lake": {"alive": True}}}, ahead_s=0.1)
SOUND = Machine(
    data_dir="data",
    data_exists=True,
    data_writable=True,
    log_fault="",
    damage="",
    token_mode=0o600,
    free_bytes=80 * 2**30,
    total_bytes=100 * 2**30,
    lake_dir="lake",
    lake_exists=True,
    lake_fault="",
    java_fault="",
    jars_fault="",
    tls_fault="",
    files_max=2**20,
    memory_bytes=8 * 2**30,
    sql_stays="",
)


def of_broker(**facts: object) -> list[Finding]:
    return list(broker.findings_of(WELL._replace(**facts), "1"))


def of_machine(**facts: object) -> list[Finding]:
    return list(machine.findings_of(SOUND._replace(**facts)))


def test_nothing_is_wrong_with_what_is_well() -> None:
    assert of_broker() == []
    assert of_broker(certificate_s=20 * 86_400.0) == []
    assert of_machine() == []


def test_of_a_broker_that_does_not_answer_nothing_else_is_said() -> None:
    (found,) = of_broker(problem="no answer", degraded=["overdue: 3 of kind nack"])
    assert (found.grade, found.about, found.what) == (Grade.DOWN, URL, "no answer")


def test_of_a_broker_that_does_not_let_who_asks_in_only_that_is_said() -> None:
    (found,) = of_broker(not_let_in="this takes a token", degraded=None)
    assert (found.grade, found.what, found.do) == (Grade.WRONG, "this takes a token", "give a token: --token-file")
    (found,) = of_broker(not_trusted="self-signed certificate")
    assert (found.grade, found.what) == (Grade.WRONG, "self-signed certificate")
    assert "LAKEMQ_TLS__CA_FILE" in found.do
    (found,) = of_broker(not_trusted="its certificate is not trusted: certificate has expired")
    assert "tls.cert_file" in found.do, "no authority helps"


DLQ = {"topic": "%DLQ%billing", "queues": [{"min_offset": 2, "max_offset": 7}, {"min_offset": 0, "max_offset": 1}]}


@pytest.mark.parametrize(
    ("facts", "grade", "what"),
    [
        ({"unready": "the disk is full"}, Grade.DOWN, "the disk is full"),
        ({"degraded": None}, Grade.NOTE, "doesn't tell this user"),
        ({"degraded": ["nothing is written: 1 in sync, 2 are needed"]}, Grade.DOWN, "nothing is written"),
        ({"degraded": ["something new"]}, Grade.WRONG, "something new"),
        ({"described": {"role": "primary", "jobs": {}}}, Grade.WRONG, "no jobs"),
        ({"described": {"sql": None, "sql_withheld": "why"}}, Grade.NOTE, "no address for SQL"),
        ({"topics": [DLQ]}, Grade.NOTE, "group billing has 6 dead letters; how many are open is not known"),
        ({"topics": [DLQ], "dead_open": {"other": 4.0}}, Grade.NOTE, "metrics don't name this group"),
        ({"topics": [DLQ], "dead_open": {"billing": 1200.0}}, Grade.NOTE, "group billing has 1,200 open dead letters"),
        ({"dead_open": {"billing": 2.0, "other": 3.0}}, Grade.NOTE, "group billing has 2 open dead letters"),
        ({"groups": [{"group": "g", "subscriptions_differ": True}]}, Grade.WRONG, "different ways"),
        ({"groups": [{"group": "g", "lag_total": 1200, "member_count": 0}]}, Grade.NOTE, "1,200 messages behind"),
        ({"groups": [{"group": "g", "lag_total": 1, "member_count": 0}]}, Grade.NOTE, "is 1 message behind"),
        ({"silent": ["lists are busy"]}, Grade.WRONG, "lists are busy"),
        ({"ahead_s": -7.0}, Grade.WRONG, "differ by 7 s"),
        ({"version": "0.9"}, Grade.NOTE, "lakemq 0.9, and this is 1"),
        ({"metrics": {"lakemq_damaged_segments": 2.0}}, Grade.DOWN, "2 segments"),
        ({"certificate_s": 3.25 * 86_400}, Grade.SOON, "expires in 3.2 days"),
        ({"certificate_s": -1.0}, Grade.WRONG, "has expired"),
        ({"metrics": {"loop_late": 0.01}}, Grade.WRONG, "of 100 turns"),
    ],
    ids=str,
)
def test_each_thing_that_is_wrong_with_a_broker_is_said(facts: dict[str, object], grade: Grade, what: str) -> None:
    (found,) = of_broker(**facts)
    assert found.grade is grade
    assert what in found.what
    assert found.do


@pytest.mark.parametrize("dead_open", [{"billing": 0.0, "other": 3.0}, {"other": 0.0}])
def test_dead_letters_that_are_not_open_any_more_are_nobody_s_concern(dead_open: dict[str, float]) -> None:
    assert of_broker(topics=[DLQ], dead_open=dead_open) == []


@pytest.mark.parametrize(
    ("unready", "do"),
    [
        ("the disk has 1.0 GiB free, below storage.free_bytes_min (2.0 GiB)", "make room"),
        ("the log has 3.0 GiB, and storage.log_bytes_max is 2.0 GiB", "log_bytes_max"),
        ("the log can't be written: Input/output error", "after a start"),
    ],
)
def test_there_is_advice_for_each_reason_for_which_nothing_is_written(unready: str, do: str) -> None:
    (found,) = of_broker(unready=unready)
    assert do in found.do


def test_a_replica_that_is_away_is_to_be_started() -> None:
    """The advice was to read a page that has nothing about it."""
    (found,) = of_broker(degraded=["replica 1 is no longer in sync"])
    assert "start it" in found.do


@pytest.mark.parametrize("begins", ADVICE)
def test_there_is_advice_for_what_a_broker_says(begins: str) -> None:
    (found,) = of_broker(degraded=[f"{begins} ..."])
    assert found.do == ADVICE[begins]


def test_a_follower_has_no_jobs_and_none_are_missed() -> None:
    assert of_broker(described={"role": "follower", "jobs": {}}) == []


def test_who_consumes_late_and_who_is_there_is_left_alone() -> None:
    groups = [{"group": "g", "lag_total": 10, "member_count": 1}, {"group": "h", "lag_total": None, "member_count": 0}]
    assert of_broker(groups=groups, topics=[{"topic": "%DLQ%g", "queues": []}]) == []


@pytest.mark.parametrize(
    ("facts", "grade", "what"),
    [
        ({"data_exists": False}, Grade.NOTE, "no log yet"),
        ({"data_writable": False}, Grade.DOWN, "can't write"),
        ({"log_fault": "a newer lakemq wrote it"}, Grade.DOWN, "a newer lakemq"),
        ({"damage": "0.log is damaged at byte 7"}, Grade.WRONG, "at byte 7"),
        ({"token_mode": 0o644}, Grade.WRONG, "mode 0644"),
        ({"free_bytes": 2**30}, Grade.SOON, "1.0 GiB of 100 are free"),
        ({"lake_fault": "no bucket of that name"}, Grade.WRONG, "no bucket"),
        ({"lake_exists": False}, Grade.NOTE, "no lake yet"),
        ({"java_fault": "there is none"}, Grade.WRONG, "there is none"),
        ({"tls_fault": "it has expired"}, Grade.WRONG, "expired"),
        ({"jars_fault": "they are not there"}, Grade.WRONG, "not there"),
        ({"files_max": 1024}, Grade.SOON, "1,024 files"),
        ({"memory_bytes": 2**30}, Grade.SOON, "1.0 GiB of memory"),
    ],
    ids=str,
)
def test_each_thing_that_is_wrong_with_a_machine_is_said(facts: dict[str, object], grade: Grade, what: str) -> None:
    (found,) = of_machine(**facts)
    assert found.grade is grade
    assert what in found.what
    assert found.do


@pytest.mark.parametrize(
    ("sql", "is_open"), [(None, False), ("http://127.0.0.1:8090", False), ("http://jobs:8090", True), (7, False)]
)
def test_where_a_broker_names_an_address_for_sql_that_others_reach_the_settings_here_say_less(
    sql: object, is_open: bool
) -> None:
    assert broker.is_open(WELL._replace(described={**WELL.described, "sql": sql})) == is_open
