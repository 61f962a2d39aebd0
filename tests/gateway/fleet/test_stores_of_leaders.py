"""What is special about each store of who leads: members of etcd, retries of a bucket, crashes of a folder."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakemq.gateway.fleet.etcd import ANSWER_BYTES_MAX, Etcd, get, put
from lakemq.gateway.fleet.etcd_leadership import EtcdLeadership
from lakemq.gateway.fleet.objects import NAMES_MAX, OBJECT_BYTES_MAX, Objects
from lakemq.gateway.fleet.open_leadership import open_leadership
from lakemq.gateway.fleet.polled_leadership import PolledLeadership
from lakemq.gateway.fleet.shared_folder import SCRATCH, SharedFolder
from lakemq.model.errors import LogDamaged, SettingsError
from lakemq.model.in_sync import Member, Record
from lakemq.settings import Broker, Fleet, Settings
from lakemq.storage.disk.files import Files
from lakemq.testing import LossyFiles, start_gateway
from lakemq.testing.object_store import ObjectStore
from tests.etcd_server import EtcdServer
from tests.gateway.fleet.faulty_wire import FaultyWire
from tests.gateway.fleet.following import SMALL, start_follower
from tests.gateway.fleet.leaderships import BUCKET, CLUSTER, LOG, PATIENT_S, PAUSE_S, open_bucket, opened, unused_broker
from tests.gateway.http_client import WAIT_S, connect
from tests.gateway.routing.asking import wait_until
from tests.ports import free_port

SEEDS = range(40)
SYNC_OF_NAMES = "gateway.fleet.shared_folder.SharedFolder._put_new: sync_dir"
SYNCS_OF_MAKERS = (
    "gateway.fleet.shared_folder.SharedFolder._write: sync",
    SYNC_OF_NAMES,
    "gateway.fleet.shared_folder.SharedFolder._prepare: sync_above.sync_dir",
)
SYNC_OF_READERS = "gateway.fleet.shared_folder.SharedFolder._get: sync_dir"
SYNCS = (*SYNCS_OF_MAKERS, SYNC_OF_READERS)


def record(version: int) -> Record:
    return Record(0, 1, version, (Member(0, "a"),), LOG)


@pytest.fixture
def s3() -> Iterator[ObjectStore]:
    made = ObjectStore()
    yield made
    made.close()


@pytest.fixture
def wire(s3: ObjectStore) -> Iterator[FaultyWire]:
    made = FaultyWire(s3.address)
    yield made
    made.close()


# etcd ------------------------------------------------------------------------------------------


def test_a_member_that_is_away_or_lost_its_answer_is_followed_by_the_next(etcd: EtcdServer) -> None:
    wire = FaultyWire(etcd.address)
    away = f"http://127.0.0.1:{free_port()}"

    async def scene() -> None:
        leadership = EtcdLeadership([away, wire.address, etcd.address], CLUSTER, unused_broker(), PATIENT_S, PAUSE_S)
        assert await leadership.compare_and_set(record(0))
        wire.lost = b"request_put"
        assert await leadership.compare_and_set(record(1))  # done by the member whose answer was lost
        assert wire.lost_count == 1
        assert await leadership.read() == record(1)
        await leadership.close()

    try:
        asyncio.run(scene())
    finally:
        wire.close()


def test_what_etcd_holds_outlives_its_end_and_while_it_is_away_that_is_said(etcd: EtcdServer) -> None:
    async def scene() -> None:
        leadership = EtcdLeadership([etcd.address], CLUSTER, unused_broker(), PATIENT_S, PAUSE_S)
        assert await leadership.compare_and_set(record(0))
        etcd.kill()
        with pytest.raises(OSError, match="etcd doesn't answer"):
            await leadership.read()
        etcd.start()
        assert await leadership.read() == record(0)
        await leadership.close()

    asyncio.run(scene())


def test_what_is_no_answer_of_etcd_or_too_large_is_refused(etcd: EtcdServer, s3: ObjectStore) -> None:
    s3.status_of_all = 200, "Fine"
    other = Etcd([s3.address], PATIENT_S)
    with pytest.raises(OSError, match="this is no answer of etcd"):
        other.transact([], [get("key")])
    other.close()
    asked = Etcd([etcd.address], PATIENT_S)
    with pytest.raises(OSError, match="it answered 400"):
        asked.transact([], [get("")])
    asked.transact([], [put("large", bytes(ANSWER_BYTES_MAX))])
    with pytest.raises(OSError, match="more than"):
        asked.transact([], [get("large")])
    asked.close()


def test_what_is_no_record_in_etcd_is_not_taken_for_none(etcd: EtcdServer) -> None:
    broker = unused_broker()
    asked = Etcd([etcd.address], PATIENT_S)
    asked.transact([], [put(f"lakemq/{CLUSTER}/{broker}/record", b"[]"), put(f"lakemq/{CLUSTER}/{broker}/beat", b"x")])
    asked.close()

    async def scene() -> None:
        leadership = EtcdLeadership([etcd.address], CLUSTER, broker, PATIENT_S, PAUSE_S)
        for asking in (leadership.read(), leadership.compare_and_set(record(0)), leadership.watch(0, 0.3)):
            with pytest.raises((LogDamaged, OSError), match=r"who leads can't be|can't read the record of the leader"):
                await asking
        assert await leadership.last_beat() is None
        await leadership.close()

    asyncio.run(scene())


# Buckets and folders ---------------------------------------------------------------------------


class Gated:
    """Objects, of which a new one is made only when its gate is open."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.gate = asyncio.Event()
        self.gate.set()
        self.waits = asyncio.Event()
        self.names, self.get, self.put = objects.names, objects.get, objects.put
        self.delete, self.close = objects.delete, objects.close

    async def put_new(self, name: str, data: bytes) -> bool:
        if not self.gate.is_set():
            self.waits.set()
        await self.gate.wait()
        return await self._objects.put_new(name, data)


