"""What becomes of a change that can't be written down: it isn't done. Refusals and logins hold nobody up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lakemq.gateway.access import audit as audits
from lakemq.gateway.access.audit import Audit, Entry
from lakemq.model.errors import Busy, FlowControl, StoreUnwritable
from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem
from tests.gateway.routing.asking import wait_until
from tests.gateway.routing.harness import RoutingHarness

MIB = 1024 * 1024
CHANGE = Entry("olga", "127.0.0.1", "DELETE /v1/topics/orders", "")
HAND_OVER = Entry("olga", "127.0.0.1", "POST /v1/broker/switch", "")
REFUSAL = Entry("", "127.0.0.1", "GET /v1/topics", "who is that")
LOGIN = Entry("root", "127.0.0.1", "", "")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    harness = RoutingHarness(tmp_path)
    harness.open(lead_ms=1_000)
    yield harness
    harness.close()


def audit_of(harness: RoutingHarness, writes: bool = True) -> Audit:
    return Audit(harness.broker.log, harness.broker.topics.system, harness.clock, writes)


def written(harness: RoutingHarness) -> list[tuple[str, str, int]]:
    """Of all records the tag, what was done, and how many before were missed."""
    harness.run(harness.broker.log.settled())
    rows = [each for each in harness.messages() if each.topic == AUDIT_TOPIC]
    bodies = [orjson.loads(each.get("body")) for each in rows]
    return [(row.get("tag"), body["what"], body["missed"]) for row, body in zip(rows, bodies, strict=True)]


def counts(harness: RoutingHarness) -> list[tuple[str, int, int]]:
    """Of all records the request's id, how many it stands for, and how many before were missed."""
    harness.run(harness.broker.log.settled())
    bodies = [orjson.loads(each.get("body")) for each in harness.messages() if each.topic == AUDIT_TOPIC]
    return [(body["request_id"], body["times"], body["missed"]) for body in bodies]


def give_room(harness: RoutingHarness) -> None:
    harness.files.room_bytes = None
    harness.broker.log.retain()


def test_a_change_is_in_the_log_before_it_is_done_or_it_is_not_done(harness: RoutingHarness) -> None:
    audit, files = audit_of(harness), harness.files
    files.room_bytes = 0
    for _ in range(2):
        with pytest.raises(StoreUnwritable):
            harness.run(audit.changes(CHANGE))
    audit.refused(REFUSAL)
    audit.logged_in(LOGIN)
    give_room(harness)
    harness.run(audit.changes(CHANGE))
    assert written(harness) == [("allowed", CHANGE.what, 0)]
    files.room_bytes = 0
    with pytest.raises(StoreUnwritable):
        harness.run(audit.changes(CHANGE))
    give_room(harness)
    audit.refused(REFUSAL._replace(source="127.0.0.2"))
    assert written(harness)[1:] == [("refused", REFUSAL.what, 2)]


def test_what_may_be_needed_to_write_again_is_done_and_written_later(harness: RoutingHarness) -> None:
    audit, files = audit_of(harness), harness.files
    harness.run(audit.urgent(HAND_OVER))
    assert list(audit.owed) == [HAND_OVER], "there is no topic yet"
    harness.run(audit.begin())
    assert not audit.owed
    files.room_bytes = 0
    harness.run(audit.urgent(HAND_OVER))
    assert list(audit.owed) == [HAND_OVER]
    harness.run(audit.begin())
    harness.run(harness.broker.log.settled())
    assert list(audit.owed) == [HAND_OVER]
    give_room(harness)
    harness.run(audit.begin())
    assert [what for _, what, _ in written(harness)] == [HAND_OVER.what] * 2


