"""`lakemq replay`: messages of the lake become messages again, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.replay.plan import Plan, ReplayRequest, read_plan, rows_of, write_plan
from lakemq.jobs.replay.replay import Replayed, look, replay
from lakemq.jobs.session.connect import server_of, token_of
from lakemq.jobs.sql.connect_session import connect_session
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.model.errors import LakemqError
from lakemq.settings import Settings
from lakemq.testing import GatewayProcess
from tests.cli.shell import Run
from tests.gateway.cold.lakes import Lake
from tests.gateway.http_client import connect, produce, pull_all, put_topic

COUNT = 30
SOURCE = "replay-source"
ERASED = "replay-erased"


@pytest.fixture(scope="module")
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with connect(gateway) as client:
        yield client


@pytest.fixture(scope="module")
def lake(http: httpx.Client, gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a few messages of one topic, of three users in turn."""
    folder = tmp_path_factory.mktemp("replay") / "lake"
    put_topic(http, SOURCE)
    messages = [
        {"body": f"{number}", "keys": [f"user-{number % 3}"], "tag": "T", "properties": properties_of(number)}
        for number in range(COUNT)
    ]
    produce(http, SOURCE, *messages)
    produce(http, ERASED, *messages[:2])  # of which a test takes one away
    written = Lake(folder, gateway.url)
    written.write(written.rows(0, end := http.get("/v1/broker").json()["max_position"]), end)
    written.close()
    return folder


def properties_of(number: int) -> dict[str, str]:
    """A trace is one of them: it goes on where the message comes again."""
    return {"n": f"{number}", "traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01"}


def numbers(http: httpx.Client, topic: str) -> list[int]:
    return [int(message["body"]) for message in pull_all(http, topic)]


def where(user: int) -> str:
    return f"topic = '{SOURCE}' AND key = 'user-{user}'"


