from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from lakemq.jobs.session import cluster
from lakemq.settings import Spark

CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
JARS = [Path("/jars/delta.jar"), Path("/jars/storage.jar")]
BOTH = "/jars/delta.jar,/jars/storage.jar"


@pytest.mark.parametrize(
    ("master", "is_cluster", "is_here"),
    [
        ("local", False, True),
        ("local[2]", False, True),
        ("local[*]", False, True),
        ("local[2,4]", False, True),
        ("local-cluster[2,1,1024]", True, True),
        ("spark://127.0.0.1:7077", True, True),
        ("spark://localhost:7077,127.0.0.1:7078", True, True),
        ("spark://[::1]:7077", True, True),
        ("spark://127.0.0.1:7077,10.0.0.2:7077", True, False),
        ("spark://there:7077", True, False),
        ("yarn", True, False),
        ("k8s://https://127.0.0.1:6443", True, False),
    ],
)
def test_a_master_says_where_executors_are(master: str, is_cluster: bool, is_here: bool) -> None:
    assert cluster.is_cluster(master) == is_cluster
    assert cluster.is_here(master) == is_here


def test_a_local_session_keeps_its_conf() -> None:
    assert cluster.conf_for(Spark(), CONF, []) == CONF


def test_executors_get_the_jars_and_reach_a_driver_on_loopback_only_where_they_are_there_too() -> None:
    here = cluster.conf_for(Spark(master="spark://127.0.0.1:7077"), CONF, JARS)
    assert here == CONF | {"spark.jars": BOTH}
    there = cluster.conf_for(Spark(master="spark://there:7077"), CONF, JARS)
    assert there == {"spark.ui.enabled": "false", "spark.jars": BOTH}


def test_what_is_set_goes_before_and_jars_come_in_addition() -> None:
    own = {"spark.driver.host": "10.0.0.5", "spark.jars": "/own.jar", "spark.ui.enabled": "true"}
    found = cluster.conf_for(Spark(master="yarn", conf=own), CONF | own, JARS)
    assert found == own | {"spark.jars": f"{BOTH},/own.jar"}


def test_the_python_of_executors_is_the_settings_or_the_environments_or_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/environments")
    assert cluster.python_of_executors(Spark(conf={cluster.PYTHON: "/set"}), "/this") == "/set"
    assert cluster.python_of_executors(Spark(), "/this") == "/environments"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert cluster.python_of_executors(Spark(), "/this") == "/this"


def test_executors_are_sent_the_whole_package() -> None:
    with zipfile.ZipFile(cluster.package()) as archive:
        names = archive.namelist()
    assert {"lakemq/__init__.py", "lakemq/jobs/source/data_source.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
