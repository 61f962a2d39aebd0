"""Several gateways in one process do nothing to each other."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import httpx
import pytest

from lakemq.testing import MemoryBroker


def test_what_a_first_request_does_is_no_matter_of_the_whole_process(monkeypatch: pytest.MonkeyPatch) -> None:
    silenced = warnings.catch_warnings

    def of_a_request(*arguments: Any, **named: Any) -> Any:
        assert threading.current_thread().name != "lakemq gateway"
        return silenced(*arguments, **named)

    with MemoryBroker() as broker:
        monkeypatch.setattr(warnings, "catch_warnings", of_a_request)
        assert httpx.get(f"{broker.url}/v1/topics", timeout=60).status_code == 200
        assert httpx.get(f"{broker.url}/v1/groups", timeout=60).status_code == 200
