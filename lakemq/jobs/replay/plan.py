"""What a replay sends: the positions of its messages, in batches, written down before the first goes.

So a replay that is killed goes on with the same messages, whatever its condition would find by then:
`{lake}/_replays/{id}/plan.json`, and the positions beside it as Parquet. A power cut leaves both or no plan, else
what was sent before it would be sent again under another name. What is asked of Spark is text, as
that means the same in a session of its own and in one over Spark Connect.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.sql.condition import check_condition
from lakemq.jobs.sql.connect_client import complaint
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.model.message_columns import GIVEN
from lakemq.model.names import SCHEDULE_TOPIC
from lakemq.objects.path import is_object
from lakemq.objects.table_place import AS_IT_IS
from lakemq.storage.lake.object_files import files_of

FOLDER = "_replays"
BATCH_MESSAGES_MAX = 20_000
PAST_MAX = 1_000
KNOWN_MAX = 20
"""Plans that are looked at to be told of."""
_PLAN = "plan.json"


@dataclass(frozen=True)
class ReplayRequest:
    """What is asked for: the messages for which `where` is true go to `topic`, for all its groups, or for
    `group` alone, as retries of messages of `topic`."""

    where: str
    topic: str
    group: str | None

    @property
    def id(self) -> str:
        """The same for the same."""
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Batch:
    """`count` messages of a broker, between two positions, both included; `part` numbers them in the file."""

    broker: str
    part: int
    low: int
    high: int
    count: int


@dataclass
class Plan:
    """A replay. `sink`: under which it is committed. `found`: how many messages there are to send, and `sent` how
    many were, once it is `finished`; what it was to send is forgotten then. The condition isn't kept: it may
    name whom it is about. `past`: the sinks of the runs before that ended."""

    wanted: ReplayRequest
    sink: str
    batches: list[Batch] = field(default_factory=list[Batch])
    finished: bool = False
    sent: int = 0
    found: int = 0
    past: list[str] = field(default_factory=list[str])


def read_plan(lake: Path, wanted: ReplayRequest) -> Plan | None:
    """The plan that was made for this, or None."""
    content = _read(lake, wanted.id)
    if content is None:
        return None
    batches = [Batch(**batch) for batch in content["batches"]]
    finished, past = content["finished"], content.get("past", [])
    return Plan(wanted, content["sink"], batches, finished, content["sent"], content["found"], past)


def ended_sinks(lake: Path, request_id: str) -> list[str]:
    """Those under which all was sent, and nothing will be, of a request of that `ReplayRequest.id`."""
    content = _read(lake, request_id)
    if content is None:
        return []
    return [*content.get("past", []), *([content["sink"]] if content["finished"] else [])]


def _read(lake: Path, request_id: str) -> dict[str, Any] | None:
    try:
        return json.loads((lake / FOLDER / request_id / _PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def known_plans(lake: Path, most: int) -> list[dict[str, Any]]:
    """The replays that were written last, the newest first: their sink, topic and group, how many messages each found,
    how many it has sent once it is finished, and when its plan was written (ms since 1970). What can't be read now
    is left out."""
    folder = lake / FOLDER
    found: list[tuple[float, Path]] = []
    for request in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            found.append(((request / _PLAN).stat().st_mtime, request))
    told: list[dict[str, Any]] = []
    for written_s, request in sorted(found, reverse=True)[:most]:
        with suppress(OSError, ValueError, KeyError):
            content = _read(lake, request.name)
            if content is not None:
                said = {name: content.get(name) for name in ("sink", "topic", "group", "found", "sent", "finished")}
                told.append(said | {"written_ms": int(written_s * 1000)})
    return told


def write_plan(lake: Path, plan: Plan, *, new: bool = False) -> bool:
    """Keep the plan, whole, also over a power cut. `new`: only if there is none; whether it was kept."""
    path = lake / FOLDER / plan.wanted.id / _PLAN
    files = files_of(path)
    files.make_dirs(path.parent)
    content: dict[str, Any] = {"sink": plan.sink, "finished": plan.finished, "sent": plan.sent, "found": plan.found}
    content |= {"batches": [asdict(batch) for batch in plan.batches], "past": plan.past}
    content |= {"topic": plan.wanted.topic, "group": plan.wanted.group}
    data = json.dumps(content).encode()
    if new:
        kept = files.create(path, data)
    else:
        files.replace_beside_others(path, data)
        kept = True
    files.sync_above(path)
    return kept


def finish_plan(lake: Path, plan: Plan, sent: int) -> None:
    """Keep that it was done, and let go of what it was to send."""
    plan.finished, plan.sent, plan.batches = True, sent, []
    now = read_plan(lake, plan.wanted)
    if now is not None and now.sink == plan.sink:  # else it was done before, and the same is begun anew
        write_plan(lake, plan)
    _remove_all(_positions(lake, plan))


def forget_plan(lake: Path, wanted: ReplayRequest) -> None:
    """Let the same be asked for anew."""
    folder = lake / FOLDER / wanted.id
    (folder / _PLAN).unlink(missing_ok=True)
    _remove_all(folder)


def sweep_plans(lake: Path, before_s: float) -> None:
    """Remove what killed processes left beside plans, and nobody has written since then (seconds since 1970): halves
    of plans, and positions that no plan has. What can't be looked at now, a later call does."""
    folder = lake / FOLDER
    for request in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError, ValueError, KeyError):
            plan = _read(lake, request.name)
            kept = {_PLAN} if plan is None else {_PLAN, plan["sink"]}
            for each in request.iterdir():
                if each.name not in kept and _newest_s(each) < before_s:
                    _remove_all(each)


