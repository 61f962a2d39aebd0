"""An application is made of a broker that isn't open yet: that begins another state, and nothing has the first one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lakemq.gateway.fleet.tenure import Tenure
from lakemq.gateway.process.app import make_app
from lakemq.gateway.process.broker import Broker
from lakemq.settings import Settings


class NotBegun:
    """What a log has before it is open."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is of a state that nobody has any more once the log is open")


@pytest.mark.parametrize("follows", [False, True])
def test_nothing_takes_hold_of_what_a_log_has_before_it_is_open(tmp_path: Path, follows: bool) -> None:
    async def make() -> None:
        options = {"storage": {"data_dir": tmp_path}, "fleet": {"primary": "http://127.0.0.1:1"}}
        broker = Broker(Settings.model_validate(options), tenure=Tenure(follows))
        try:
            broker.log.state = NotBegun()  # pyright: ignore[reportAttributeAccessIssue]
            make_app(broker)
        finally:
            await broker.abandon()

    asyncio.run(make())
