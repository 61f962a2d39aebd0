"""What tests of several rooms share: the one SparkSession of the test run, and how `make test` parts
them between its processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from lakemq.settings import Lake, Settings, Spark, Sql
from lakemq.testing import gateway_process
from lakemq.testing.object_store import ObjectStore
from tests.etcd_server import EtcdServer, find_etcd
from tests.objects.stores import lake_in
from tests.ports import Ports, own_ports
from tests.quick_spark import SESSION_CONF
from tests.reliability.fork_server import CONSOLE, SERVERS, LazyForks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

# Jobs give way to all else on a machine. Here what other processes test would starve them.
os.environ["LAKEMQ_SPARK__NICENESS"] = "0"

# However busy a machine is, no example takes too long, and none is made too slowly: else tests would fail by that.
settings.register_profile("lakemq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lakemq")

WITH_DRIVER = (
    *(f"tests/cli/test_{name}.py" for name in ("documents", "examples", "sql_server", "up")),
    "tests/demo/",
    *("tests/gateway/routing/test_kill.py", "tests/jobs/lake/test_lake_kill.py", "tests/reliability/test_cluster.py"),
)
"""Tests that start a Spark of their own, and don't take the session."""

WITH_SPARK = ("tests/jobs/", "tests/gateway/filter/test_as_in_spark.py", "tests/notebooks/test_notebooks.py")
"""All others that need Spark."""

WITHOUT_SESSION = tuple(
    f"tests/jobs/{name}.py"
    for name in (
        *(f"lake/test_{name}" for name in ("batch_gate", "lake_checkpoints", "replaced_log")),
        *(f"maintenance/test_{name}" for name in ("bundle", "clock", "cron", "cuts", "holes", "requests", "runs")),
        *(
            f"process/test_{name}"
            for name in ("board", "log_levels", "refused_token", "run", "store_away", "told_schemas")
        ),
        *(f"replay/test_{name}" for name in ("ended_sinks", "plan")),
        *("routing/test_sender", "served/test_in_short", "sink/test_sink_parts"),
        *(f"session/test_{name}" for name in ("cluster_conf", "discovery", "guard", "jars", "java", "token_file")),
        *(f"source/test_source_{name}" for name in ("columns", "frames", "options", "plan")),
        *(f"sql/test_{name}" for name in ("connect_client", "connect_session", "formats", "variant")),
    )
)
"""But for these, which any process may have: the one with the session ends last."""

ON_ANY_MACHINE = {
    "LAKEMQ_STORAGE__DISK_HIGH_RATIO": "1.0",
    "LAKEMQ_GATEWAY__HEAD_MS_MAX": "60000",
    "LAKEMQ_GATEWAY__STALL_MS_MAX": "60000",
}
"""Of gateways, unless a test says something else: what they let go of depends on no disk that is nearly full, and no
test that stands still for some seconds is taken for a client that is slow on purpose."""

COVERING = ("tests/model/", "tests/storage/")
"""The tests by which the pure rules and recovery must be covered; all others run at twice the speed without."""
LONG = tuple(
    f"tests/storage/{name}.py"
    for name in (
        *("log/test_dropping", "log/test_kill", "log/test_log_machine", "log/test_needed_syncs", "log/test_power_cuts"),
        *("lake/test_lake_healing", "mend/test_erasure", "mend/test_repair_cuts", "mend/test_stand_in"),
        "read/test_read_faults",
    )
)
"""Of these such as cover nothing that the others don't."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark comes first, as it takes longest."""
    for item in items:
        if not item.nodeid.startswith(COVERING) or item.nodeid.startswith(LONG):
            item.add_marker(pytest.mark.no_cover)
        if "spark" in getattr(item, "fixturenames", ()) and _part(item.nodeid) != "spark":
            raise pytest.UsageError(f"{item.nodeid} takes the session: name its file in WITH_SPARK")
    items.sort(key=lambda item: _order(item.nodeid))


def _order(nodeid: str) -> tuple[int, str]:
    """First what takes the session, then what starts drivers, those of a folder together: they share some."""
    part = _part(nodeid)
    if part == "drivers":
        return 1, Path(nodeid.partition("::")[0]).parent.name
    return (0 if part == "spark" else 2), ""


class Parts(LoadScopeScheduling):
    """All that takes the session goes to one process, what starts drivers of its own to another, and the rest to
    whichever is free, a file at a time, as its tests share what they start."""

    def _split_scope(self, nodeid: str) -> str:
        return _part(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Parts:
    return Parts(config, log)


def _part(nodeid: str) -> str:
    if nodeid.startswith(WITH_DRIVER):
        return "drivers"
    takes_session = nodeid.startswith(WITH_SPARK) and not nodeid.startswith(WITHOUT_SESSION)
    return "spark" if takes_session else nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def ports() -> Iterator[Ports]:
    """For servers that are to be found at the same address when they are started again."""
    own = own_ports()
    yield own
    own.close()


@pytest.fixture(scope="session", autouse=True)
def forked_gateways(ports: Ports) -> Iterator[None]:
    """Gateways start in a tenth of the time, as their imports are done; `tests/gateway/process/test_starting.py`
    starts them whole. Their ports stay theirs while they are down."""
    forks = LazyForks()

    def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        modules = CONSOLE if command[2] == "lakemq.console" else SERVERS
        return forks.popen(modules, command, ON_ANY_MACHINE | ports.placed(environment))

    gateway_process.spawn_by_default = start
    yield
    forks.close()


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdServer]:
    """One etcd for the whole run; whoever uses it has a broker or cluster of its own name."""
    program = find_etcd()
    if program is None:
        assert "CI" not in os.environ, "scripts/setup-debian.sh found no etcd"
        pytest.skip("there is no etcd: scripts/setup-debian.sh gets Debian's")
    server = EtcdServer(program)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    """One store of objects for the whole run; whoever uses it has a bucket of its own name."""
    store = ObjectStore()
    yield store
    store.close()


def has_s3a() -> bool:
    """Whether Spark can write a bucket here."""
    from lakemq.jobs.session.object_storage_jars import S3A

    found = bool(S3A.installed())
    assert found or "CI" not in os.environ, "make setup could not get the jars of S3A"
    return found


@pytest.fixture(scope="session")
def s3a() -> None:
    """Of tests that can't do without its jars."""
    if not has_s3a():
        pytest.skip("the jars of S3A are not here: make setup gets them")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, object_store: ObjectStore) -> Iterator[SparkSession]:
    """A real session, and a Spark Connect server; a process has one, so whatever a test registers in it
    needs a name of its own."""
    from lakemq.jobs.session.session import start_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    conf = {"spark.sql.warehouse.dir": str(warehouse), **SESSION_CONF}
    # One on a disk goes by its own path all the same.
    lake = lake_in(object_store, "s3://any/lake", warehouse) if has_s3a() else Lake(dir=warehouse / "lake")
    settings = Settings(spark=Spark(conf=conf, driver_memory="1536m"), sql=Sql(port=0), lake=lake)
    # It plans for many minutes: what is hot has to be compiled well (`_WELL_WHEN_HOT`).
    session = start_session(settings, "lakemq tests", server=True)
    yield session
    session.stop()
