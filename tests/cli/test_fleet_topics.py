"""The commands about topics, with several brokers that a name server knows."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any

import pytest

from lakemq.cli import shown
from lakemq.client import Admin, PullConsumer
from lakemq.client.http import HttpClient
from lakemq.contract.limits import TIMES_MAX
from lakemq.model.errors import InvalidRequest, SchemaNotFound
from lakemq.testing import MemoryBroker
from tests.cli.fleet import Fleet, lines
from tests.cli.shell import Run
from tests.client.consuming import put, wait_until
from tests.client.name_server import NameServer

_numbers = count()
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"fleet-{next(_numbers)}"


def test_a_topic_is_made_shown_and_deleted_at_all_brokers(run: Run, fleet: Fleet, topic: str) -> None:
    where = ["--nameservers", fleet.nameserver]
    made = run("topic", "create", topic, "--queues", "3", *where)
    assert (made.code, made.stderr) == (0, f"made topic {topic} at a\nmade topic {topic} at b\n")
    shown = lines(run("topic", "show", topic, "--json", *where).stdout)
    assert [(each["broker"], len(each["queues"])) for each in shown] == [("a", 3), ("b", 3)]
    listed = [each for each in lines(run("topic", "list", "--json", *where).stdout) if each["topic"] == topic]
    assert [each["broker"] for each in listed] == ["a", "b"]
    assert run("topic", "list", *where).stdout.count(topic) == 2
    assert run("topic", "delete", topic, "--yes", *where).stderr.count("deleted") == 2
    gone = run("topic", "show", topic, *where)
    assert (gone.code, gone.stderr.count("\n")) == (1, 1)


def test_since_when_queues_have_messages_is_shown_on_request(run: Run, fleet: Fleet, topic: str) -> None:
    with HttpClient(fleet.urls["a"]) as http:
        http.create_topic(topic, TIMES_MAX + 2)
    put(fleet.urls["a"], topic, ["x"])
    with HttpClient(fleet.urls["b"]) as http:
        http.create_topic(topic, 1)
    at_a, at_b = lines(run("topic", "show", topic, "--times", "--json", *fleet.named).stdout)
    assert all("newest_ms" in each for each in (*at_a["queues"], *at_b["queues"]))
    (stored,) = (each["oldest_ms"] for each in at_a["queues"] if each["max_offset"])
    assert [each["oldest_ms"] for each in at_b["queues"]] == [None]
    table = run("topic", "show", topic, "--times", *fleet.named).stdout
    assert table.count(shown.time_of(stored)) == 2
    assert "oldest" not in run("topic", "show", topic, *fleet.named).stdout


@pytest.mark.parametrize("command", ["broker", "topic"])
def test_where_no_name_server_answers_each_command_says_so_in_one_line(run: Run, command: str) -> None:
    refused = run(command, "list", "--nameservers", NOBODY)
    assert (refused.code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert f"no name server answers: {NOBODY}: " in refused.stderr


def test_where_no_broker_is_known_there_is_nobody_to_ask_and_nothing_to_list(run: Run) -> None:
    with NameServer() as server:
        refused = run("topic", "list", "--nameservers", server.url)
        assert (refused.code, refused.stderr) == (1, f"lakemq: no broker is known to {server.url}\n")
        listed = run("broker", "list", "--json", "--nameservers", server.url)
        assert (listed.code, listed.stdout, listed.stderr) == (0, "", "")


def test_brokers_that_are_named_are_asked_too(run: Run, fleet: Fleet, topic: str) -> None:
    both = ",".join(fleet.urls.values())
    assert run("topic", "create", topic, "--broker", both).code == 0
    assert len(fleet.topic("b", topic)["queues"]) == 4
    refused = run("topic", "list", "--broker", both, "--nameservers", fleet.nameserver)
    assert (refused.code, refused.stderr.count("\n")) == (1, 1)
    nobody = run("topic", "list", "--nameservers", "http://127.0.0.1:9")
    assert (nobody.code, nobody.stderr.count("\n")) == (1, 1)


def test_a_group_consumes_from_all_brokers(run: Run, fleet: Fleet, topic: str) -> None:
    for name, url in fleet.urls.items():
        put(url, topic, [f"of {name}"])
    shown = run("consume", topic, "--group", topic, "--max", "2", "--json", "--nameservers", fleet.nameserver)
    assert (shown.code, sorted(each["body"] for each in lines(shown.stdout))) == (0, ["of a", "of b"])


def test_a_topic_is_spread_over_brokers_that_lack_it(run: Run, fleet: Fleet, topic: str) -> None:
    with HttpClient(fleet.urls["a"]) as http:
        http.create_topic(topic, 3, config={"message_type": "fifo", "ttl_ms": 5_000})
    spread = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
    assert spread.code == 0
    assert "may overtake" in spread.stderr
    assert len(fleet.topic("b", topic)["queues"]) == 3
    assert [fleet.topic("b", topic)[name] for name in ("message_type", "ttl_ms")] == ["fifo", 5_000]
    everywhere = run("topic", "config", topic, "--ttl-ms", "7000", "--json", "--nameservers", fleet.nameserver)
    assert [(each["broker"], each["ttl_ms"]) for each in lines(everywhere.stdout)] == [("a", 7_000), ("b", 7_000)]
    again = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
    assert (again.code, again.stderr) == (0, f"topic {topic} is on all brokers that are known\n")
    assert run("topic", "spread", "nobody-has-it", "--nameservers", fleet.nameserver).code == 1


@pytest.mark.parametrize("drain", [[], ["--drain", "--wait", "60"]], ids=["at once", "drained"])
def test_a_topic_is_spread_with_all_versions_of_its_schema(
    run: Run, fleet: Fleet, topic: str, drain: list[str]
) -> None:
    with HttpClient(fleet.urls["a"]) as at_a, HttpClient(fleet.urls["b"]) as at_b:
        at_a.create_topic(topic, 1)
        # No table could be of the first one, whose column has a name with a space.
        for names in (["an id"], ["id", "total"]):
            at_a.set_schema(topic, {"type": "object", "properties": {name: {"type": "integer"} for name in names}})
        at_a.set_schema(topic, at_a.schema(topic)["schema"], table=True)
        spread = run("topic", "spread", topic, *drain, "--nameservers", fleet.nameserver)
        assert spread.code == 0, spread.stderr
        same = ("version", "versions", "type", "schema", "columns", "table")
        for version in (1, 2, None):
            said = [each.schema(topic, version) for each in (at_a, at_b)]
            assert [said[0][name] for name in same] == [said[1][name] for name in same]
    assert [fleet.topic(name, topic)["permission"] for name in "ab"] == ["rw", "rw"]


@pytest.mark.parametrize("drain", [[], ["--drain", "--wait", "60"]], ids=["at once", "drained"])
def test_versions_of_a_schema_have_the_same_numbers_everywhere_also_where_they_begin_later(
    run: Run, fleet: Fleet, topic: str, drain: list[str]
) -> None:
    """They counted from 1 at the others, so `if_version` was refused by one of them, and Avro bodies that name their
    version named another."""

    def avro(*fields: str) -> dict[str, Any]:
        return {
            "type": "record",
            "name": "R",
            "fields": [{"name": each, "type": "long", "default": 0} for each in fields],
        }

    with HttpClient(fleet.urls["a"]) as at_a, HttpClient(fleet.urls["b"]) as at_b:
        at_a.create_topic(topic, 1)
        for names in (["id"], ["id", "total"]):
            at_a.set_schema(topic, {"type": "object", "properties": {name: {"type": "integer"} for name in names}})
        at_a.drop_schema(topic)
        for fields in (["id"], ["id", "total"]):
            at_a.set_schema(topic, avro(*fields), "avro")
        spread = run("topic", "spread", topic, *drain, "--nameservers", fleet.nameserver)
        assert spread.code == 0, spread.stderr
        for version in (3, 4):
            said = [each.schema(topic, version) for each in (at_a, at_b)]
            assert [(each["versions"], each["schema"]) for each in said] == [([3, 4], said[0]["schema"])] * 2
        with Admin(brokers=list(fleet.urls.values())) as admin:
            assert admin.set_schema(topic, avro("id", "total", "tax"), type="avro", if_version=4).version == 5
        assert [each.schema(topic)["versions"] for each in (at_a, at_b)] == [[3, 4, 5]] * 2


def test_a_spread_that_failed_before_it_gave_the_schema_is_made_again(run: Run, fleet: Fleet, topic: str) -> None:
    with HttpClient(fleet.urls["a"]) as at_a, HttpClient(fleet.urls["b"]) as at_b:
        for each in (at_a, at_b):
            each.create_topic(topic, 1)
        at_a.set_schema(topic, {"type": "object", "properties": {"id": {"type": "integer"}}})
        again = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
        assert (again.code, "its schema at b" in again.stderr) == (0, True)
        assert at_b.schema(topic)["schema"] == at_a.schema(topic)["schema"]


def _columns(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "integer"} for name in names}}


def test_a_broker_that_has_some_versions_of_a_schema_gets_the_others(run: Run, fleet: Fleet, topic: str) -> None:
    """Such as after a spread that failed between them: nobody gave it the rest."""
    with HttpClient(fleet.urls["a"]) as at_a, HttpClient(fleet.urls["b"]) as at_b:
        for each in (at_a, at_b):
            each.create_topic(topic, 1)
            each.set_schema(topic, _columns("id"))
        at_a.set_schema(topic, _columns("id", "total"))
        at_a.set_schema(topic, _columns("id", "total", "tax"), table=True, version=5)
        done = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
        assert (done.code, "its schema at b" in done.stderr, "its schema at a" in done.stderr) == (0, True, False)
        for version in (1, 2, 5):
            said = [each.schema(topic, version) for each in (at_a, at_b)]
            assert [(each["versions"], each["schema"], each["table"]) for each in said] == [
                ([1, 2, 5], said[0]["schema"], True)
            ] * 2
        again = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
        assert (again.code, again.stderr) == (0, f"topic {topic} is on all brokers that are known\n")


@pytest.mark.parametrize("drain", [[], ["--drain", "--wait", "60"]], ids=["at once", "drained"])
@pytest.mark.parametrize("has", ["dropped", "another"])
def test_who_can_not_have_the_versions_keeps_no_other_from_the_topic(
    run: Run, fleet: Fleet, topic: str, has: str, drain: list[str]
) -> None:
    with (
        MemoryBroker(broker__name="c") as third,
        HttpClient(fleet.urls["a"]) as at_a,
        HttpClient(fleet.urls["b"]) as at_b,
        HttpClient(third.url) as at_c,
    ):
        for each in (at_a, at_b):
            each.create_topic(topic, 1)
        at_b.set_schema(topic, _columns("other"))
        if has == "dropped":
            at_b.drop_schema(topic)
        for names in (["id"], ["id", "total"]):
            at_a.set_schema(topic, _columns(*names))
        done = run("topic", "spread", topic, *drain, "--broker", ",".join([*fleet.urls.values(), third.url]))
        assert done.code == 0, done.stderr
        refused = next(line for line in done.stderr.splitlines() if "lacks versions of its schema at b" in line)
        assert ("is 2 to" if has == "dropped" else "of number 1, is another schema") in refused
        assert at_c.schema(topic)["versions"] == [1, 2]
        assert len(at_c.topic(topic)["queues"]) == 1
        if has == "another":
            assert at_b.schema(topic)["versions"] == [1]
        else:
            with pytest.raises(SchemaNotFound):
                at_b.schema(topic)


def test_who_is_made_the_topic_and_refuses_its_schema_ends_the_command_with_an_error(
    run: Run, fleet: Fleet, topic: str
) -> None:
    with MemoryBroker(broker__name="c", topics__schemas_bytes_max=10) as small, HttpClient(fleet.urls["a"]) as at_a:
        at_a.create_topic(topic, 1)
        at_a.set_schema(topic, _columns("id"))
        failed = run("topic", "spread", topic, "--broker", f"{fleet.urls['a']},{small.url}")
        assert (failed.code, "schemas_bytes_max" in failed.stderr) == (1, True)


def test_a_schema_is_spread_to_brokers_that_take_no_number_where_they_would_give_the_same(
    run: Run, fleet: Fleet, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older broker refuses the field `version`, whatever it says."""
    given = HttpClient.set_schema

    def set_schema(self: HttpClient, *arguments: Any, version: int | None = None, **options: Any) -> dict[str, Any]:
        if version is not None:
            raise InvalidRequest("version is none of the fields")
        return given(self, *arguments, **options)

    with HttpClient(fleet.urls["a"]) as at_a, HttpClient(fleet.urls["b"]) as at_b:
        at_a.create_topic(topic, 1)
        for names in (["id"], ["id", "total"]):
            at_a.set_schema(topic, _columns(*names))
        monkeypatch.setattr(HttpClient, "set_schema", set_schema)
        done = run("topic", "spread", topic, "--nameservers", fleet.nameserver)
        assert (done.code, at_b.schema(topic)["versions"]) == (0, [1, 2])


