"""The quick form of `python -m tests.fuzz_access`: each route by each who asks, some times."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz_access.drawn import Answered
from tests.fuzz_access.run import run
from tests.fuzz_access.scene import HIDDEN, SECRET, leaks

EACH, QUICKLY = 1, 700
"""So that each operation has its turn."""


def test_nobody_sees_what_he_may_not_and_no_request_is_a_fault_of_the_server(tmp_path: Path) -> None:
    statuses: dict[str, Counter[int]] = {}
    assert run(tmp_path, QUICKLY, 1, statuses, each=EACH) == []
    assert set(statuses) == {"nobody", "limited", "administrator", "who reaches a name server"}
    assert sum(sum(counted.values()) for counted in statuses.values()) >= QUICKLY
    assert statuses["nobody"][401]
    assert statuses["limited"][403]
    assert statuses["administrator"][200]


@pytest.mark.parametrize("before", [b"", b"a", b"ab"])
def test_a_secret_is_found_as_it_is_and_in_base64(before: bytes) -> None:
    for body in (before + SECRET.encode(), base64.b64encode(before + SECRET.encode() * 2 + b"more")):
        told = Answered("GET", "/", "GET /v1/messages", 200, {}, b"..." + body + b"...")
        assert leaks(told) == [SECRET]
        assert leaks(told._replace(text=f"GET /{SECRET}")) == []


def test_a_name_that_was_not_in_the_request_is_found() -> None:
    told = Answered("GET", "/", "GET /v1/topics", 403, {}, f"not {HIDDEN[0]}".encode())
    assert leaks(told) == [HIDDEN[0]]
    assert leaks(told._replace(text=f"GET /v1/topics/{HIDDEN[0]}")) == []
    assert leaks(told, {HIDDEN[0]}) == []
