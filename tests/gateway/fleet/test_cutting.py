"""A follower cuts what its primary lacks before it opens its log, and goes on, beside a real primary."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import pytest

from lakemq.gateway.fleet.agreement import says_the_same
from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark, Mark
from lakemq.gateway.fleet.follower import Follower
from lakemq.settings import Settings, load
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.certain import OF_MESSAGES, CertainLake
from lakemq.storage.lake.log_marks import append_identifiers, log_identifier
from lakemq.storage.lake.prove import prove
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.positions import UNKNOWN_EPOCHS, note_given, read_given
from lakemq.storage.mend.closed_log import ClosedLog
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.frame import LogEpoch
from lakemq.storage.segment.segment import Frame, open_frame
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.fleet.following import SMALL, broker_of, degraded, frames_of, leave, start_follower, wait_for
from tests.gateway.fleet.test_follower import all_kinds_of_traffic
from tests.gateway.http_client import WAIT_S, connect, produce, pull, pull_all
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, resolve, wait_until
from tests.ports import free_port
from tests.storage.cut_logs import open_as_follower
from tests.storage.harness import LogHarness
from tests.storage.lake_tables import commit

COUNT = 6
QUICK = {"gateway__wait_ms_max": 500}
"""A follower's last question is waited for."""


class Leading(NamedTuple):
    """A primary that runs, and its folder as it was when its log had `common` positions; it has `end` now."""

    process: GatewayProcess
    before: Path
    common: int
    end: int
    log: LogEpoch


@pytest.fixture(scope="module")
def leading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Leading]:
    root = tmp_path_factory.mktemp("primary")
    with start_gateway(root / "data", **SMALL) as gateway, connect(gateway) as http:
        for number in range(COUNT):
            produce(http, "t", f"both {number}")
        common = broker_of(http)["max_position"]
    shutil.copytree(root / "data", root / "before")
    with start_gateway(root / "data", **SMALL) as gateway, connect(gateway) as http:
        for number in range(COUNT):
            produce(http, "t", f"primary {number}")
        said = broker_of(http)
        log = LogEpoch(UUID(said["log_id"]).bytes, said["epoch"])
        yield Leading(gateway, root / "before", common, said["max_position"], log)


def diverged(leading: Leading, folder: Path, count: int = 2, epochs: bool = False) -> LogHarness:
    """Another log in that folder, closed: it has so many frames of its own in place of the primary's, in the same epoch
    or, with `epochs`, in another."""
    shutil.copytree(leading.before, folder)
    harness = LogHarness(folder)
    if epochs:
        note_given(harness.files, harness.directory, leading.log, leading.common + 1)
    harness.open()
    for number in range(count):
        harness.append("t", 0, b"own %d" % number)
    assert (harness.log.identity.now.epoch > UNKNOWN_EPOCHS) == epochs
    harness.close()
    return harness


def settings_of(folder: Path, address: str) -> Settings:
    options: dict[str, dict[str, Any]] = {
        "storage": {"data_dir": str(folder)},
        "broker": {"replica": 1},
        "fleet": {"primary": address},
        "gateway": {"wait_ms_max": 100},
        "lake": {"dir": str(folder / "lake")},
    }
    return load(environment={}, options=options)


class Ended(NamedTuple):
    """A follower that has ended; its log's end, and the frames' bytes."""

    follower: Follower
    end: int
    said: list[str]


def follow(
    settings: Settings,
    until: Callable[[Follower, FollowedLog], bool],
    begins: bool = True,
    prepare: Callable[[Follower], object] = lambda follower: None,
) -> Ended:
    """Follow until it is so. `begins`: it sees to its log before it opens it."""
    said: list[str] = []

    async def scene() -> Ended:
        log = FollowedLog(settings.storage, Files(), SystemClock())
        follower = Follower(settings, log, Reader(log), lambda position: None)
        follower.on_diverged = said.append
        prepare(follower)
        if begins:
            await asyncio.to_thread(follower.begin)
        log.open(loop=asyncio.get_running_loop())
        follower.opened()
        follower.start()
        async with asyncio.timeout(WAIT_S):
            while not until(follower, log):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        await leave(follower)
        end = log.next_position
        await log.close()
        return Ended(follower, end, said)

    return asyncio.run(scene())


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "commitlog").glob("*.log"))}


