"""The ways to know who leads, each on a real store, and what can be done to that."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from itertools import count
from pathlib import Path

from lakemq.gateway.fleet.bucket import Bucket
from lakemq.gateway.fleet.etcd_leadership import EtcdLeadership
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.gateway.fleet.object_store_leadership import KEPT, ObjectStoreLeadership
from lakemq.gateway.fleet.objects import Objects
from lakemq.gateway.fleet.shared_folder import SharedFolder
from lakemq.gateway.fleet.static_leadership import StaticLeadership
from lakemq.storage.disk.files import Files
from lakemq.testing.object_store import ObjectStore
from tests.gateway.fleet.faulty_wire import FaultyWire

LOG = "log"
BUCKET = "bucket"
CLUSTER = "default"
PAUSE_S = 0.02
PATIENT_S = 60.0
_numbers = count()


def unused_broker() -> str:
    """A broker that no other test asks for."""
    return f"broker-{next(_numbers)}"


def open_bucket(address: str, answer_s: float = PATIENT_S) -> Bucket:
    """That of a store in memory."""
    return Bucket(f"s3://{BUCKET}/prefix", options_of(address), answer_s)


def options_of(address: str) -> dict[str, str]:
    """`fleet.store_options` for such a store."""
    keys = {"access_key_id": "a", "secret_access_key": "b", "region": "nowhere"}
    return {"endpoint": address, "allow_http": "true", **keys}


class Store(ABC):
    """A store with one broker's record: `open` is one more who asks it."""

    @abstractmethod
    def open(self, answer_s: float = PATIENT_S) -> Leadership: ...

    @abstractmethod
    def lose_answers(self) -> None:
        """From now on changes are made, and who asked for them isn't told."""

    @abstractmethod
    def hang(self) -> None:
        """From now on nothing is answered."""

    @abstractmethod
    def heal(self) -> None:
        """All is well again."""

    def close(self) -> None:
        self.heal()


class FaultyFiles(Files):
    """Files on a server that can be made to fail."""

    def __init__(self) -> None:
        self.loses = False
        self.runs = threading.Event()
        self.runs.set()

    def rename(self, path: Path, other: Path) -> None:
        super().rename(path, other)
        self._lose()

    def link_new(self, path: Path, other: Path) -> None:
        super().link_new(path, other)
        self._lose()

    def _lose(self) -> None:
        if self.loses:
            raise OSError(5, "the answer is lost")

    def is_dir(self, path: Path) -> bool:
        self.runs.wait()
        return super().is_dir(path)

    def read_whole(self, path: Path, size: int | None = None) -> bytes:
        self.runs.wait()
        return super().read_whole(path, size)


class OnFiles(Store):
    """What files can be made to do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = FaultyFiles()
        self.broker = unused_broker()

    def lose_answers(self) -> None:
        self.files.loses = True

    def hang(self) -> None:
        self.files.runs.clear()

    def heal(self) -> None:
        self.files.loses = False
        self.files.runs.set()


class Static(OnFiles):
    """A file of the leader's own folder."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._only = StaticLeadership(self.files, root, LOG)

    def open(self, answer_s: float = PATIENT_S) -> Leadership:
        return self._only


class Folder(OnFiles):
    """A folder that all have."""

    def objects(self) -> SharedFolder:
        return SharedFolder(self.files, self.root)

    def open(self, answer_s: float = PATIENT_S) -> Leadership:
        return opened(self.objects(), self.broker, answer_s)


def opened(
    objects: Objects, broker: str, answer_s: float = PATIENT_S, kept: int = KEPT, pause_s: float = PAUSE_S
) -> ObjectStoreLeadership:
    """Who leads that broker, as these objects have it."""
    return ObjectStoreLeadership(objects, "the store", CLUSTER, broker, answer_s, pause_s, kept)


class OnWire(Store):
    """What is on the way to a server can be lost."""

    CHANGES: bytes

    def __init__(self, address: str) -> None:
        self.broker = unused_broker()
        self.wire = FaultyWire(address)

    def lose_answers(self) -> None:
        self.wire.lost = self.CHANGES

    def hang(self) -> None:
        self.wire.hangs = True

    def heal(self) -> None:
        self.wire.lost = None
        self.wire.hangs = False

    def close(self) -> None:
        self.wire.close()


class InEtcd(OnWire):
    """A key of etcd."""

    CHANGES = b"request_put"

    def open(self, answer_s: float = PATIENT_S) -> Leadership:
        return EtcdLeadership([self.wire.address], CLUSTER, self.broker, answer_s, PAUSE_S)


class InBucket(OnWire):
    """Objects of a bucket."""

    CHANGES = b"PUT /"

    def __init__(self) -> None:
        self.s3 = ObjectStore()
        super().__init__(self.s3.address)

    def open(self, answer_s: float = PATIENT_S) -> Leadership:
        return opened(open_bucket(self.wire.address, answer_s), self.broker, answer_s)

    def close(self) -> None:
        super().close()
        self.s3.close()