@pytest.fixture(params=["bucket", "folder"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return SharedFolder(Files(), tmp_path)
    return open_bucket(request.getfixturevalue("s3").address)


def test_who_stood_still_until_its_number_was_deleted_loses(objects: Objects) -> None:
    kept = 3

    async def scene() -> None:
        gated = Gated(objects)
        broker = unused_broker()
        stale, busy = opened(gated, broker), opened(objects, broker, kept=kept)
        assert await stale.compare_and_set(record(0))
        gated.gate.clear()
        late = asyncio.create_task(stale.compare_and_set(record(1)))
        await gated.waits.wait()
        for version in range(1, 3 * kept):
            assert await busy.compare_and_set(record(version))
        async with asyncio.timeout(WAIT_S):
            while len(await objects.names(f"{CLUSTER}/{broker}/records")) > kept + 1:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        gated.gate.set()
        assert not await late
        assert await stale.read() == await busy.read() == record(3 * kept - 1)
        assert await busy.compare_and_set(record(3 * kept))  # and what it left is tidied away
        await stale.close()
        await busy.close()

    asyncio.run(scene())


def test_a_store_that_has_less_than_before_is_not_believed(objects: Objects) -> None:
    async def scene() -> None:
        broker = unused_broker()
        leadership, other = opened(objects, broker, pause_s=PAUSE_S), opened(objects, broker)
        await other.compare_and_set(record(0))
        await other.compare_and_set(record(1))
        assert await leadership.read() == record(1)
        await objects.delete(f"{CLUSTER}/{broker}/records/{1:020}")
        for asking in (leadership.read(), leadership.compare_and_set(record(1)), leadership.watch(1, 0.05)):
            with pytest.raises((LogDamaged, OSError), match="had record 1"):
                await asking
        await other.close()

    asyncio.run(scene())


def test_an_object_that_is_too_large_is_not_read(objects: Objects) -> None:
    async def scene() -> None:
        await objects.put("folder/large", bytes(OBJECT_BYTES_MAX + 1))
        with pytest.raises(OSError, match=r"can't be (?:a record of a leader|records of leaders)"):
            await objects.get("folder/large", lasting=True)
        await objects.delete("folder/large")
        await objects.delete("folder/large")
        assert await objects.get("folder/large", lasting=False) is None
        assert await objects.names("folder") == await objects.names("no folder") == []
        await objects.close()

    asyncio.run(scene())


def test_a_change_of_a_bucket_is_done_though_the_first_answer_was_lost(wire: FaultyWire, s3: ObjectStore) -> None:
    async def scene() -> None:
        leadership = opened(open_bucket(wire.address), unused_broker())
        assert await leadership.compare_and_set(record(0))
        wire.lost = b"PUT /"
        changing = asyncio.create_task(leadership.compare_and_set(record(1)))
        while wire.lost_count == 0:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.005)
        wire.lost = None
        assert await changing
        assert await leadership.read() == record(1)
        await leadership.close()

    asyncio.run(scene())


class FullFiles(Files):
    """A disk that is full after a byte."""

    def append_all(self, descriptor: int, data: bytes | memoryview) -> None:
        super().append_all(descriptor, memoryview(data)[:1])
        raise OSError(errno.ENOSPC, "No space left on device")


class NamelessFiles(Files):
    """A disk where nothing can be given its name any more."""

    def rename(self, path: Path, other: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def link_new(self, path: Path, other: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("files", [FullFiles(), NamelessFiles()])
def test_what_could_not_be_written_to_a_folder_leaves_nothing_there(tmp_path: Path, files: Files) -> None:
    async def scene() -> None:
        objects = SharedFolder(files, tmp_path)
        for asking in (objects.put("folder/beat", b"beat"), objects.put_new("folder/record", b"record")):
            with pytest.raises(OSError, match="No space left"):
                await asking
        await objects.close()

    asyncio.run(scene())
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_folder_is_read_however_much_crashes_have_left_there(tmp_path: Path) -> None:
    async def scene() -> None:
        objects = SharedFolder(Files(), tmp_path)
        await objects.put("folder/record", b"record")
        for number in range(NAMES_MAX):
            (tmp_path / "folder" / f"{number}{SCRATCH}").touch()
        assert await objects.names("folder") == ["record"]
        await objects.close()

    asyncio.run(scene())


# The proof at the start ------------------------------------------------------------------------


def settings_of(store: str, **options: str) -> Settings:
    fleet = Fleet(leader="object-store", store=store, store_options=options)
    return Settings(fleet=fleet, broker=Broker(name=unused_broker()))


def bucket_settings(address: str) -> Settings:
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "nowhere"}
    return settings_of(f"s3://{BUCKET}/prefix", endpoint=address, allow_http="true", **keys)


def open_and_close(settings: Settings, files: Files | None = None) -> None:
    async def scene() -> None:
        leadership = await open_leadership(settings, files or Files(), LOG)
        assert isinstance(leadership, PolledLeadership)
        assert await leadership.compare_and_set(record(0))
        await leadership.close()

    asyncio.run(scene())


def test_stores_that_settings_name_are_opened(tmp_path: Path, s3: ObjectStore, etcd: EtcdServer) -> None:
    (tmp_path / "with blank").mkdir()
    open_and_close(settings_of(f"file://{tmp_path}/with%20blank"))
    assert (tmp_path / "with blank" / CLUSTER).is_dir()
    open_and_close(bucket_settings(s3.address))
    assert all(name.startswith(f"{BUCKET}/prefix/default/broker-") for name in s3.objects)
    assert not [name for name in s3.objects if "/probe/" in name]
    fleet = Fleet(leader="etcd", store=f"{etcd.address},{etcd.address}/")
    open_and_close(Settings(fleet=fleet, broker=Broker(name=unused_broker())))


def test_a_bucket_that_lets_two_make_the_same_object_is_refused() -> None:
    lax = ObjectStore(is_strict=False)
    try:
        with pytest.raises(SettingsError, match="lets two make the same object: two brokers could lead"):
            open_and_close(bucket_settings(lax.address))
    finally:
        lax.close()


def test_a_folder_without_second_names_is_refused(tmp_path: Path) -> None:
    class WithoutLinks(Files):
        def link_new(self, path: Path, other: Path) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

    with pytest.raises(SettingsError, match="can't keep the record of the leader"):
        open_and_close(settings_of(f"file://{tmp_path}"), WithoutLinks())


def test_options_that_a_store_does_not_have_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"fleet\.store_options: .*bogus"):
        open_and_close(settings_of("s3://bucket/prefix", bogus="1"))


def test_what_is_wrong_with_an_option_is_said_without_its_value() -> None:
    with pytest.raises(SettingsError) as refused:
        open_and_close(settings_of("s3://bucket/prefix", allow_http="a-key-of-somebody"))
    assert "a-key-of-somebody" not in str(refused.value)


def test_a_store_that_is_away_at_the_start_is_proved_before_the_first_change(tmp_path: Path) -> None:
    shared = tmp_path / "shared"

    async def scene() -> None:
        leadership = await open_leadership(settings_of(f"file://{shared}"), Files(), LOG)
        with pytest.raises(OSError, match="is not there"):
            await leadership.compare_and_set(record(0))
        assert not shared.exists()  # it isn't mounted, and nobody else would see it
        shared.mkdir()
        assert await leadership.compare_and_set(record(0))
        await leadership.close()

    asyncio.run(scene())


def test_a_primary_keeps_its_record_in_the_store_that_its_settings_name(tmp_path: Path, etcd: EtcdServer) -> None:
    broker = unused_broker()
    named = {"fleet__leader": "etcd", "fleet__store": etcd.address, "broker__name": broker}
    with (
        start_gateway(tmp_path / "primary", **SMALL, **named) as primary,
        connect(primary) as http,
        start_follower(tmp_path / "follower", primary.url, **named),
    ):
        wait_until(lambda: http.get("/v1/broker").json()["in_sync"] == [0, 1])
        said = http.get("/v1/broker").json()

    async def read() -> Record | None:
        leadership = EtcdLeadership([etcd.address], CLUSTER, broker, PATIENT_S, PAUSE_S)
        try:
            return await leadership.read()
        finally:
            await leadership.close()

    found = asyncio.run(read())
    assert found is not None
    assert (found.log_id, found.epoch, found.leader) == (said["log_id"], said["epoch"], 0)
    assert not (tmp_path / "primary" / "IN_SYNC").exists()


# Power cuts of the machine that has the folder --------------------------------------------------


def after_a_cut(root: Path, seed: int, skipped_site: str | None) -> Record | None:
    """What is in force when the power is cut just after a record was."""
    root.mkdir()
    files = LossyFiles(root, seed)
    files.skipped_site = skipped_site

    async def scene() -> Record | None:
        leadership = opened(SharedFolder(files, root), "broker-a")
        assert await leadership.compare_and_set(record(0))
        await leadership.close()
        files.cut_power()
        again = opened(SharedFolder(files, root), "broker-a")
        try:
            return await again.read()
        except LogDamaged:
            return None
        finally:
            await again.close()

    return asyncio.run(scene())


def test_what_is_in_force_is_so_after_any_power_cut(tmp_path: Path) -> None:
    assert {after_a_cut(tmp_path / str(seed), seed, None) for seed in SEEDS} == {record(0)}


@pytest.mark.parametrize("site", SYNCS_OF_MAKERS)
def test_without_any_one_sync_what_is_in_force_may_not_be_after_a_power_cut(tmp_path: Path, site: str) -> None:
    assert None in {after_a_cut(tmp_path / str(seed), seed, site) for seed in SEEDS}


def read_and_cut(root: Path, seed: int, skipped_site: str | None) -> bool:
    """Whether what one has read, while who made it had not come so far yet, is there after a power cut."""
    root.mkdir()
    files = LossyFiles(root, seed)

    async def scene() -> bool:
        maker, reader = SharedFolder(files, root), SharedFolder(files, root)
        await maker.put_new("folder/first", b"first")  # the folder is on disk
        files.skipped_site = SYNC_OF_NAMES
        await maker.put_new("folder/second", b"second")  # and this one isn't
        files.skipped_site = skipped_site
        assert await reader.get("folder/second", lasting=True) == b"second"
        files.cut_power()
        found = await reader.get("folder/second", lasting=False)
        await maker.close()
        await reader.close()
        return found == b"second"

    return asyncio.run(scene())


def test_what_was_read_is_there_after_any_power_cut(tmp_path: Path) -> None:
    assert all(read_and_cut(tmp_path / str(seed), seed, None) for seed in SEEDS)


def test_without_the_reader_s_sync_it_may_not_be(tmp_path: Path) -> None:
    assert not all(read_and_cut(tmp_path / str(seed), seed, SYNC_OF_READERS) for seed in SEEDS)


def test_a_beat_that_a_power_cut_tore_is_no_beat(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = SharedFolder(Files(), tmp_path)
        leadership = opened(folder, "broker-a")
        for torn in (b"", b"[1]", b'{"epoch": 1'):
            await folder.put(f"{CLUSTER}/broker-a/beat", torn)
            assert await leadership.last_beat() is None
        await leadership.close()

    asyncio.run(scene())
