"""The commands about messages and groups, with several brokers that a name server knows."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from lakemq.client import Producer, PullConsumer
from lakemq.client.http import HttpClient
from lakemq.client.message import Nack
from lakemq.model.message import Draft
from tests.cli.fleet import Fleet, lines
from tests.cli.shell import Run
from tests.client.consuming import wait_until
from tests.client.producing import bodies

_numbers = itertools.count()


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"messages-{next(_numbers)}"


def produce_to_all(run: Run, fleet: Fleet, topic: str, *options: str) -> list[str]:
    """Produce messages, `0` and so on, until each broker has one; their ids."""
    ids: list[str] = []
    while {each.split(".")[0] for each in ids} != set(fleet.urls):
        said = run("produce", topic, f"{len(ids)}", "--json", *options, *fleet.named)
        ids.append(lines(said.stdout)[0]["message_id"])
    return ids


def stored(fleet: Fleet, topic: str) -> dict[str, list[str]]:
    """The bodies at each broker."""
    return {name: [body.decode() for body in bodies(url, topic)] for name, url in fleet.urls.items()}


def test_messages_go_round_the_brokers_and_are_pulled_from_all(run: Run, fleet: Fleet, topic: str) -> None:
    sent = [f"{number}" for number in range(len(produce_to_all(run, fleet, topic)))]
    with HttpClient(fleet.urls["b"]) as http:
        assert len(http.topic(topic)["queues"]) == 4, "one that is made by its first message is made at all"
    pulled = run("pull", topic, "--json", *fleet.named)
    assert sorted(each["body"] for each in lines(pulled.stdout)) == sorted(sent)
    assert "queue 0 at a: " in pulled.stderr
    assert run("pull", topic, *fleet.named).stdout.count("a.") >= 1
    one = lines(run("pull", topic, "--queue", "0", "--json", *fleet.named).stdout)
    assert {each["queue_id"] for each in one} <= {0}
    waits = run("pull", topic, "--queue", "0", "--wait-ms", "1", *fleet.named)
    assert (waits.code, "--broker" in waits.stderr) == (2, True)
    gone = run("pull", topic, "--queue", "77", *fleet.named)
    assert (gone.code, gone.stderr.count("\n")) == (1, 1)


def test_ordered_messages_go_where_clients_send_them(run: Run, fleet: Fleet, topic: str, tmp_path: Path) -> None:
    keys = [f"key-{number}" for number in range(8)]
    with Producer(nameservers=fleet.nameserver) as producer:
        expected = {key: producer.send(topic, "by a client", ordering_key=key) for key in keys}
        pinned = producer.send(topic, "by a client", queue_id=2)
    assert {receipt.broker for receipt in expected.values()} == {"a", "b"}
    for key in keys[:3]:
        said = lines(run("produce", topic, "x", "--ordering-key", key, "--json", *fleet.named).stdout)
        assert (said[0]["message_id"].split(".")[0], said[0]["queue_id"]) == (
            expected[key].broker,
            expected[key].queue_id,
        )
    said = lines(run("produce", topic, "x", "--queue", "2", "--json", *fleet.named).stdout)
    assert said[0]["message_id"].split(".")[0] == pinned.broker
    file = tmp_path / "lines"
    file.write_text("".join(f'{{"body": "{key}", "ordering_key": "{key}"}}\n' for key in keys) + '{"body": "any"}\n')
    assert run("produce", topic, "--file", str(file), *fleet.named).stderr == f"9 messages to {topic}\n"
    found = stored(fleet, topic)
    assert all(key in found[expected[key].broker] for key in keys)
    file.write_text('{"body": 7, "ordering_key": "k"}\nno json\n')
    refused = run("produce", topic, "--file", str(file), *fleet.named)
    assert (refused.code, refused.stderr.count("\n")) == (1, 1)


def test_a_broker_that_is_away_is_left_out(run: Run, fleet: Fleet, topic: str) -> None:
    from tests.client.name_server import NameServer

    with NameServer() as server:
        server.put("a", fleet.urls["a"], topics={})
        server.put("gone", "http://127.0.0.1:1", topics={})
        for number in range(2):
            assert run("produce", topic, f"{number}", "--nameservers", server.url).code == 0
    assert sorted(bodies(fleet.urls["a"], topic)) == [b"0", b"1"]


def test_a_message_is_found_wherever_it_is(run: Run, fleet: Fleet, topic: str) -> None:
    ids = produce_to_all(run, fleet, topic, "--key", "42")
    for number, each in enumerate(ids):
        assert lines(run("message", "get", each, "--json", *fleet.named).stdout)[0]["body"] == f"{number}"
    by_key = lines(run("message", "search", topic, "--key", "42", "--json", *fleet.named).stdout)
    assert sorted(each["body"] for each in by_key) == sorted(f"{number}" for number in range(len(ids)))
    times = [each["store_time_ms"] for each in by_key]
    assert times == sorted(times, reverse=True), "newest first"
    newest = lines(run("message", "search", topic, "--max", "1", "--json", *fleet.named).stdout)
    assert [each["store_time_ms"] for each in newest] == times[:1]
    stranger = run("message", "get", "c.5b1f3c6e0d0a-1.0", *fleet.named)
    assert (stranger.code, "none of the brokers a, b" in stranger.stderr) == (1, True)
    later = run("produce", topic, "later", "--delay", "10m", "--json", *fleet.named)
    recalled = run("message", "recall", lines(later.stdout)[0]["message_id"], *fleet.named)
    assert recalled.code == 0, recalled.stderr


def test_groups_are_shown_and_cared_for_at_all_brokers(run: Run, fleet: Fleet, topic: str) -> None:
    group = f"group-{topic}"
    count = len(produce_to_all(run, fleet, topic))
    with PullConsumer(group, nameservers=fleet.nameserver, consume_from="first") as consumer:
        consumer.subscribe(topic)
        texts: list[str] = []
        while len(texts) < count:
            texts += [message.text() for message in consumer.poll()]
        consumer.commit()
        assert run("group", "show", group, *fleet.named).stdout.count(consumer.client_id[:8]) == 2
        assert run("group", "delete", group, "--yes", *fleet.named).code == 1, "it has members"
    listed = [each for each in lines(run("group", "list", "--json", *fleet.named).stdout) if each["group"] == group]
    assert [(each["broker"], each["lag_total"]) for each in listed] == [("a", 0), ("b", 0)]
    assert run("group", "list", *fleet.named).stdout.count(group) == 2
    reset = lines(run("group", "reset", group, topic, "--to", "earliest", "--yes", "--json", *fleet.named).stdout)
    assert {each["broker"] for each in reset} == {"a", "b"}
    assert "queue" in run("group", "reset", group, topic, "--to", "earliest", "--yes", *fleet.named).stdout
    lag = lines(run("group", "lag", group, "--json", *fleet.named).stdout)
    assert sum(each["lag"] for each in lag if each["topic"] == topic) == count
    assert {each["broker"] for each in lag} == {"a", "b"}
    assert f"{count}" in run("group", "lag", group, *fleet.named).stdout.splitlines()[-2]
    shown = lines(run("group", "show", group, "--json", *fleet.named).stdout)
    assert [each["broker"] for each in shown] == ["a", "b"]
    with HttpClient(fleet.urls["a"]) as http:
        http.delete_group(group)
    deleted = run("group", "delete", group, "--yes", *fleet.named)
    assert (deleted.code, deleted.stderr) == (0, f"lakemq: group {group} is deleted at b\n"), "where it is still"
    assert run("group", "show", group, *fleet.named).code == 1


def test_dead_letters_of_all_brokers_are_sent_again(run: Run, fleet: Fleet, topic: str) -> None:
    group = f"group-{topic}"
    for url in fleet.urls.values():
        with HttpClient(url) as http:
            http.create_topic(topic, 1)
    with PullConsumer(group, nameservers=fleet.nameserver) as consumer:
        consumer.subscribe(topic)
        consumer.start()
    done = run("group", "redrive", group, "--where", "true", *fleet.named)
    assert (done.code, done.stdout) == (0, f"0 of 0 dead letters sent to {group} again\n")
    counted = run("group", "redrive", group, "--where", "true", "--dry-run", *fleet.named)
    assert counted.stdout == f"0 dead letters of {group} match; none was sent\n"
    assert len(lines(run("group", "redrive", group, "--where", "true", "--json", *fleet.named).stdout)) == 2


def is_dead(http: HttpClient, group: str, letters: int) -> bool:
    """Whether the group has so many dead letters."""
    return len(http.dead_letters(group).letters) == letters


def test_causes_of_dead_letters_are_counted_of_all_brokers_together(run: Run, fleet: Fleet, topic: str) -> None:
    group = f"group-{topic}"
    times: list[int] = []
    for url in fleet.urls.values():
        with HttpClient(url) as http:
            receipts = http.produce(topic, [Draft(b"x"), Draft(b"y"), Draft(b"z")])
            reasons = ({"class": "TimeoutError", "text": "late"}, {"class": "TimeoutError"}, None)
            for receipt, why in zip(receipts, reasons, strict=True):
                http.nack(group, [Nack(receipt.message_id, delay_level=-1, reason=why)])
            wait_until(partial(is_dead, http, group, 3))
            times += [each.failed_ms or 0 for each in http.dead_letters(group, cause="TimeoutError").letters]
    causes = ("dead-letters", "causes", group, *fleet.named)
    by_class, without = lines(run(*causes, "--json").stdout)
    assert by_class == {"cause": "TimeoutError", "letters": 4, "oldest_ms": min(times), "newest_ms": max(times)}
    assert (without["cause"], without["letters"]) == ("", 2)
    shown = run(*causes, "--max", "2")
    assert (shown.code, "no reason given" in shown.stdout, "TimeoutError" in shown.stdout) == (0, True, True)
    assert shown.stderr == "lakemq: there are older ones; --max counts more than 2\n"
    assert run(*causes).stderr == ""
    assert run(*causes, "--topic", f"{topic}-not", "--json").stdout == ""
    listed = lines(run("dead-letters", "list", group, "--cause", "", "--json", *fleet.named).stdout)
    assert [each["failure_class"] for each in listed] == [None, None]
    assert run("dead-letters", "causes", f"{group}-not", *fleet.named).code == 1