def test_a_topic_is_drained_before_it_is_spread(run: Run, fleet: Fleet, topic: str) -> None:
    put(fleet.urls["a"], topic, ["one", "two", "three"])
    drain = ["topic", "spread", topic, "--drain", "--nameservers", fleet.nameserver]
    with PullConsumer(f"group-{topic}", brokers=fleet.urls["a"], consume_from="first") as consumer:
        consumer.subscribe(topic)
        found = list(consumer.poll(1, wait_s=60))
        consumer.commit()
        slow = run(*drain, "--wait", "0")
        assert slow.code == 1
        assert f"group-{topic} 2" in slow.stderr
        assert fleet.topic("a", topic)["permission"] == "rw", "it is as it was"
        assert topic not in _names(fleet, "b")

        def consume() -> None:
            wait_until(lambda: fleet.topic("a", topic)["permission"] == "r")
            texts = [message.text() for message in found]
            while len(texts) < 3:
                texts += [message.text() for message in consumer.poll(wait_s=60)]
            consumer.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        done = run(*drain, "--wait", "60")
        thread.join(60)
    assert (done.code, done.stderr) == (0, f"made topic {topic} at b\ntopic {topic} takes messages again\n")
    assert [fleet.topic(name, topic)["permission"] for name in "ab"] == ["rw", "rw"]
    assert [len(fleet.topic(name, topic)["queues"]) for name in "ab"] == [4, 4]


def _names(fleet: Fleet, name: str) -> list[str]:
    with HttpClient(fleet.urls[name]) as http:
        return [each["topic"] for each in http.topics()]


def test_a_topic_that_is_read_only_is_so_where_it_is_made_too(run: Run, fleet: Fleet, topic: str) -> None:
    with HttpClient(fleet.urls["a"]) as http:
        http.create_topic(topic, 1, "r")
    assert run("topic", "spread", topic, "--nameservers", fleet.nameserver).code == 0
    assert fleet.topic("b", topic)["permission"] == "r"


def test_where_one_broker_can_not_make_it_the_others_are_open_all_the_same(run: Run, fleet: Fleet, topic: str) -> None:
    with MemoryBroker(broker__name="c", topics__queues_max=2, topics__default_queues=2) as small:
        every = ",".join([*fleet.urls.values(), small.url])
        with HttpClient(fleet.urls["a"]) as http:
            http.create_topic(topic, 3)
        failed = run("topic", "spread", topic, "--drain", "--wait", "60", "--broker", every)
        assert (failed.code, failed.stderr.count("made topic")) == (1, 1)
    assert [fleet.topic(name, topic)["permission"] for name in "ab"] == ["rw", "rw"]