def test_messages_of_a_condition_are_sent_once_with_all_that_they_had(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    wanted = ReplayRequest(where(1), topic, None)
    done = replay(spark, lake, gateway.url, wanted)
    assert (done.matched, done.sent, done.gone, done.dropped, done.resumed) == (10, 10, 0, 0, False)
    again = pull_all(http, topic)
    assert [int(message["body"]) for message in again] == list(range(1, COUNT, 3))
    ids = {message["body"]: message["message_id"] for message in pull_all(http, SOURCE)}
    for message in again:
        number = message["body"]
        assert (message["keys"], message["tag"], message["properties"]) == (["user-1"], "T", properties_of(int(number)))
        assert message["origin_message_id"] == ids[number]
    assert replay(spark, lake, gateway.url, wanted).finished_before
    assert len(pull_all(http, topic)) == 10
    (kept,) = (lake / "_replays" / wanted.id).iterdir()
    assert "user-1" not in kept.read_text()


def test_a_replay_for_one_group_is_seen_by_that_group_alone(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    done = replay(spark, lake, gateway.url, ReplayRequest(where(2), SOURCE, f"g-{topic}"))
    assert done.sent == 10
    retries = pull_all(http, f"%25RETRY%25g-{topic}")
    assert {message["real_topic"] for message in retries} == {SOURCE}
    assert len(retries) == 10
    assert len(pull_all(http, SOURCE)) == COUNT


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("at", [0, 6])
def test_a_replay_that_is_ended_goes_on_and_sends_nothing_twice(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str, at: int
) -> None:
    wanted = ReplayRequest(where(0), topic, None)

    def end(sent: int, matched: int) -> None:
        if sent >= at:
            raise Killed

    with pytest.raises(Killed):
        replay(spark, lake, gateway.url, wanted, rate_per_s=3, report=end)
    assert numbers(http, topic) == list(range(0, 3 * at, 3))
    told: list[tuple[int, int]] = []
    done = replay(spark, lake, gateway.url, wanted, rate_per_s=1_000, report=lambda *both: told.append(both))
    assert (done.resumed, done.sent) == (True, 10)
    assert numbers(http, topic) == list(range(0, COUNT, 3))
    assert (told[0], told[-1]) == ((at, 10), (10, 10))


def test_what_was_erased_after_it_was_found_is_not_sent(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    wanted = ReplayRequest(f"topic = '{ERASED}'", topic, None)
    report = iter([None])

    def end(sent: int, matched: int) -> None:
        if next(report, 0) is None:
            raise Killed

    with pytest.raises(Killed):
        replay(spark, lake, gateway.url, wanted, report=end)
    plan = read_plan(lake, wanted)
    assert plan is not None
    spark.sql(f"DELETE FROM delta.`{MESSAGES.path(lake)}` WHERE position = {plan.batches[0].low}")
    done = replay(spark, lake, gateway.url, wanted)
    assert (done.gone, done.sent) == (1, plan.found - 1)
    assert len(pull_all(http, topic)) == done.sent


def test_of_two_at_once_each_message_is_sent_by_one(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    wanted = ReplayRequest(where(1), topic, None)
    first: list[Replayed] = []

    def meanwhile(sent: int, matched: int) -> None:
        if not first:
            first.append(replay(spark, lake, gateway.url, wanted))

    done = replay(spark, lake, gateway.url, wanted, report=meanwhile)
    assert (first[0].sent, done.sent, done.finished_before) == (10, 10, True)
    assert len(pull_all(http, topic)) == 10


def test_a_last_batch_that_comes_again_when_all_is_done_is_not_taken(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    """As a killed client's does, which goes on at the Spark server."""
    wanted = ReplayRequest(where(1), topic, None)
    late: list[DataFrame] = []

    def meanwhile(sent: int, matched: int) -> None:
        plan = read_plan(lake, wanted)
        assert plan is not None
        if not late:
            late.append(spark.createDataFrame(rows_of(spark, lake, plan, plan.batches[0]).toArrow()))

    done = replay(spark, lake, gateway.url, wanted, report=meanwhile)
    options = {"broker": gateway.url, "topic": topic, "sink": done.sink, "batch": "0"}
    late[0].write.format("lakemq").mode("append").options(**options).save()
    assert len(pull_all(http, topic)) == done.sent == 10


def test_it_works_over_spark_connect_too(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, lake: Path, topic: str
) -> None:
    session = connect_session(server_of(spark, Settings()), token_of(spark))
    try:
        (found,) = look(session, lake, where(1))
        assert (found["topic"], found["messages"]) == (SOURCE, 10)
        assert replay(session, lake, gateway.url, ReplayRequest(where(1), topic, None)).sent == 10
        assert len(pull_all(http, topic)) == 10
    finally:
        session.stop()


@pytest.mark.parametrize(
    "condition",
    [
        "nothing = 1",
        "topic =",
        "raise",
        "position IN (SELECT 1)",
        "reflect('java.lang.System', 'lineSeparator') <> ''",
        "rand() >= 0",
    ],
)
def test_a_condition_that_spark_can_not_understand_is_said_so(spark: SparkSession, lake: Path, condition: str) -> None:
    with pytest.raises(InvalidStatement):
        look(spark, lake, condition)


def test_a_topic_that_takes_nothing_is_named(spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
    with pytest.raises(LakemqError, match="is the system's"):
        replay(spark, lake, gateway.url, ReplayRequest(where(1), "RMQ_SYS_TOPICS", None))


def test_nothing_found_is_nothing_sent(spark: SparkSession, gateway: GatewayProcess, lake: Path, topic: str) -> None:
    wanted = ReplayRequest("topic = 'RMQ_SYS_TOPICS'", topic, None)
    done = replay(spark, lake, gateway.url, wanted)
    assert (done.matched, done.sent) == (0, 0)
    assert replay(spark, lake, gateway.url, replace(wanted), again=True).matched == 0


def test_the_command_says_what_it_would_do_and_what_it_did(
    spark: SparkSession,
    gateway: GatewayProcess,
    http: httpx.Client,
    lake: Path,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(tmp_path, capsys, monkeypatch)
    asked = ("replay", "--where", where(2), "--to", topic, "--lake", str(lake), "--broker", gateway.url)
    dry = run(*asked, "--dry-run")
    assert dry.code == 0, dry.stderr
    assert "10 messages would be sent; nothing was" in dry.stdout
    done = run(*asked, "--rate", "1000")
    assert done.code == 0, done.stderr
    assert f"10 of 10 messages are in {topic} again" in done.stdout
    assert len(pull_all(http, topic)) == 10
    assert "replayed before" in run(*asked).stdout
    assert json.loads(run(*asked, "--again", "--json").stdout)["sent"] == 10
    assert run("replay", "--where", "no", "--to", topic, "--lake", str(lake), "--broker", gateway.url).code == 1


def test_who_asks_for_the_same_at_once_gets_the_plan_that_was_first(tmp_path: Path) -> None:
    wanted = ReplayRequest("true", "t", None)
    first, second = Plan(wanted, "first"), Plan(wanted, "second")
    assert write_plan(tmp_path, first, new=True)
    assert not write_plan(tmp_path, second, new=True)
    assert read_plan(tmp_path, wanted) == first
    assert write_plan(tmp_path, second)
    assert read_plan(tmp_path, wanted) == second
