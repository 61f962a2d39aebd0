"""A lake's store that is away as a run begins is waited for; one that refuses ends the jobs."""

from __future__ import annotations

import gc
import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Lock
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.errors import LakeNotOnDisk, LakeTaken
from lakemq.jobs.process import keep_running as module
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.keep_running import AWAY_MAX, FAILURES_MAX, PYTHON_LATE, Failures, keep_running
from lakemq.jobs.process.store_away import failure_of, is_away, is_refused, java_has_ended
from lakemq.jobs.process.store_check import once_there, store_away
from lakemq.jobs.session.bare_java import start_bare_java
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.objects.path import ObjectPath
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in


class AnsweringBroker:
    """A watch of one broker that answers until `stop`."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def wait(self) -> tuple[str, ...]:
        return () if self._stop.is_set() else ("http://127.0.0.1:9",)

    def telling(self, *_: object) -> nullcontext[None]:
        return nullcontext()

    def has_changed(self, _: object) -> bool:
        return False


class Stream:
    """Of a run that goes on."""

    isActive = True  # noqa: N815 (Spark's name)


class Query:
    """A run that reads the store as it begins, as that of the lake does."""

    reached = None
    topics = ()
    batches = 0

    def __init__(self, lake: ObjectPath, stop: Event) -> None:
        self._lake, self._stop = lake, stop

    def start(self) -> Any:
        list(self._lake.iterdir())
        self._stop.set()
        return Stream()

    def failure(self) -> None:
        return None

    def stop(self) -> None: ...


class Scene:
    def __init__(self, store: ObjectStore, lake: ObjectPath) -> None:
        self.store, self.lake = store, lake
        self.stop, self.runs = Event(), 0
        self.back_at_run = 0

    def keep_running(self) -> None:
        watch = cast("BrokerWatch", AnsweringBroker(self.stop))
        keep_running("lake", self._new_run, watch, self.stop, Lock())

    def _new_run(self, _: str) -> Query:
        self.runs += 1
        if self.runs == self.back_at_run:
            self.store.status_of_all = None
        return Query(self.lake, self.stop)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scene]:
    monkeypatch.setattr(module, "_PAUSE_S_MAX", 0.0)
    monkeypatch.setattr("lakemq.objects.bucket.RETRIES", 0)
    store = ObjectStore()
    yield Scene(store, path_in(store, "s3://bucket/lake", tmp_path))
    store.close()


def test_a_store_that_is_away_as_a_run_begins_is_waited_for(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """More often than any other failure would be, and the process goes on when it is back."""
    scene.store.status_of_all = 503, "SlowDown"
    scene.back_at_run = FAILURES_MAX + 2
    scene.keep_running()
    assert scene.stop.is_set()
    assert scene.runs == FAILURES_MAX + 2
    assert "the lake's store is unreachable, or can't be written" in caplog.text


def test_a_store_that_stays_away_is_given_up(scene: Scene) -> None:
    scene.store.status_of_all = 503, "SlowDown"
    with pytest.raises(LakemqError, match="keeps failing"):
        scene.keep_running()
    assert scene.runs == AWAY_MAX


def test_a_store_that_refuses_is_not_asked_again(scene: Scene) -> None:
    scene.store.status_of_all = 403, "AccessDenied"
    with pytest.raises(LakemqError, match="the lake's store refuses the lake query"):
        scene.keep_running()
    assert scene.runs == 1


def test_a_store_that_is_away_as_the_jobs_start_is_waited_for(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is checked before the lake is written, and whatever needs no lake goes on meanwhile."""
    scene.store.status_of_all = 503, "SlowDown"
    away, pauses, done = store_away(scene.lake), list[float](), list[str]()
    assert away is not None

    def wait(pause_s: float) -> bool:
        pauses.append(pause_s)
        if len(pauses) == FAILURES_MAX + 2:
            scene.store.status_of_all = None
        return scene.stop.is_set()

    monkeypatch.setattr(scene.stop, "wait", wait)
    once_there(scene.lake, away, scene.stop, lambda: done.append("written"))
    assert (len(pauses), done) == (FAILURES_MAX + 2, ["written"])
    assert store_away(scene.lake) is None
    scene.stop.set()
    once_there(scene.lake, away, scene.stop, lambda: done.append("written after a stop"))
    assert done == ["written"]


