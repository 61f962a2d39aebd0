"""What keeps others from Spark's ports, and secrets from command lines."""

from __future__ import annotations

import pytest

from lakemq.jobs.session.guard import AUTHENTICATE, SECRET, guard_conf, kept_back
from lakemq.model.errors import SettingsError
from lakemq.settings import Spark


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]", "yarn", "k8s://https://there:6443"])
def test_a_spark_that_makes_its_own_secret_is_given_none(master: str) -> None:
    assert guard_conf(Spark(master=master)) == {AUTHENTICATE: "true"}


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "spark://there:7077", "local-cluster[2,1,1024]"])
def test_a_cluster_without_a_secret_is_refused_unless_somebody_wants_it_so(master: str) -> None:
    with pytest.raises(SettingsError, match=r"spark\.authenticate\.secret"):
        guard_conf(Spark(master=master))
    assert guard_conf(Spark(master=master, conf={SECRET: "s"})) == {AUTHENTICATE: "true"}
    assert guard_conf(Spark(master=master, conf={AUTHENTICATE: "false"})) == {}


def test_what_spark_does_not_show_is_kept_back() -> None:
    secret = {SECRET: "s", "spark.hadoop.fs.s3a.secret.key": "s", "spark.hadoop.fs.s3a.access.key": "s"}
    secret |= {"spark.ssl.keyPassword": "s", "spark.some.Token": "s"}
    assert kept_back(secret | {AUTHENTICATE: "true", "spark.master": "local", "other.secret": "s"}) == secret
