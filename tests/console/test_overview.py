"""What the overview says of what brokers say."""

from __future__ import annotations

from typing import Any

from lakemq.console.looks import Look, Pair
from lakemq.console.overview import PROBLEMS_SHOWN_MAX, overview_of

SAID: dict[str, Any] = {"name": "b", "role": "primary", "replica": 0, "jobs": {}}


def look(
    at_s: float = 10.0, said: dict[str, Any] | None = None, degraded: list[str] | None = None, **samples: Any
) -> Look:
    metrics = {f"lakemq_{name}": value if isinstance(value, dict) else {"": value} for name, value in samples.items()}
    return Look("http://b", at_s, "", SAID | (said or {}), degraded or [], metrics)


def texts(*looks: Look) -> list[str]:
    return [each.text for each in overview_of([Pair(each) for each in looks]).problems]


def test_a_broker_of_which_nothing_is_wrong_has_no_problems() -> None:
    assert texts(look(writable=1, disk_free_bytes=50, disk_bytes=100, disk_full_in_seconds=float("inf"))) == []


def test_each_problem_says_what_to_do() -> None:
    jobs = {"wheel": {"alive": False, "lag": 3}, "lake": {"alive": True, "lag": 0}}
    groups: dict[str, Any] = {
        "group_lag_messages": {"slow": 12.0, "busy": 5.0, "held": 7.0, "ready": 0.0, "other": 9.0},
        "group_members": {"busy": 2.0, "held": 1.0},
        "group_paused": {"slow": 0.0, "busy": 0.0, "held": 1.0, "ready": 1.0, "other": 1.0},
        "group_oldest_unconsumed_seconds": {"slow": 3600.0, "busy": 3600.0, "other": 3600.0},
        "group_dead_letters_open": {"busy": 4.0, "other": 3.0},
    }
    found = overview_of(
        [
            Pair(Look("http://gone", 1.0, "no answer")),
            Pair(look(
                said={"jobs": jobs},
                degraded=["the job wheel is not heard of", "the clock has jumped: 9 s", "overdue: 1 of kind nack"],
                writable=0,
                too_few_replicas=1,
                disk_free_bytes=5,
                disk_bytes=100,
                disk_full_in_seconds=7200,
                overdue={"nack": 1.0, "delay": 0.0},
                **groups,
            )),
        ]
    )  # fmt: skip
    said = [each.text for each in found.problems]
    assert said == [
        "The broker doesn't answer: no answer",
        "The log accepts no messages.",
        "Too few replicas are in sync, so nothing can be written.",
        "The log's disk is 95% full, and full in about 2 h at this pace.",
        "Jobs are silent: wheel.",
        "The clock has jumped: 9 s.",
        "Overdue: 1 retries to decide.",
        "Group slow has no consumers, and a lag of 12.",
        "Group busy has 4 dead letters.",
        "Group held is paused, and has a lag of 7.",
    ]
    assert all(each.todo for each in found.problems)
    assert [each.link for each in found.problems if each.link] == [
        "/groups/slow",
        "/groups/busy/dead-letters",
        "/groups/held",
    ]


def test_what_a_broker_says_of_its_disk_is_said_once() -> None:
    full = look(degraded=["the disk fills up: 95% are used"], disk_free_bytes=5, disk_bytes=100)
    assert texts(full) == ["The disk fills up: 95% are used."]


def test_problems_are_bounded_and_it_is_said_how_many_more() -> None:
    letters = {f"g{number}": 1.0 for number in range(100)}
    found = overview_of([Pair(look(group_lag_messages=dict.fromkeys(letters, 0.0), group_dead_letters_open=letters))])
    assert (len(found.problems), found.more_problems) == (PROBLEMS_SHOWN_MAX, 100 - PROBLEMS_SHOWN_MAX)
    assert len(found.groups) == 10


def test_rates_are_between_two_looks_and_a_count_that_began_anew_begins_at_nothing() -> None:
    rates = [
        overview_of([Pair(look(12.0, messages_in_total=now), look(10.0, messages_in_total=before))]).messages_in
        for before, now in ((100.0, 150.0), (100.0, 20.0))
    ]
    assert rates == [25.0, 10.0]
    assert overview_of([Pair(look(messages_in_total=5.0))]).messages_in is None


def test_of_a_broker_that_tells_no_metrics_nothing_is_made_up() -> None:
    silent = Look("http://b", 1.0, "", SAID, None, {}, True)
    found = overview_of([Pair(silent)])
    assert (found.silent, found.lag, found.lakes, found.messages_in) == (["b"], None, [], None)
