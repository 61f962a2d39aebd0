"""Where jobs answer SQL is said by the broker for as long as they are heard of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakemq.client.errors import Unreachable
from lakemq.client.http import HttpClient
from lakemq.gateway.routing.jobs import ADDRESSES_MAX, ALIVE_MS, Jobs
from lakemq.testing import start_gateway
from lakemq.testing.clocks import ManualClock
from tests.gateway.access.asking import ask_as, token_of
from tests.standstill import within


def test_the_broker_says_where_sql_is_answered(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, ask_as(gateway) as anybody, ask_as(gateway, token_of(tmp_path)) as admin:
        assert anybody.get("/v1/broker").json()["sql"] is None
        beats = {"jobs": [{"name": "lake"}], "sql": "http://127.0.0.1:1234/"}
        assert anybody.put("/v1/jobs", json=beats).status_code == 401

        def said(*others: dict[str, Any]) -> list[int | str]:
            """How it answers to the address, and to what comes after it; and the address that it says then."""
            answers: list[int | str] = [admin.put("/v1/jobs", json=each).status_code for each in (beats, *others)]
            return [*answers, anybody.get("/v1/broker").json()["sql"]]

        address = "http://127.0.0.1:1234"
        assert within(ALIVE_MS / 1000, lambda: said({"jobs": [{"name": "delay"}]})) == [200, 200, address]
        wrong = [{"jobs": [], "sql": each} for each in ("x" * 400, "ftp://a", "http://", 1)]
        assert within(ALIVE_MS / 1000, lambda: said({"jobs": [], "sql": ""}, *wrong)) == [200, 200, *[400] * 4, address]


def test_everybody_learns_of_himself_who_he_is(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, ask_as(gateway) as anybody, ask_as(gateway, token_of(tmp_path)) as admin:
        nobody = {"user": None, "type": None, "status": None, "policies": [], "token_required": False}
        assert anybody.get("/v1/access").json() == nobody
        said = admin.get("/v1/access").json()
        assert (said["user"], said["type"], said["policies"]) == ("admin.token", "super", [])
        with ask_as(gateway, "lmq_0000000000000000_" + "0" * 64) as stranger:
            assert stranger.get("/v1/access").status_code == 401


def test_an_address_goes_with_the_jobs() -> None:
    clock, nothing = ManualClock(), Any
    jobs: Any = Jobs(nothing, nothing, clock, nothing)  # pyright: ignore[reportArgumentType]
    jobs.hear_sql("jobs", "http://127.0.0.1:1", here=True)
    clock.time_ms += ALIVE_MS
    assert jobs.sql_for(here=True) == {"sql": "http://127.0.0.1:1"}
    clock.time_ms += 1
    assert jobs.sql_for(here=True) == jobs.sql_for(here=False) == {"sql": None}


@pytest.mark.parametrize("said_here", [True, False])
@pytest.mark.parametrize("here", [True, False])
def test_an_address_on_loopback_is_said_only_on_the_machine_of_the_jobs(said_here: bool, here: bool) -> None:
    jobs: Any = Jobs(Any, Any, ManualClock(), Any)  # pyright: ignore[reportArgumentType]
    jobs.hear_sql("jobs", "http://127.0.0.1:1", here=said_here)
    said = jobs.sql_for(here)
    if said_here and here:
        assert said == {"sql": "http://127.0.0.1:1"}
    else:
        assert said["sql"] is None
        assert "sql_http.advertise" in said["sql_withheld"]
        assert "127.0.0.1" not in said["sql_withheld"]
    jobs.hear_sql("jobs", "https://jobs.example:8090", here=said_here)
    assert jobs.sql_for(here) == {"sql": "https://jobs.example:8090"}


def test_who_asks_through_a_proxy_is_not_told_of_loopback(tmp_path: Path) -> None:
    """Neither is anybody, where the jobs have said it through one. Who asks from the address that he asks at is on the
    broker's machine, whichever address that is."""
    address, forwarded = "http://127.0.0.1:1234", {"X-Forwarded-For": "10.0.0.9"}
    with start_gateway(tmp_path) as gateway, ask_as(gateway, token_of(tmp_path)) as admin:

        def told(through: dict[str, str], by: dict[str, str]) -> dict[str, Any]:
            answer = admin.put("/v1/jobs", json={"jobs": [], "sql": address}, headers=through)
            assert answer.json().keys() == {"broker", "log_levels", "schemas"}
            described = admin.get("/v1/broker", headers=by).json()
            return {name: value for name, value in described.items() if name.startswith("sql")}

        assert within(ALIVE_MS / 1000, lambda: told({}, {})) == {"sql": address}
        for through, by in (({}, forwarded), (forwarded, {})):
            found = within(ALIVE_MS / 1000, lambda through=through, by=by: told(through, by))
            assert found["sql"] is None
            assert "sql_http.advertise" in found["sql_withheld"]
        with HttpClient(gateway.url) as client, pytest.raises(Unreachable, match="no jobs that answer SQL"):
            client.sql("SELECT 1")


def test_who_said_which_address_is_remembered_up_to_a_bound() -> None:
    jobs: Any = Jobs(Any, Any, ManualClock(), Any)  # pyright: ignore[reportArgumentType]
    assert jobs.is_news("a", "http://x:0")
    for each in range(ADDRESSES_MAX + 1):
        jobs.hear_sql("a", f"http://x:{each}", here=True)
    assert not jobs.is_news("a", "http://x:1")
    assert jobs.is_news("a", "http://x:0"), "forgotten"
    assert jobs.is_news("b", "http://x:1")
