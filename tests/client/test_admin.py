"""What an admin does at a real gateway, and at two of them together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import httpx
import pytest

from lakemq.client import (
    Admin,
    AlreadyDelivered,
    ClientNotFound,
    Closed,
    GroupInUse,
    GroupNotFound,
    InvalidRequest,
    InvalidTopic,
    MessageNotFound,
    MessageQueue,
    PolicyInfo,
    Producer,
    PullConsumer,
    Resolution,
    SimpleConsumer,
    TokenNotFound,
    TopicNotFound,
    TransactionResolved,
    Unreachable,
    UserNotFound,
    WrongType,
    aio,
)
from lakemq.client.http import HttpClient
from lakemq.client.manage import waiting
from lakemq.client.manage.messages import PAGE
from lakemq.contract.limits import TIMES_MAX
from lakemq.model.message import Draft
from lakemq.testing import GatewayProcess
from tests.client.consuming import make_topic, numbered, put

Two = tuple[GatewayProcess, GatewayProcess]


def urls(brokers: Two) -> list[str]:
    """Their addresses."""
    return [each.url for each in brokers]


def test_a_topic_is_made_changed_and_deleted_at_all_brokers(two_brokers: Two, topic: str) -> None:
    with Admin(brokers=urls(two_brokers)) as admin:
        made = admin.create_topic(topic, queues=1, ttl=timedelta(minutes=1), message_type="normal")
        assert (made.brokers, made.ttl_ms, made.message_type) == (("broker-a", "broker-b"), 60_000, "normal")
        assert [each.queue for each in made.queues] == [MessageQueue(topic, name, 0) for name in made.brokers]
        admin.configure_topic(topic, queues=2, permission="r", broker="broker-b")
        found = admin.topic(topic)
        assert (found.permission, found.differs, len(found.queues)) == ("rw", True, 3)
        assert admin.topic(topic, broker="broker-b").permission == "r"
        assert [each for each in admin.topics() if each.topic == topic] == [found]
        admin.delete_topic(topic, broker="broker-b")
        assert admin.topic(topic).brokers == ("broker-a",)
        assert admin.configure_topic(topic, ttl=timedelta(0)).brokers == ("broker-a",), "it is made nowhere"
        admin.delete_topic(topic)
        with pytest.raises(TopicNotFound):
            admin.configure_topic(topic, queues=2)


def test_a_user_has_policies_and_tokens_at_all_brokers(two_brokers: Two) -> None:
    with Admin(brokers=urls(two_brokers)) as admin:
        made = admin.put_user("ada", quotas={"requests_per_s": 10})
        assert (made.type, made.status, made.brokers) == ("normal", "enabled", ("broker-a", "broker-b"))
        assert (made.quotas["requests_per_s"], made.quotas["connections"]) == (10, None)
        may_send = PolicyInfo("Topic:ada*", ("Pub",), sources=("127.0.0.0/8",))
        never = PolicyInfo("Topic:ada-old", ("Pub", "Sub"), "deny")
        assert set(admin.set_policies("ada", [may_send, never]).policies) == {may_send, never}
        asked = admin.may("ada", "Pub", "Topic:ada-1", source="127.0.0.1")
        assert {name: answer.allowed for name, answer in asked.items()} == {"broker-a": True, "broker-b": True}
        assert not admin.may("ada", "Pub", "Topic:ada-old", broker="broker-b")["broker-b"].allowed
        token = admin.create_token("ada", expires=timedelta(days=1))
        assert token.token not in repr(token)
        for each in two_brokers:
            with Producer(each.url, token=token.token) as producer:
                producer.send("ada-1", "hello")
        forever = admin.create_token("ada", broker="broker-b")
        assert [each.token_id for each in admin.user("ada", broker="broker-a").tokens] == [token.token_id]
        assert forever.expires_ms is None
        admin.delete_token("ada", forever.token_id)
        with pytest.raises(TokenNotFound):
            admin.delete_token("ada", forever.token_id)
        with pytest.raises(InvalidRequest, match="less than 1,157 days"):
            admin.create_token("ada", expires=timedelta(days=2_000))
        with pytest.raises(InvalidRequest, match="time zone"):
            admin.create_token("ada", expires=datetime(2030, 1, 1))  # noqa: DTZ001
        assert "ada" in [each.user for each in admin.users()]
        admin.delete_user("ada", broker="broker-a")
        assert admin.user("ada").brokers == ("broker-b",)
        with pytest.raises(UserNotFound):
            admin.create_token("ada", broker="broker-a")
        admin.delete_user("ada")
        with pytest.raises(UserNotFound):
            admin.user("ada")


def test_since_when_queues_of_all_brokers_have_messages_is_told_on_request(two_brokers: Two, topic: str) -> None:
    many = 2 * TIMES_MAX + 2
    url_a, url_b = urls(two_brokers)
    sent = [(url_a, 0), *((url_b, at) for at in (1, TIMES_MAX, many - 1))]
    with Admin(brokers=urls(two_brokers)) as admin:
        admin.create_topic(topic, queues=1, broker="broker-a")
        admin.create_topic(topic, queues=many, broker="broker-b")
        for url, number in sent * 2:
            body = {"messages": [{"body": "x", "queue_id": number}]}
            httpx.post(f"{url}/v1/topics/{topic}/messages", json=body, timeout=60).raise_for_status()
        stored: dict[MessageQueue, list[int]] = {}
        for message in admin.messages(topic):
            stored.setdefault(message.queue, []).append(message.store_time_ms)
        timed = admin.topic(topic, times=True)
        told = {each.queue: [each.oldest_ms, each.newest_ms] for each in timed.queues if each.oldest_ms is not None}
        assert told == stored
        assert len(told) == len(sent)
        without = admin.topic(topic)
        assert without.queues == tuple(each._replace(oldest_ms=None, newest_ms=None) for each in timed.queues)


def test_what_is_wrong_is_told_with_the_brokers_name(two_brokers: Two, topic: str) -> None:
    with Admin(brokers=urls(two_brokers)) as admin:
        with pytest.raises(InvalidRequest, match="broker-a: message_type is one of") as raised:
            admin.create_topic(topic, message_type="odd")
        assert raised.value.status == 400
        assert raised.value.request_id
        with pytest.raises(InvalidRequest, match="there is no broker 'c'; there is broker-a, broker-b"):
            admin.topics(broker="c")
        with pytest.raises(MessageNotFound, match="is of none of the brokers"):
            admin.message("broker-c.5b1f3c6e0d0a-1.0")
        with pytest.raises(WrongType):
            admin.create_topic(topic, ttl=60)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Closed):
        admin.topics()
    with pytest.raises(TypeError, match="there is no option 'broker'"):
        Admin(broker="http://127.0.0.1:1")  # pyright: ignore[reportCallIssue]


def test_a_reset_is_what_its_preview_said(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 2)
    put(gateway.url, topic, numbered(6), queue_id=1)
    with Admin(brokers=gateway.url) as admin:
        with PullConsumer(group, brokers=gateway.url) as consumer:
            consumer.assign(consumer.queues_of(topic))
            consumer.seek_to_end()
        first, second = (MessageQueue(topic, "broker-a", number) for number in range(2))
        assert [(each.queue, each.offset, each.lag) for each in admin.lag(group, topic)] == [
            (first, 0, 0),
            (second, 6, 0),
        ]
        for place in (datetime(2020, 1, 1, tzinfo=UTC), "earliest"):
            preview = admin.reset_offsets(group, topic, place, dry_run=True)  # pyright: ignore[reportArgumentType]
            assert preview == [(first, 0, 0), (second, 6, 0)]
            assert admin.lag(group, topic)[1].lag == 0, "nothing has changed"
        assert admin.reset_offsets(group, topic, "earliest") == preview
        assert admin.group(group).lag_total == 6
        assert admin.reset_offsets(group, topic, "latest") == [(first, 0, 0), (second, 0, 6)]
        with pytest.raises(WrongType):
            admin.reset_offsets(group, topic, "first")  # pyright: ignore[reportArgumentType]


def test_a_group_is_paused_and_deleted_once_nobody_is_in_it(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["m"])
    with Admin(brokers=gateway.url) as admin:
        with PullConsumer(group, brokers=gateway.url, client_id="me") as consumer:
            consumer.subscribe(topic)
            consumer.start()
            found = admin.group(group)
            [member] = found.members
            assert (member.client_id, member.subscriptions[-1].topic) == ("me", topic)
            [client] = admin.clients(group)
            assert (client.client_id, client.kind, client.language) == ("me", "consumer", "python")
            assert client in [each._replace(heartbeat_age_ms=client.heartbeat_age_ms) for each in admin.clients()]
            assert not client.paused_by_operator
            admin.pause_client(group, "me")
            assert admin.clients(group)[0].paused_by_operator
            admin.resume_client(group, "me")
            with pytest.raises(ClientNotFound):
                admin.pause_client(group, "you")
            with pytest.raises(GroupInUse):
                admin.delete_group(group)
        admin.pause_group(group)
        assert [each.paused for each in admin.groups() if each.group == group] == [True]
        admin.resume_group(group)
        assert not admin.group(group).paused
        admin.delete_group(group)
        with pytest.raises(GroupNotFound):
            admin.group(group)
        with pytest.raises(InvalidRequest, match="not both"):
            admin.clients(group, producer_group=group)


def test_messages_of_all_queues_come_as_they_were_stored(two_brokers: Two, topic: str) -> None:
    for number in range(12):
        put(two_brokers[number % 2].url, topic, [str(number)], tag="ab"[number % 3 == 0])
    with Admin(brokers=urls(two_brokers)) as admin:
        found = list(admin.messages(topic))
        assert [message.store_time_ms for message in found] == sorted(message.store_time_ms for message in found)
        assert {message.text() for message in found} == {str(number) for number in range(12)}
        assert [message.text() for message in admin.messages(topic, tags="b")] == ["0", "3", "6", "9"]
        assert {message.queue_offset for message in admin.messages(topic, begin=1, end=2)} == {1}
        middle = datetime.fromtimestamp(found[6].store_time_ms / 1000, UTC)
        before, after = list(admin.messages(topic, end=middle)), list(admin.messages(topic, begin=middle))
        assert len(before) + len(after) == 12
        assert all(message.store_time_ms < found[6].store_time_ms for message in before)
        with pytest.raises(WrongType):
            next(admin.messages(topic, begin="yesterday"))  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidRequest, match="time zone"):
            next(admin.messages(topic, begin=datetime(2026, 1, 1)))  # noqa: DTZ001


def test_pages_of_messages_meet_without_a_gap_or_a_double(gateway: GatewayProcess, topic: str) -> None:
    count = PAGE * 2 + 7
    make_topic(gateway.url, topic, 2)
    with HttpClient(gateway.url) as http:
        for begin in range(0, count, 100):  # pages meet where several messages were stored together
            texts = numbered(count)[begin : begin + 100]
            http.produce(topic, [Draft(text.encode(), keys=["k"]) for text in texts])
    with Admin(brokers=gateway.url) as admin:
        assert sorted(message.text() for message in admin.messages(topic)) == sorted(numbered(count))
        found = list(admin.messages_by_key(topic, "k"))
        assert all(before.position > after.position for before, after in pairwise(found))
        assert sorted(message.text() for message in found) == sorted(numbered(count))
        assert list(admin.messages_by_key(topic, "k", end=datetime.fromtimestamp(1, UTC))) == []
        assert list(admin.messages_by_key(topic, "other")) == []


def test_a_message_is_found_and_a_scheduled_one_taken_back(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url) as producer, Admin(brokers=gateway.url) as admin:
        sent = producer.send(topic, "now")
        assert admin.message(sent.message_id).text() == "now"
        late = producer.send(topic, "later", delay=timedelta(days=1))
        admin.recall(late.message_id)
        admin.recall(late.message_id)
        with pytest.raises(InvalidRequest):
            admin.recall(sent.message_id)
        soon = producer.send(topic, "soon", delay=0.001)
        while not any(message.text() == "soon" for message in admin.messages(topic)):
            pass
        with pytest.raises(AlreadyDelivered):
            admin.recall(soon.message_id)


def test_dead_letters_of_all_brokers_are_redriven(two_brokers: Two, topic: str, group: str) -> None:
    for broker in two_brokers:
        put(broker.url, topic, ["x", "y", "keep"])
    with SimpleConsumer(group, brokers=urls(two_brokers)) as consumer, Admin(brokers=urls(two_brokers)) as admin:
        for message in islice(consumer.messages(topic, max_messages=10, idle_s=60), 6):
            consumer.nack(message, delay_level=-1, reason=message.text())
        assert consumer.receive(topic, wait_s=0) == []
        assert {(each.kind, each.client_id) for each in admin.clients(group)} == {("receiver", None)}
        assert (
            sorted(each.failure_text or "" for each in admin.dead_letters(group))
            == ["keep"] * 2 + ["x"] * 2 + ["y"] * 2
        )
        [letter] = admin.dead_letters(group, reason="keep", broker="broker-b")
        assert admin.message(letter.message_id or "").text() == "keep"
        died = admin.dead_letter_causes(group)
        assert [each[:2] for each in died.causes] == [("keep", 2), ("x", 2), ("y", 2)]
        assert not died.truncated
        for cause, count, oldest_ms, newest_ms in died.causes:
            times = [each.failed_ms or 0 for each in admin.dead_letters(group, cause=cause)]
            assert (len(times), min(times), max(times)) == (count, oldest_ms, newest_ms)
        newest = admin.dead_letter_causes(group, letters_max=2, broker="broker-b")
        assert (sum(each.letters for each in newest.causes), newest.truncated) == (2, True)
        assert not admin.dead_letter_causes(group, letters_max=3).truncated
        assert admin.dead_letter_causes(group, topic=f"{topic}-not") == ((), False)
        where = "failure_text <> 'keep'"
        assert admin.redrive(group, where, dry_run=True).matched == 4
        redrive = admin.redrive(group, where, rate_per_s=1000)
        assert len(redrive.ids) == 2
        steps = list(admin.watch_redrive(redrive, timedelta(milliseconds=20)))
        assert (steps[-1].matched, steps[-1].redriven, steps[-1].running) == (4, 4, False)
        assert [each.status for each in admin.redrive_results(redrive)] == ["redriven"] * 4
        assert admin.redrive_progress(redrive.ids[0]).redriven == 2
        assert len(list(admin.dead_letters(group, state="redriven"))) == 4
        assert [each.cause for each in admin.dead_letter_causes(group).causes] == ["keep"]
        assert sum(each.letters for each in admin.dead_letter_causes(group, state=None).causes) == 6
        assert list(admin.dead_letters(group, end=datetime.fromtimestamp(1, UTC))) == []
        assert admin.redrive(group).matched == 2, "the rest"
        with pytest.raises(GroupNotFound):
            next(admin.dead_letters(f"{group}-not"))
        with pytest.raises(GroupNotFound):
            admin.dead_letter_causes(f"{group}-not")
        with pytest.raises(InvalidRequest, match="letters_max"):
            admin.dead_letter_causes(group, letters_max=0)


def test_transactions_are_resolved_in_their_producers_place(gateway: GatewayProcess, topic: str, group: str) -> None:
    with HttpClient(gateway.url) as http, Admin(brokers=gateway.url) as admin:
        first, second = http.begin_transactions(topic, group, [Draft(b"a"), Draft(b"b")])
        found = admin.resolve_transactions(
            group, {first.transaction_id: Resolution.COMMIT, second.transaction_id: Resolution.ROLLBACK}
        )
        assert found == {first.transaction_id: None, second.transaction_id: None}
        assert [message.text() for message in admin.messages(topic)] == ["a"]
        [error] = admin.resolve_transactions(group, {second.transaction_id: Resolution.COMMIT}).values()
        assert isinstance(error, TransactionResolved)


def test_what_waits_is_listed_of_all_brokers_page_by_page(
    two_brokers: Two, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PAGE", 2)
    begun: list[str] = []
    for number, broker in enumerate(two_brokers):
        with Producer(brokers=broker.url) as producer, HttpClient(broker.url) as http:
            for hour in (3, 1, 2):
                producer.send(topic, "x", delay=timedelta(hours=2 * hour + number), keys=[f"{2 * hour + number}"])
            halves = [Draft(str(at).encode(), tag="half", keys=[str(at)]) for at in range(3)]
            begun += [each.transaction_id for each in http.begin_transactions(topic, group, halves)]
    with Admin(brokers=urls(two_brokers)) as admin:
        scheduled = list(admin.scheduled(topic=topic))
        assert [each.keys for each in scheduled] == [(str(hour),) for hour in range(2, 8)]
        assert [each.broker for each in scheduled] == ["broker-a", "broker-b"] * 3
        assert {(each.topic, each.retry_topic, each.recallable) for each in scheduled} == {(topic, None, True)}
        assert len(list(admin.scheduled(topic=topic, broker="broker-b"))) == 3
        admin.recall(scheduled[0].message_id)
        assert next(admin.scheduled(topic=topic)) == scheduled[1]
        waits = list(admin.open_transactions(producer_group=group))
        assert sorted((each.broker, each.keys) for each in waits) == sorted(
            (name, (str(at),)) for name in ("broker-a", "broker-b") for at in range(3)
        )
        assert {(each.topic, each.producer_group, each.tag) for each in waits} == {(topic, group, "half")}
        assert all(each.next_check_ms is not None and each.checks < each.checks_max for each in waits)
        assert not {each.half_id for each in waits}.intersection(begun), "their ids are secret"
        assert list(admin.open_transactions(topic=topic)) == waits
        assert list(admin.open_transactions(topic=f"{topic}-not")) == []
        with pytest.raises(InvalidRequest):
            admin.end_transaction(waits[0], Resolution.UNKNOWN)
        for _ in range(2):
            admin.end_transaction(waits[0], Resolution.COMMIT)
        with pytest.raises(TransactionResolved):
            admin.end_transaction(waits[0], Resolution.ROLLBACK)
        assert [tuple(each.keys) for each in admin.messages(topic)] == [waits[0].keys]
        admin.resolve_transactions(group, dict.fromkeys(begun, Resolution.ROLLBACK))
        while list(admin.open_transactions(producer_group=group)):
            pass
        with pytest.raises(InvalidTopic):
            next(admin.scheduled(topic="a/b"))
        with pytest.raises(InvalidRequest):
            next(admin.open_transactions(producer_group=group, broker="broker-c"))


def test_sql_without_jobs_is_unreachable(gateway: GatewayProcess) -> None:
    with Admin(brokers=gateway.url) as admin, pytest.raises(Unreachable, match="no jobs that answer SQL"):
        admin.sql("SELECT 1")


def test_the_asyncio_face_is_the_same(gateway: GatewayProcess, topic: str) -> None:
    put(gateway.url, topic, numbered(3))

    async def run() -> list[str]:
        async with aio.Admin(brokers=gateway.url) as admin:
            assert (await admin.topic(topic)).messages == 3
            assert sum(each.oldest_ms is not None for each in (await admin.topic(topic, times=True)).queues) > 0
            return [message.text() async for message in admin.messages(topic)]

    assert sorted(asyncio.run(run())) == numbered(3)