@pytest.mark.parametrize("epochs", [False, True], ids=["of the same epoch", "of another epoch"])
def test_what_the_primary_lacks_is_cut_and_all_that_it_has_is_taken(
    leading: Leading, tmp_path: Path, epochs: bool
) -> None:
    diverged(leading, tmp_path / "f", epochs=epochs)
    ended = follow(settings_of(tmp_path / "f", leading.process.url), lambda _, log: log.next_position == leading.end)
    cut = ended.follower.cut
    assert cut is not None
    assert (cut.position, cut.messages, ended.follower.fault, ended.said) == (leading.common, 2, None, [])
    assert cut.positions == 2 or epochs
    assert b"own 1" in (tmp_path / "f/commitlog" / cut.kept).read_bytes()
    with connect(leading.process) as http:
        assert b"".join(files_of(tmp_path / "f").values()) == frames_of(http)


def test_a_log_that_goes_on_as_the_primarys_does_is_not_cut(leading: Leading, tmp_path: Path) -> None:
    diverged(leading, tmp_path / "f", count=0)
    ended = follow(settings_of(tmp_path / "f", leading.process.url), lambda _, log: log.next_position == leading.end)
    assert ended.follower.cut is None
    again = follow(settings_of(tmp_path / "f", leading.process.url), lambda follower, _: follower.lag == 0)
    assert (again.follower.cut, again.end) == (None, leading.end)


def lake_of(folder: Path, log_id: str, end: int) -> None:
    """A follower's lake there, which holds that log up to `end` for certain."""
    commit(folder / "lake", 0, end)
    for name in OF_MESSAGES:
        append_identifiers(folder / "lake" / name, {log_identifier("broker-a", log_id): 1})
    prove(folder / "lake")
    assert CertainLake(folder / "lake", "broker-a").look(log_id=log_id) == (end, None)


@pytest.mark.parametrize("by", ["CONFIRMED", "who begins it", "lake"])
def test_what_is_confirmed_is_not_cut_and_the_log_is_served_as_it_is(leading: Leading, tmp_path: Path, by: str) -> None:
    harness = diverged(leading, tmp_path / "f")
    before, end, log_id = files_of(tmp_path / "f"), leading.common + 2, harness.log.identity.log_id
    if by == "CONFIRMED":
        ConfirmedMark(harness.files, tmp_path / "f").leave(log_id, Mark(end, sync=False))
    elif by == "lake":
        lake_of(tmp_path / "f", log_id, end)

    def prepare(follower: Follower) -> None:
        follower.floor = end if by == "who begins it" else 0

    settings = settings_of(tmp_path / "f", leading.process.url)
    ended = follow(settings, lambda follower, _: follower.fault is not None, prepare=prepare)
    assert f"cut at position {leading.common}, and may not be below {end}" in str(ended.follower.fault)
    assert (ended.end, files_of(tmp_path / "f"), ended.said) == (end, before, [])


@pytest.mark.parametrize("holds", ["less", "more", "another log", "what isn't looked at"])
def test_a_lake_that_holds_nothing_of_what_is_cut_is_in_nobodys_way(
    leading: Leading, tmp_path: Path, holds: str
) -> None:
    """What is beyond this log's end it has from the primary, and so all before."""
    harness = diverged(leading, tmp_path / "f")
    log_id = harness.log.identity.log_id
    end = {"less": leading.common, "more": leading.common + 3}.get(holds, leading.common + 2)
    lake_of(tmp_path / "f", str(UUID(int=1)) if holds == "another log" else log_id, end)
    settings = settings_of(tmp_path / "f", leading.process.url)
    if holds == "what isn't looked at":
        settings = settings.model_copy(update={"lake": settings.lake.model_copy(update={"verify": False})})
    ended = follow(settings, lambda _, log: log.next_position == leading.end)
    assert ended.follower.cut is not None
    assert (ended.follower.cut.position, ended.follower.fault) == (leading.common, None)


