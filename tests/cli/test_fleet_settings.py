"""What a fleet's jobs are given to reach their Spark cluster."""

from __future__ import annotations

from pathlib import Path

from lakemq.cli.fleet.group import write_settings
from lakemq.cli.fleet.surroundings import Spark
from lakemq.settings import load


def test_the_cluster_and_the_jobs_of_a_fleet_have_a_secret_that_only_their_user_reads(tmp_path: Path) -> None:
    spark = Spark(tmp_path, "127.0.0.1", keep=False)
    write_settings(tmp_path / "jobs.toml", spark.settings)
    found = load(tmp_path / "jobs.toml", {}).spark
    secret = found.conf["spark.authenticate.secret"]
    assert (found.master, len(secret)) == (spark.master, 43)
    of_the_cluster = tmp_path / "spark" / "spark.conf"
    assert secret in of_the_cluster.read_text()
    for file in (tmp_path / "jobs.toml", of_the_cluster):
        assert file.stat().st_mode & 0o777 == 0o600