def test_a_store_that_is_away_for_too_long_or_refuses_ends_the_start(scene: Scene) -> None:
    scene.store.status_of_all = 503, "SlowDown"
    away = store_away(scene.lake)
    with pytest.raises(LakemqError, match="the check of the lake's store keeps failing"):
        once_there(scene.lake, away, scene.stop, scene.stop.set)
    for status, code in ((403, "AccessDenied"), (404, "NoSuchBucket")):
        scene.store.status_of_all = status, code
        with pytest.raises(SettingsError, match="the lake's store can't be written"):
            store_away(scene.lake)
        with pytest.raises(SettingsError, match="the lake's store can't be written"):
            once_there(scene.lake, away, scene.stop, scene.stop.set)
    assert not scene.stop.is_set()


def test_what_comes_of_a_store_that_is_away_is_told_from_what_no_run_mends() -> None:
    not_on_disk = LakeNotOnDisk("it can't be written")
    not_on_disk.__cause__ = OSError("the store is away")
    for passes in (OSError("the store is away"), ConnectionRefusedError(), not_on_disk):
        assert is_away(passes)
        assert not is_refused(passes)
    for lasts in (FileNotFoundError("no such bucket"), LakeTaken("another has it"), ValueError("torn")):
        assert not is_away(lasts)
        assert not is_refused(lasts)
    for refused in (PermissionError("403"), OSError("Kernel error: Client error with status 403 Forbidden")):
        assert is_refused(refused)
        assert not is_away(refused)


class Java:
    """A Java with Spark's classes, and none of Spark running; the only one that this process knows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gateway = start_bare_java()
        # Else what is collected later, amid another test, tells a Java that is dead, and leaves sockets open.
        self.gateway.gateway_property.enable_memory_management = False
        self.gateway.proc = self.gateway.java_process  # as Spark's own gateway has it
        self.jvm: Any = self.gateway.jvm
        monkeypatch.setattr(SparkContext, "_gateway", self.gateway)
        monkeypatch.setattr(SparkContext, "_jvm", self.jvm)

    def end(self) -> None:
        self.gateway.proc.kill()
        self.gateway.proc.wait()
        self.gateway.proc.stdin.close()
        self.gateway.close()

    def raised(self, kind: str, said: str) -> Py4JJavaError:
        """As a call of Java raises it: another exception, of which it is the cause."""
        future = self.jvm.java.util.concurrent.CompletableFuture()
        future.completeExceptionally(self._made(kind, said))
        with pytest.raises(Py4JJavaError) as raised:
            future.get()
        return raised.value

    def ended_stream(self, kind: str, said: str) -> StreamingQuery:
        """As Spark leaves one behind whose checkpoint could not be written."""
        no_parameters = getattr(self.jvm, "scala.collection.immutable.Map$EmptyMap$").__getattr__("MODULE$")
        thrown = self.jvm.org.apache.spark.sql.streaming.StreamingQueryException(
            *("the lake query", "the stream failed", self._made(kind, said), "0", "1", "STREAM_FAILED"),
            *(no_parameters, self.jvm.scala.Option.empty()),
        )
        return StreamingQuery(cast("Any", EndedStream(self.jvm.scala.Option.apply(thrown))))

    def _made(self, kind: str, said: str) -> Any:
        made = self.jvm
        for part in kind.split("."):
            made = getattr(made, part)
        return made(said)


class EndedStream:
    """Java's side of a stream."""

    def __init__(self, thrown: Any) -> None:
        self._thrown = thrown

    def exception(self) -> Any:
        return self._thrown


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    with pytest.MonkeyPatch.context() as patch:
        java = Java(patch)
        yield java
        java.end()


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Java]:
    """One of its own. Py4j leaves a socket open that finds nobody: it goes here, and not amid another test, as it does
    where a log record of py4j's, which pytest keeps for longer, holds it."""
    monkeypatch.setattr(logging.getLogger("py4j.java_gateway"), "disabled", True)
    java = Java(monkeypatch)
    yield java
    java.end()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


