from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull, pull_all, put_topic
from tests.gateway.routing.asking import wait_until

MIB = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(http: httpx.Client) -> list[str]:
    """Produce until the log takes no more; returns what it took."""
    stored: list[str] = []
    while len(stored) < 1000:
        body = f"{len(stored):08}" * 65_536
        response = http.post("/v1/topics/t/messages", content=body, headers={"Content-Type": "text/plain"})
        if response.status_code != 200:
            assert is_problem(response, 503, "store_unwritable")
            assert int(response.headers["retry-after"]) > 0
            return stored
        stored.append(body[:8])
    raise AssertionError("the log took everything")


def check_reads_go_on(http: httpx.Client, stored: list[str]) -> None:
    assert [message["body"][:8] for message in pull_all(http, "t")] == stored
    assert http.get("/healthz").status_code == 200
    assert is_problem(http.get("/readyz"), 503, "store_unwritable")
    assert is_problem(http.put("/v1/topics/new", json={}), 503, "store_unwritable")
    assert is_problem(http.post("/v1/topics/t/messages?ack=sync", content=b"x"), 503, "store_unwritable")
    assert pull(http, "t", 0, 0, max=1)["status"] == "found"
    assert "lakemq_writable 0" in http.get("/metrics").text.replace(".0", "")


def test_a_full_disk_is_a_503_until_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 8 * MIB)
    data_dir = small_disk / "data"
    # More than one of the messages, so that housekeeping finds no room either while the ballast is there.
    options = {"storage__compression": "none", "storage__free_bytes_min": MIB}
    with start_gateway(data_dir, **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        stored = fill(http)
        check_reads_go_on(http, stored)
        ballast.unlink()
        wait_until(lambda: http.get("/readyz").status_code == 200)
        produce(http, "t", "again", ack="sync")
        assert [message["body"][:8] for message in pull_all(http, "t")] == [*stored, "again"]
        assert gateway.stop() == 0
    with start_gateway(data_dir, **options) as gateway, connect(gateway) as http:
        assert [message["body"][:8] for message in pull_all(http, "t")] == [*stored, "again"]


def test_a_gateway_on_a_full_disk_stops_and_starts_in_order(small_disk: Path) -> None:
    options = {"storage__compression": "none", "storage__free_bytes_min": 0}
    with start_gateway(small_disk / "data", **options) as gateway, connect(gateway) as http:
        put_topic(http, "t")
        stored = fill(http)
        with suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as rest:
            while True:
                rest.write(b"x" * 4096)
        assert gateway.stop() == 0
        assert not [line for line in gateway.log if "Traceback" in line]
    (small_disk / "rest").unlink(missing_ok=True)
    with start_gateway(small_disk / "data", **options) as gateway, connect(gateway) as http:
        assert [message["body"][:8] for message in pull_all(http, "t")] == stored


def test_a_file_that_may_grow_no_further_is_a_503_until_it_may(tmp_path: Path) -> None:
    with start_gateway(tmp_path, storage__compression="none") as gateway, connect(gateway) as http:
        put_topic(http, "t")
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (4 * MIB, resource.RLIM_INFINITY))
        stored = fill(http)
        assert [message["body"][:8] for message in pull_all(http, "t")] == stored
        resource.prlimit(gateway.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: http.get("/readyz").status_code == 200)
        produce(http, "t", "again")
        assert [message["body"][:8] for message in pull_all(http, "t")] == [*stored, "again"]