def test_changes_that_wait_are_bounded_and_refusals_take_no_room_of_theirs(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = audit_of(harness)
    monkeypatch.setattr(audits, "WRITING_MAX", 0)
    harness.run(audit.changes(CHANGE))
    audit.refused(REFUSAL)
    monkeypatch.setattr(audits, "CHANGES_MAX", 0)
    with pytest.raises(Busy, match="waiting for the audit"):
        harness.run(audit.changes(CHANGE))
    assert written(harness) == [("allowed", CHANGE.what, 0)]


def test_one_users_changes_are_so_many_a_second_and_an_administrators_are_not_counted(harness: RoutingHarness) -> None:
    audit = audit_of(harness)

    async def change(count: int, entry: Entry, trusted: bool = False) -> None:
        for _ in range(count):
            await audit.changes(entry, trusted)

    harness.run(change(audits.CHANGE_BURST, CHANGE))
    with pytest.raises(FlowControl, match="changes a second"):
        harness.run(audit.changes(CHANGE))
    harness.run(audit.changes(CHANGE, trusted=True))
    harness.run(audit.changes(CHANGE._replace(user="another")))
    harness.clock.time_ms += 1_000
    harness.run(change(int(audits.CHANGES_PER_S), CHANGE))
    with pytest.raises(FlowControl):
        harness.run(audit.changes(CHANGE))


def test_alike_refusals_that_stop_are_written_with_their_number_later(harness: RoutingHarness) -> None:
    audit = audit_of(harness)
    harness.run(audit.begin())
    for number in range(300):
        audit.refused(REFUSAL._replace(request_id=f"r{number}", why="x" * 10_000))
    harness.run(audit.begin())
    assert counts(harness) == [("r0", 1, 0)]
    harness.clock.time_ms += 60_000
    for _ in range(3):
        harness.run(audit.begin())
    assert counts(harness) == [("r0", 1, 0), ("r299", 299, 0)]
    audit.refused(REFUSAL._replace(request_id="last"))
    audit.end()
    assert counts(harness)[2:] == [("last", 1, 0)]


def test_what_could_not_be_written_is_written_when_it_can_be_and_a_login_is_no_refusal(harness: RoutingHarness) -> None:
    audit, files = audit_of(harness), harness.files
    harness.run(audit.begin())
    audit.refused(REFUSAL._replace(request_id="before"))
    assert counts(harness) == [("before", 1, 0)]
    files.room_bytes = 0
    audit.logged_in(LOGIN)
    harness.run(harness.broker.log.settled())
    give_room(harness)
    harness.run(audit.begin())
    assert counts(harness) == [("before", 1, 0)]
    files.room_bytes = 0
    audit.refused(REFUSAL._replace(source="127.0.0.2", request_id="lost"))
    harness.run(harness.broker.log.settled())
    harness.run(audit.begin())
    give_room(harness)
    harness.run(audit.begin())
    assert counts(harness)[1:] == [("lost", 1, 1)]


def test_a_follower_writes_nothing_and_refuses_by_itself(harness: RoutingHarness) -> None:
    audit = audit_of(harness, writes=False)
    harness.run(audit.changes(CHANGE))
    harness.run(audit.urgent(HAND_OVER))
    assert (written(harness), list(audit.owed)) == ([], [HAND_OVER])


def test_a_full_broker_changes_nothing_and_serves_all_else(tmp_path: Path) -> None:
    data = tmp_path / "data"
    full = {"storage__segment_bytes": MIB, "storage__log_bytes_max": 4 * MIB, "storage__compression": "none"}
    with start_gateway(data, auth__required="true", **full) as gateway, ask_as(gateway, token_of(data)) as admin:
        token = make_user(admin, "olga", allow("Group:*", "Update", "Sub"))
        body = b"x" * (MIB // 8)
        wait_until(lambda: admin.post("/v1/topics/t/messages", content=body).status_code == 503)
        wait_until(lambda: admin.post("/v1/topics/t/messages", content=b"x").status_code == 503)
        with ask_as(gateway, token) as olga:
            redrive = olga.post("/v1/groups/g/dead-letters/redrive", json={"dry_run": True})
            assert is_problem(redrive, 503, "store_unwritable")
            assert is_problem(olga.delete("/v1/topics/t"), 403, "forbidden")
            assert olga.get("/v1/broker").is_success
        remove = admin.post("/v1/broker/remove", json={"replica": 1})
        assert remove.json() == {"removed": 1, "in_sync": [0]}, "that is urgent"