IN_JAVA = [
    ("java.io.IOException", "No space left on device", "away"),
    ("java.net.ConnectException", "Connection refused", "away"),
    ("java.nio.file.AccessDeniedException", "s3a://bucket: Forbidden (Status Code: 403)", "refused"),
    ("java.io.FileNotFoundException", "no such bucket", "neither"),
    ("java.lang.IllegalStateException", "torn", "neither"),
]


@pytest.mark.parametrize(("kind", "said", "expected"), IN_JAVA)
def test_what_java_threw_is_told_by_its_kind(java: Java, kind: str, said: str, expected: str) -> None:
    error = java.raised(kind, said)
    assert (is_away(error), is_refused(error)) == (expected == "away", expected == "refused")


@pytest.mark.parametrize(("kind", "said", "expected"), IN_JAVA)
def test_what_ended_a_stream_is_told_by_what_java_threw(java: Java, kind: str, said: str, expected: str) -> None:
    """Such as a checkpoint's disk that is full: no batch of ours has failed then."""
    error = failure_of(java.ended_stream(kind, said))
    assert error is not None
    assert (is_away(error), is_refused(error)) == (expected == "away", expected == "refused")


def test_java_that_has_ended_is_no_store_that_is_away(mortal: Java) -> None:
    """The process ends then at once, and whoever looks after it starts it anew."""
    java = mortal
    before = java.raised("java.io.IOException", "the store is away")
    ended = failure_of(java.ended_stream("java.io.IOException", "the store is away"))
    assert ended is not None
    assert is_away(before)
    assert is_away(ended)
    assert not java_has_ended()
    java.end()
    assert java_has_ended()
    with pytest.raises(Exception) as gone:  # noqa: PT011 (of whatever kind py4j makes it)
        java.jvm.java.lang.System.nanoTime()
    for error in (before, ended, gone.value, ConnectionRefusedError(), OSError("the store is away too")):
        assert not is_away(error)
        assert not is_refused(error)
    assert is_refused(PermissionError("403"))


class Dead:
    """A run in a process whose Java has ended."""

    reached = None
    topics = ()
    batches = 0

    def __init__(self, java: Java) -> None:
        self._java = java

    def start(self) -> Any:
        """Connects to Java, and raises what the system says to that, as Spark's way to Java does."""
        socket.create_connection(("127.0.0.1", self._java.gateway.gateway_parameters.port)).close()

    def failure(self) -> None:
        return None

    def stop(self) -> None: ...


def test_java_that_has_ended_ends_the_process_at_once(mortal: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S_MAX", 0.0)
    stop, runs = Event(), list[str]()
    mortal.end()

    def new_run(addresses: str) -> Dead:
        runs.append(addresses)
        return Dead(mortal)

    with pytest.raises(ConnectionRefusedError):
        keep_running("lake", new_run, cast("BrokerWatch", AnsweringBroker(stop)), stop, Lock())
    assert len(runs) == 1


def test_python_that_starts_too_slowly_is_not_the_stores_fault(caplog: pytest.LogCaptureFixture) -> None:
    """It passes as what a store does passes, and has the same cause in Java."""
    late = OSError(f"{PYTHON_LATE}.")
    assert is_away(late)
    assert Failures("lake query").pause_s(late, did_batches=False) == 2.0
    assert "Python took more than 10 s to start" in caplog.text
    assert "store" not in caplog.text
