"""A leader whose log takes nothing any more, as a flush has failed: another leads in its place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import httpx
import pytest

from lakemq.gateway.process import resigning
from lakemq.storage.disk.files import Files
from tests.gateway.fleet.electing import role_of
from tests.gateway.fleet.embedding import replica
from tests.gateway.fleet.following import broker_of
from tests.gateway.http_client import is_problem, produce, pull_all, put_topic
from tests.gateway.routing.asking import wait_until

PATIENT = {"fleet__lease_ms": 8_000, "replication__silent_ms": 8_000}
"""Nobody is held for dead meanwhile."""


class FailingOnce(Files):
    """One flush of the log fails, and the disk goes on."""

    fails = False

    def sync(self, descriptor: int) -> None:
        if self.fails and "commitlog" in Path(f"/proc/self/fd/{descriptor}").readlink().parts:
            self.fails = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


def produced(http: httpx.Client, body: str) -> bool:
    """Whether it takes that already: who leads now answers once another has its first frame."""
    return http.post("/v1/topics/t/messages", json={"messages": [{"body": body}]}).status_code == 200


def bodies(http: httpx.Client) -> set[str]:
    return {message["body"] for message in pull_all(http, "t")}


def test_who_can_not_write_any_more_has_another_lead_and_follows_it(tmp_path: Path) -> None:
    files = FailingOnce()
    with replica(tmp_path, 0, files, **PATIENT) as zero, replica(tmp_path, 1, Files(), **PATIENT) as one:
        wait_until(lambda: broker_of(zero).get("in_sync") == [0, 1])
        put_topic(zero, "t")
        produce(zero, "t", "acknowledged")
        files.fails = True
        answer = zero.post("/v1/topics/t/messages", json={"messages": [{"body": "lost"}]})
        assert is_problem(answer, 503, "store_unwritable")
        wait_until(lambda: role_of(one) == "primary")
        wait_until(lambda: produced(one, "goes on"))
        wait_until(lambda: broker_of(one).get("in_sync") == [0, 1])
        assert {"acknowledged", "goes on"} <= bodies(one) <= {"acknowledged", "lost", "goes on"}
        assert role_of(zero) == "follower"


def test_it_is_switched_away_by_order_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resigning, "LOOK_S", 1_000.0)  # so it never does by itself
    files = FailingOnce()
    with replica(tmp_path, 0, files, **PATIENT) as zero, replica(tmp_path, 1, Files(), **PATIENT) as one:
        wait_until(lambda: broker_of(zero).get("in_sync") == [0, 1])
        put_topic(zero, "t")
        files.fails = True
        answer = zero.post("/v1/topics/t/messages", json={"messages": [{"body": "lost"}]})
        assert is_problem(answer, 503, "store_unwritable")
        assert zero.post("/v1/broker/switch", json={"replica": 1}).json()["leader"] == 1
        wait_until(lambda: role_of(one) == "primary")
        wait_until(lambda: produced(one, "goes on"))