def _newest_s(path: Path) -> float:
    """When it, or what is in it, was written last."""
    parts = path.rglob("*") if is_object(path) else (path, *path.rglob("*"))
    return max((part.stat().st_mtime for part in parts), default=math.inf)


def _remove_all(folder: Path) -> None:
    if folder.is_file():
        folder.unlink(missing_ok=True)
    elif is_object(folder):
        for each in folder.rglob("*"):
            each.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _sync_all(folder: Path) -> None:
    """Return when all that Spark wrote there is on disk."""
    files = files_of(folder)
    for file in folder.rglob("*"):
        descriptor = files.open_read(file)
        try:
            files.sync(descriptor)
        finally:
            files.close(descriptor)
    files.sync_dir(folder)


def messages_of(session: SparkSession, lake: Path) -> DataFrame:
    """All messages of the lake, but for the broker's own records: these are no message of anybody's."""
    messages = session.read.format("delta").load(str(MESSAGES.path(lake.absolute())))
    return messages.where(f"NOT startswith(topic, 'RMQ_SYS_') AND topic <> '{SCHEDULE_TOPIC}'")


def find(session: SparkSession, lake: Path, where: str) -> DataFrame:
    """Topic, broker, position and store time of the messages for which `where` is true; in it `key` is each
    of a message's keys. Raises `InvalidStatement`, also for what isn't an expression over columns; `JavaNotFound`."""
    check_condition(where)
    keyed = messages_of(session, lake).selectExpr("*", "explode_outer(array_distinct(keys)) AS key")
    try:
        found = keyed.where(where).select("topic", "broker", "position", "store_time").distinct()
        found.schema  # noqa: B018  a Connect session looks at the condition only now
    except PySparkException as error:
        raise InvalidStatement(complaint(str(error))) from None
    return found


def make_plan(
    session: SparkSession, lake: Path, wanted: ReplayRequest, batch_messages: int, ended: Plan | None = None
) -> Plan:
    """Find the messages, and write down which they are, in the order of their brokers' logs. Who asks for the
    same at the same time gets the plan that was there first. `ended`: the plan of the run before."""
    plan = Plan(wanted, f"replay-{wanted.id}-{secrets.token_hex(4)}")
    if ended is not None:
        plan.past = [*ended.past, ended.sink][-PAST_MAX:]
    folder = _positions(lake, plan)
    number = "row_number() OVER (PARTITION BY broker ORDER BY position) - 1"
    part = f"CAST(({number}) DIV {batch_messages} AS BIGINT) AS part"
    found = find(session, lake, wanted.where).selectExpr("broker", "position", part)
    found.write.mode("overwrite").parquet(str(folder))
    _sync_all(folder)
    ranges = (
        _written(session, folder)
        .selectExpr("broker", "part", "position AS low", "position AS high", "1 AS one")
        .groupBy("broker", "part")
        .agg({"low": "min", "high": "max", "one": "count"})
        .selectExpr("broker", "part", "`min(low)`", "`max(high)`", "`count(one)`")
        .orderBy("broker", "part")
        .collect()
    )
    plan.batches = [Batch(*row) for row in ranges]
    plan.found = sum(batch.count for batch in plan.batches)
    return keep_first(lake, plan)


def keep_first(lake: Path, plan: Plan) -> Plan:
    """Keep the new plan, unless there is one: then that, and the positions of this one go."""
    while not write_plan(lake, plan, new=True):
        first = read_plan(lake, plan.wanted)
        if first is None:
            continue
        if first.sink != plan.sink:  # else it is this one: a bucket's answer was lost, and the put was made again
            _remove_all(_positions(lake, plan))
        return first
    return plan


_COPIED = tuple(column.lake_name for column in GIVEN if column.name not in ("queue_id", "priority", "deliver_at_ms"))
"""What a message is sent again with: to the queue that its key chooses then, and at once."""


def _positions(lake: Path, plan: Plan) -> Path:
    return (lake / FOLDER / plan.wanted.id / plan.sink).absolute()


def _written(session: SparkSession, folder: Path) -> DataFrame:
    return session.read.options(**AS_IT_IS).parquet(str(folder))


def rows_of(session: SparkSession, lake: Path, plan: Plan, batch: Batch) -> DataFrame:
    """A batch's messages as they are sent, in the order of their positions. Those that have been erased, or
    were let go of since, are lacking."""
    of_broker = f"broker = '{batch.broker}'"  # a broker's name has letters, digits, _ and - only
    written = _written(session, _positions(lake, plan))
    positions = written.where(f"{of_broker} AND part = {batch.part}").select("position")
    in_range = f"{of_broker} AND position BETWEEN {batch.low} AND {batch.high}"
    rows = messages_of(session, lake).where(in_range).join(positions.hint("broadcast"), "position", "left_semi")
    origin = "coalesce(origin_message_id, message_id) AS origin_message_id"
    return rows.orderBy("position").selectExpr(*_COPIED, origin)