def test_a_log_that_can_not_be_cut_is_not_followed(
    leading: Leading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverged(leading, tmp_path / "f")
    replace = Files.replace

    def no_room(files: Files, path: Path, *content: Any, **options: Any) -> None:
        if path.suffix == ".frames":
            raise OSError("no room")
        replace(files, path, *content, **options)

    monkeypatch.setattr(Files, "replace", no_room)
    settings = settings_of(tmp_path / "f", leading.process.url)
    ended = follow(settings, lambda follower, _: follower.fault is not None)
    assert (ended.follower.fault, ended.end) == ("no room", leading.common + 2)


def test_without_its_primary_it_opens_as_it_is_and_says_so_when_that_is_there(leading: Leading, tmp_path: Path) -> None:
    diverged(leading, tmp_path / "f", epochs=True)
    nobody = settings_of(tmp_path / "f", f"http://127.0.0.1:{free_port()}")
    alone = follow(nobody, lambda follower, _: follower.problem is not None)
    assert (alone.follower.fault, alone.follower.cut) == (None, None)
    # Here the primary can be asked only after the log was opened.
    settings = settings_of(tmp_path / "f", leading.process.url)
    ended = follow(settings, lambda follower, _: follower.fault is not None, begins=False)
    assert f"goes on otherwise from {leading.common} on" in str(ended.follower.fault)
    assert (ended.said, ended.end) == ([ended.follower.fault], alone.end)
    mended = follow(settings, lambda _, log: log.next_position == leading.end)
    assert mended.follower.cut is not None


def test_what_the_primary_gives_in_an_epoch_that_has_not_come_here_is_known_to_have_been_given(
    leading: Leading, tmp_path: Path
) -> None:
    """It takes the primary's place with nothing of its epoch: it gives none of what that gave."""
    for begins in (True, False):
        primary = LogHarness(tmp_path / f"p{begins}")
        shutil.copytree(leading.before, primary.settings.data_dir)
        note_given(primary.files, primary.directory, leading.log, leading.common + 1)
        primary.open()
        primary.append("t", 0, b"of the new epoch")
        now, end = primary.log.identity.now, primary.log.next_position
        primary.close()
        with start_gateway(primary.settings.data_dir, **SMALL) as gateway:
            shutil.copytree(leading.before, tmp_path / f"f{begins}")
            settings = settings_of(tmp_path / f"f{begins}", gateway.url)
            follow(settings, lambda follower, _: follower.lag is not None, begins)
            known = read_given(Files(), tmp_path / f"f{begins}/commitlog", now.log_id)
            assert known is not None
            assert (known.epoch, known.bound) == (now.epoch, end)


@pytest.mark.parametrize("floor", [0, 1])
def test_a_frame_that_went_bad_is_taken_again_or_left_where_it_must_stay(
    leading: Leading, tmp_path: Path, floor: int
) -> None:
    diverged(leading, tmp_path / "f", count=0)
    path = next((tmp_path / "f/commitlog").glob("*.log"))
    data = bytearray(path.read_bytes())
    sound, at = bytes(data), len(data) - 20
    data[at] ^= 1
    path.write_bytes(data)
    if floor:
        log_id = str(UUID(bytes=leading.log.log_id))
        ConfirmedMark(Files(), tmp_path / "f").leave(log_id, Mark(leading.common, sync=False))
    follower = _begun(settings_of(tmp_path / "f", leading.process.url))
    assert follower.fault is None
    if floor:
        assert follower.cut is None
        assert path.read_bytes() == bytes(data)
        return
    assert follower.cut is not None
    assert follower.cut.position == leading.common - 1
    ended = follow(settings_of(tmp_path / "f", leading.process.url), lambda _, log: log.next_position == leading.end)
    assert ended.follower.fault is None
    assert path.read_bytes().startswith(sound)


def test_a_frame_that_the_primary_has_written_anew_is_the_same_one(leading: Leading, tmp_path: Path) -> None:
    shutil.copytree(leading.before, tmp_path / "p")
    diverged(leading, tmp_path / "f", count=0)
    with start_gateway(tmp_path / "p", **SMALL) as gateway, connect(gateway) as http:
        before = frames_of(http)
        http.post("/v1/log/erasures", json={"positions": [leading.common - 1]}).raise_for_status()
        assert frames_of(http)[-500:] != before[-500:]
        ended = follow(settings_of(tmp_path / "f", gateway.url), lambda follower, _: follower.lag == 0)
    assert (ended.follower.cut, ended.follower.fault) == (None, None)


def test_frames_of_the_same_messages_are_the_same_however_they_are_written(tmp_path: Path) -> None:
    def last_frame(name: str, *bodies: bytes, **settings: object) -> Frame:
        shutil.copytree(tmp_path / "log", tmp_path / name)
        harness = LogHarness(tmp_path / name, **settings)
        harness.open()
        harness.append("a", 0, *bodies)
        closed_at = harness.log.next_position
        harness.close()
        closed = ClosedLog(harness.files, harness.directory)
        return open_frame(closed.frame_before(closed.border(closed_at)))

    harness = LogHarness(tmp_path / "log").open()
    harness.put_topic("a")
    harness.close()
    bodies = [bytes(100)] * 20
    one = last_frame("one", *bodies, compression="none")
    written_anew = last_frame("two", *bodies, compression="lz4", compression_body_bytes_min=0)
    others = last_frame("three", *bodies[1:], b"x" * 100, compression="none")
    assert one.meta.payload_crc != written_anew.meta.payload_crc
    assert says_the_same(one, written_anew)
    assert others.meta[1:4] == one.meta[1:4]
    assert not says_the_same(one, others)


def _begun(settings: Settings) -> Follower:
    log = FollowedLog(settings.storage, Files(), SystemClock())
    follower = Follower(settings, log, Reader(log), lambda position: None)
    follower.begin()
    follower._primary.close()  # pyright: ignore[reportPrivateUsage]
    return follower


# Old and new primaries ----------------------------------------------------------------------------


def only_here(http: httpx.Client) -> None:
    """Something of all that may be acknowledged without a follower."""
    topic, group = "both-orders", "both-group"
    produce(http, "t", "only at the old one")
    produce(http, topic, {"body": "delayed", "delay_ms": 20 * 86_400_000})
    committed, _ = begin(http, topic, "committed here", "open here")
    assert resolve(http, committed, "commit").status_code == 200
    nacked = pull(http, topic, 1)["messages"][0]["message_id"]
    nacks = {"client_id": "c", "messages": [{"message_id": nacked, "delay_level": -1}]}
    http.post(f"/v1/groups/{group}/nacks", json=nacks).raise_for_status()
    http.put(f"/v1/groups/{group}/offsets", json={"offsets": [{"topic": topic, "queue_id": 1, "offset": 5}]})
    assert set(ack(http, "both-receives", *receive(http, "both-receives", topic, max=3))) == {"ok"}


def test_an_old_primary_follows_the_one_that_has_taken_its_place(tmp_path: Path) -> None:
    patient = {**SMALL, "replication__silent_ms": 60_000, "replication__confirm_ms_max": 61_000}
    with start_gateway(tmp_path / "old", **patient) as old, connect(old) as leads:
        with start_follower(tmp_path / "new", old.url, **QUICK) as follower, connect(follower) as follows:
            all_kinds_of_traffic(leads, "both")
            produce(leads, "t", "both")
            wait_for(follows, leads)
            wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
            wait_until(lambda: broker_of(leads)["confirmed_position"] == broker_of(leads)["max_position"])
            common = broker_of(leads)["max_position"]
        only_here(leads)
        old.kill()
    with start_gateway(tmp_path / "new", **SMALL) as new, connect(new) as leads:
        produce(leads, "t", "at the new one")
        with start_follower(tmp_path / "old", new.url, **QUICK) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            assert frames_of(follows) == frames_of(leads)
            assert [each["body"] for each in pull_all(follows, "t")] == ["both", "at the new one"]
            said = broker_of(follows)
            cut = said["follower_cut"]
            assert (cut["position"], said["follower_fault"], said["epochs"]) == (
                common,
                None,
                broker_of(leads)["epochs"],
            )
            assert f"were cut off this follower's log at position {common}" in degraded(follows)
            assert f"lakemq_truncated_messages {float(cut['messages'])}" in follows.get("/metrics").text
            kept = (tmp_path / "old/commitlog" / cut["kept"]).read_bytes()
            assert b"only at the old one" in kept
    states = [open_as_follower(tmp_path / name) for name in ("new", "old")]
    led, followed = (each.log.state.dump() for each in states)
    for each in states:
        each.close()
    assert followed == led
