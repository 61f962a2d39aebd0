"""Which sinks of replays the broker lets go of."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx

from lakemq.contract import routes
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.replay.ended_sinks import forget_ended_sinks
from lakemq.jobs.replay.plan import FOLDER, Plan, ReplayRequest, finish_plan, forget_plan, write_plan
from lakemq.testing import GatewayProcess
from tests.gateway.http_client import connect

AT_ONCE_MS = -60_000
"""All is older than that."""


def test_a_sink_is_forgotten_when_its_replay_has_ended_long_ago(gateway: GatewayProcess, tmp_path: Path) -> None:
    wanted, other = ReplayRequest("true", f"t-{tmp_path.name}", None), ReplayRequest("false", "t", None)
    names = [f"replay-{wanted.id}-0000000{number}" for number in range(3)]
    strangers = [f"replay-{other.id}-00000000", "replay-of-mine"]
    with closing(LogClient(gateway.url)) as client, connect(gateway) as http:
        for name in [*names, *strangers]:
            client.send(routes.COMMIT_BATCH.at(name, 0), {"parts": []})
        plan = Plan(wanted, names[1], past=[names[0]])
        assert write_plan(tmp_path, plan, new=True)
        assert forget_ended_sinks(client, tmp_path) == 0
        assert forget_ended_sinks(client, tmp_path, AT_ONCE_MS) == 1
        assert known(http, names) == names[1:]  # one that goes on, and one of who knows which lake
        finish_plan(tmp_path, plan, 0)
        assert forget_ended_sinks(client, tmp_path) == 0
        assert forget_ended_sinks(client, tmp_path, AT_ONCE_MS) == 1
        assert known(http, [*names, *strangers]) == [names[2], *strangers]
        (tmp_path / FOLDER / other.id).mkdir()
        (tmp_path / FOLDER / other.id / "plan.json").write_text("{")
        assert forget_ended_sinks(client, tmp_path, AT_ONCE_MS) == 0
        for name in [names[2], *strangers]:
            assert client.ask(routes.FORGET_SINK.at(name))["forgotten"]


def test_who_ends_late_leaves_what_was_begun_anew(tmp_path: Path) -> None:
    wanted = ReplayRequest("true", "t", None)
    late = Plan(wanted, "late")
    assert write_plan(tmp_path, late, new=True)
    forget_plan(tmp_path, wanted)
    anew = Plan(wanted, "anew")
    assert write_plan(tmp_path, anew, new=True)
    finish_plan(tmp_path, late, 1)
    assert not write_plan(tmp_path, late, new=True)
    assert '"anew"' in (tmp_path / FOLDER / wanted.id / "plan.json").read_text()


def known(http: httpx.Client, names: list[str]) -> list[str]:
    found = {each["sink"] for each in http.get("/v1/sinks").json()["sinks"]}
    return [name for name in names if name in found]
