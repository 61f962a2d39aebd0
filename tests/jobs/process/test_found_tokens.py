"""What the jobs know of tokens before Spark starts."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path

import pytest

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.process.found_tokens import find_tokens_first
from lakemq.model.environment import FOUND_TOKENS
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(FOUND_TOKENS, "")  # so that it is taken back afterwards


def test_clients_of_the_jobs_are_not_refused_first(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data", auth__required=True) as gateway, connect(gateway) as http:
        http.headers["Authorization"] = f"Bearer {(tmp_path / 'data/admin.token').read_text('ascii').strip()}"

        def refused() -> list[str]:
            # The audit has one record for all of them within a minute.
            found = http.get("/metrics").raise_for_status().text
            return re.findall(r'^lakemq_problems_total\{code="unauthenticated"\} (\S+)', found, re.MULTILINE)

        find_tokens_first([gateway.url, "http://192.0.2.1:1", ""])
        assert json.loads(os.environ[FOUND_TOKENS]) == {gateway.url: str(tmp_path / "data/admin.token")}
        assert refused() == ["1.0"]
        for _ in range(3):
            with closing(LogClient(gateway.url)) as client:
                client.end()
        find_tokens_first([gateway.url])
        assert refused() == ["1.0"]


def test_a_broker_that_is_not_there_is_left_out() -> None:
    find_tokens_first(["http://127.0.0.1:1"])
    assert os.environ[FOUND_TOKENS] == ""
