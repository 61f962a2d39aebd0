"""What is begun at one leader of a broker and ended at another: each has to be as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import httpx

from tests.gateway.access.asking import allow, make_user
from tests.gateway.http_client import WAIT_S, produce, pull_all, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, nack, resolve, wait_until
from tests.gateway.sinks.asking import commit, put_part

ONCE, WORK, BOARDING, PAID, SUNK, BILLED = TOPICS = ("once", "work", "boarding", "paid", "sunk", "billed")
SHOP, WORKERS, BILLING, SINK = "shop", "workers", "billing", "exports"
SOON_MS = 10_000
LATE_MS = 24 * 3_600_000
OUT_MS = 3_600_000


class Opened(NamedTuple):
    """What was begun together, and what was answered. `reader`: the token of a user; empty where the broker knows no
    users yet."""

    number: int
    once: dict[str, Any]
    late: dict[str, Any]
    halves: list[str]
    out: list[dict[str, Any]]
    reader: str


class Carried:
    """Begun with `begin`, ended with `end`; then `finish` looks at all of it. `findings`: a line for each that is
    wrong."""

    def __init__(self) -> None:
        self._number = 0
        self._opened: Opened | None = None
        self.findings: list[str] = []

    def begin(self, http: httpx.Client) -> None:
        """Begin one of each."""
        if not self._number:
            for topic in TOPICS:
                put_topic(http, topic)
        self._number += 1
        number = self._number
        (_, late) = produce(
            http,
            BOARDING,
            {"body": f"soon {number}", "delay_ms": SOON_MS},
            {"body": f"late {number}", "delay_ms": LATE_MS},
        )
        produce(http, WORK, f"acknowledged {number}", f"out {number}")
        failed, dead = produce(http, BILLED, f"failed {number}", f"dead {number}")
        nack(http, BILLING, {"message_id": failed["message_id"], "delay_level": 1})
        nack(http, BILLING, {"message_id": dead["message_id"], "delay_level": -1})
        offset = {"topic": BILLED, "queue_id": 0, "offset": 2 * number}
        assert http.put(f"/v1/groups/{BILLING}/offsets", json={"offsets": [offset]}).is_success
        self._stage(http)
        has_users = http.get("/v1/users").is_success
        self._opened = Opened(
            number,
            self._once(http),
            late,
            begin(http, PAID, f"committed {number}", f"rolled back {number}", f"open {number}", group=SHOP),
            receive(http, WORKERS, WORK, max=2, invisible_ms=OUT_MS),
            make_user(http, f"reader-{number}", allow(f"Topic:{BILLED}", "Sub")) if has_users else "",
        )

    def _once(self, http: httpx.Client) -> dict[str, Any]:
        """What a request with a key is answered."""
        asked = {"messages": [{"body": f"once {self._number}"}]}
        key = {"Idempotency-Key": f"once-{self._number}"}
        return http.post(f"/v1/topics/{ONCE}/messages", json=asked, headers=key).json()

    def _stage(self, http: httpx.Client) -> None:
        staged = put_part(http, SINK, self._number, "p", [f"part {self._number}"], topic=SUNK)
        assert staged.is_success, staged.text

    def end(self, http: httpx.Client) -> None:
        """End what was begun, wherever that was."""
        opened = self._opened
        assert opened is not None
        self._opened, number = None, opened.number
        if (again := self._once(http)) != opened.once:
            self._wrong(f"a key is not known again: {opened.once}, then {again}")
        committed, rolled_back, _ = opened.halves
        for half, resolution in ((committed, "commit"), (rolled_back, "rollback")):
            if not (answer := resolve(http, half, resolution, group=SHOP)).is_success:
                self._wrong(answer.text)
        if (said := ack(http, WORKERS, opened.out[0])) != ["ok"]:
            self._wrong(f"a receipt is {said}")
        if not http.delete(f"/v1/messages/{opened.late['message_id']}").json().get("recalled"):
            self._wrong("a delayed message is not recalled")
        self._commit(http)
        offsets = http.get(f"/v1/groups/{BILLING}/offsets", params={"topic": BILLED}).json()["offsets"]
        if [each["offset"] for each in offsets] != [2 * number]:
            self._wrong(f"offsets are {offsets}")
        if opened.reader:
            self._ask_as(http, opened.reader)

    def _commit(self, http: httpx.Client) -> None:
        answer = commit(http, SINK, self._number, "p", progress=str(self._number))
        if not answer.is_success and answer.json()["code"] == "part_not_found":  # it was at the former leader alone
            self._stage(http)
            answer = commit(http, SINK, self._number, "p", progress=str(self._number))
        if not answer.is_success:
            self._wrong(answer.text)

    def _ask_as(self, http: httpx.Client, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=http.base_url, timeout=WAIT_S, trust_env=False, headers=headers) as reader:
            asked = (f"/v1/topics/{topic}/queues/0/messages?offset=0" for topic in (BILLED, PAID))
            codes = [reader.get(each).status_code for each in asked]
        if codes != [200, 403]:
            self._wrong(f"a user's requests are answered with {codes}")

    def _wrong(self, what: str) -> None:
        self.findings.append(f"begun {self._number}: {what}")

    def finish(self, http: httpx.Client) -> None:
        """Look at all that came of it."""
        numbers = range(1, self._number + 1)
        wanted = {
            ONCE: "once",
            BOARDING: "soon",
            PAID: "committed",
            SUNK: "part",
            f"%DLQ%{BILLING}": "dead",
            f"%RETRY%{BILLING}": "failed",
        }
        for topic, body in wanted.items():
            expected = Counter(f"{body} {number}" for number in numbers)
            try:
                wait_until(lambda topic=topic, all_of=expected: not all_of - bodies_of(http, topic))
            except AssertionError:
                self._wrong(f"{topic} lacks {expected - bodies_of(http, topic)}")
            if extra := bodies_of(http, topic) - expected:
                self._wrong(f"{topic} has {extra} too many")
        if again := receive(http, WORKERS, WORK, max=2 * self._number):
            self._wrong(f"acknowledged or out, and received again: {again}")

    def same(self, leader: httpx.Client, follower: httpx.Client) -> None:
        """Both show the same of it."""
        for topic in (*TOPICS, f"%DLQ%{BILLING}", f"%RETRY%{BILLING}"):
            if pull_all(leader, topic) != pull_all(follower, topic):
                self._wrong(f"the follower has another {topic}")
        for path in (f"/v1/groups/{BILLING}/offsets?topic={BILLED}", "/v1/users"):
            if leader.get(path).text != follower.get(path).text:
                self._wrong(f"the follower answers {path} otherwise")


def bodies_of(http: httpx.Client, topic: str) -> Counter[str]:
    """What can be pulled there, and how often."""
    return Counter(each["body"] for each in pull_all(http, topic))
