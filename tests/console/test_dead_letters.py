"""Dead letters ticked, kept as files and sent again, as a browser without scripts has them."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape

import httpx
import pytest

from lakemq.console.letter_files import LetterFile
from tests.console.visitor import Visitor, went_to
from tests.gateway.http_client import produce, put_topic

FORMULA = '=HYPERLINK("http://evil.test")'


@pytest.fixture
def group(http: httpx.Client, visitor: Visitor, name: str) -> str:
    """One with five dead letters."""
    put_topic(http, name)
    produce(http, name, *[{"body": f"{number}", "keys": [f"k{number}"]} for number in range(5)])
    wanted = {"topic": name, "max": 5, "invisible_ms": 60_000, "wait_ms": 10_000}
    receipts: list[str] = []
    while len(receipts) < 5:
        answer = http.post(f"/v1/groups/{name}/receive", json=wanted).json()
        receipts += [each["receipt"] for each in answer["messages"]]
    nacks = [
        {"receipt": receipt, "delay_level": -1, "reason": FORMULA if number == 4 else f"reason {number}"}
        for number, receipt in enumerate(receipts)
    ]
    http.post(f"/v1/groups/{name}/nacks", json={"messages": nacks}).raise_for_status()
    while visitor.get(f"/groups/{name}/dead-letters").count('type="checkbox"') < 5:
        pass
    return name


def test_those_that_are_ticked_are_sent_and_no_others(visitor: Visitor, group: str) -> None:
    path = f"/groups/{group}/dead-letters"
    ticks = sorted(re.findall(r'name="(tick-\d+)"', visitor.get(path)))
    assert len(ticks) == 5
    counted = visitor.post(path, rate="10", **dict.fromkeys(ticks[:2], "1"))
    assert "2 dead letters would be sent again" in counted.text
    assert "2 are ticked" in counted.text
    both = visitor.post(path, rate="10", where="failure_text = 'reason 1'", **dict.fromkeys(ticks[:2], "1"))
    assert "1 dead letter would be sent again" in both.text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', counted.text))
    sent = visitor.http.post(f"{path}/redrive", data={key: unescape(value) for key, value in hidden.items()})
    progress = went_to(sent)
    while visitor.get(progress).count(">redriven<") < 2:
        pass
    left = visitor.get(path)
    assert sorted(re.findall(r'name="(tick-\d+)"', left)) == ticks[2:]
    assert visitor.post(path, rate="10", **{"tick-x": "1"}).status_code == 400


def test_those_that_are_ticked_are_discarded_and_no_others(visitor: Visitor, group: str) -> None:
    path = f"/groups/{group}/dead-letters"
    ticks = sorted(re.findall(r'name="(tick-\d+)"', visitor.get(path)))
    counted = visitor.post(path, discard="1", rate="10", **dict.fromkeys(ticks[:2], "1")).text
    assert "2 dead letters would be discarded" in counted
    assert "2 are ticked" in counted
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', counted))
    done = visitor.http.post(f"{path}/discard", data={key: unescape(value) for key, value in hidden.items()})
    assert went_to(done) == path
    assert sorted(re.findall(r'name="(tick-\d+)"', visitor.get(path))) == ticks[2:]
    assert visitor.get(path, state="discarded").count(">discarded</span>") == 2
    wrong = visitor.post(path, discard="1", rate="10", where="tag =")
    assert wrong.status_code == 400
    assert "0 dead letters match" in visitor.post(path, discard="1", rate="10", where="tag = 'none'").text


def test_what_is_listed_is_kept_as_a_file(visitor: Visitor, group: str) -> None:
    path = f"/groups/{group}/dead-letters/export"
    response = visitor.http.get(path, params={"format": "jsonl"})
    assert response.headers["content-disposition"] == f'attachment; filename="dead-letters-{group}.jsonl"'
    letters = [json.loads(line) for line in response.text.splitlines()]
    assert sorted(each["keys"][0] for each in letters) == [f"k{number}" for number in range(5)]
    text = visitor.get(path, format="csv", reason="REASON 2")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["failure_text"], row["keys"], row["state"]) == ("reason 2", "k2", "open")
    (risky,) = csv.DictReader(io.StringIO(visitor.get(path, format="csv", reason="HYPERLINK")))
    assert risky["failure_text"] == f"'{FORMULA}"
    assert visitor.get(path, format="jsonl", state="redriven") == ""
    assert "a file is one of csv, jsonl" in visitor.get(path, 400, format="exe")
    visitor.get(path, 400, format="csv", state="undead")
    visitor.get("/groups/none-such/dead-letters/export", 404, format="csv")


def test_a_file_that_lacks_some_says_so() -> None:
    assert b"cut after 7 dead letters" in LetterFile("csv").cut(7)
    assert json.loads(LetterFile("jsonl").cut(7)) == {"cut": "cut after 7 dead letters: narrow the filter"}
    assert LetterFile("csv").head.startswith(b"message_id,queue_offset,state,")
    assert LetterFile("jsonl").head == b""
