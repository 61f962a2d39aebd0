"""A gateway with users, a lake with messages of several topics, and the server of SQL beside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.served.server import SqlServer
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Settings
from lakemq.testing import GatewayProcess
from tests.gateway.access.asking import allow, ask_as, deny, make_user, token_of
from tests.jobs.conftest import produce_to
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.streams import LakeRun

WAIT_S = 300
MANY = 20_000
"""Messages of the topic `secondary`: each with each is too much for anybody to wait."""
ORDERS, SECRETS = range(10), range(100, 107)


@dataclass
class Scene:
    """`tokens`: by user. In the lake there are ten messages of `orders` and seven of `secrets`, and one more of each in
    the log alone."""

    gateway: GatewayProcess
    server: SqlServer
    tokens: dict[str, str]
    lake: Path

    def ask(self, statement: str, user: str | None = None, **fields: Any) -> httpx.Response:
        """What the server answers."""
        headers = {} if user is None else {"Authorization": f"Bearer {self.tokens[user]}"}
        content = {"statement": statement, "timeout_ms": WAIT_S * 1000, **fields}
        with httpx.Client(trust_env=False, timeout=WAIT_S) as http:
            return http.post(f"{self.server.url}/v1/sql", json=content, headers=headers)

    def rows(self, statement: str, user: str | None = None) -> list[Any]:
        """The rows, which there must be."""
        answer = self.ask(statement, user)
        assert answer.status_code == 200, answer.text
        return answer.json()["rows"]

    def problem(self, statement: str, user: str | None = None) -> tuple[int, str, str]:
        """Why it is refused."""
        answer = self.ask(statement, user)
        said = answer.json()
        assert answer.status_code >= 400, said
        return answer.status_code, said["code"], said["detail"]


def make_users(gateway: GatewayProcess, data: Path) -> dict[str, str]:
    """The administrator, one who sees orders, one who sees all topics but secrets, and one who may ask for nothing."""
    with ask_as(gateway, token_of(data)) as admin:
        return {
            "admin": token_of(data),
            "olga": make_user(admin, "olga", allow("Lake:*", "Sql"), allow("Topic:orders", "Sub")),
            "ines": make_user(
                admin, "ines", allow("Lake:messages", "Sql"), allow("Topic:*", "Get"), deny("Topic:sec*", "Get")
            ),
            "max": make_user(admin, "max", allow("Lake:*", "Sql"), allow("Topic:secondary", "Get")),
            "gina": make_user(
                admin, "gina", allow("Lake:*", "Sql"), allow("Topic:orders", "Get"), allow("Group:g", "Get")
            ),
            "nobody": make_user(admin, "nobody", allow("Topic:*", "Sub", "Get")),
            "elsewhere": make_user(
                admin, "elsewhere", allow("Lake:*", "Sql"), allow("Topic:orders", "Sub") | {"sources": ["10.0.0.0/8"]}
            ),
        }


def fail(gateway: GatewayProcess) -> None:
    """The first message of `secrets` is handed out to the group `tries`, which fails."""
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=WAIT_S) as http:
        wanted = {"topic": "secrets", "max": 1, "invisible_ms": 3_600_000, "wait_ms": 30_000}
        (out,) = http.post("/v1/groups/tries/receive", json=wanted).raise_for_status().json()["messages"]
        nack = {"receipt": out["receipt"], "delay_level": 18, "reason": "no such order"}
        http.post("/v1/groups/tries/nacks", json={"messages": [nack]}).raise_for_status()


def fill(spark: SparkSession, gateway: GatewayProcess, lake: Path) -> LiveViews:
    """Messages, and a lake that has all but the last two."""

    def produce(topic: str, numbers: range) -> None:
        produce_to(gateway.url, topic, [{"body": f"{topic} {n}", "keys": [f"k{n}"], "tag": "T"} for n in numbers])

    produce_to(gateway.url, "secondary", [{"body": "x"}] * MANY)
    produce("orders", ORDERS)
    produce("secrets", SECRETS)
    produce_to(gateway.url, "secrets", [{"body": "later", "delay_ms": 3_600_000}])
    for topic in ("orders", "secrets"):
        offsets = [{"topic": topic, "queue_id": 0, "offset": 1}]
        done = httpx.put(f"{gateway.url}/v1/groups/g/offsets", json={"offsets": offsets}, trust_env=False, timeout=60)
        assert done.is_success, done.text
    fail(gateway)
    views = LiveViews(spark, lake, lambda: gateway.url)
    settings = Settings(lake=Lake(dir=lake, trigger_ms=0, merge_files=64))
    run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, views, driver=Driver(spark, settings.lake)))
    try:
        wait_until_compacted(gateway.url, run.is_alive)
    finally:
        run.stop()
    views.register()
    produce("orders", range(10, 11))
    produce("secrets", range(107, 108))
    return views
