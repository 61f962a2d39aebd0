"""Who is known, for how long, and what handlers look at beside what the path says."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.contract import routes
from lakemq.gateway.access.access import Access
from lakemq.gateway.access.admin_token import open_admin_token
from lakemq.gateway.access.caller import SEEN_CHARACTERS_MAX, SEEN_MAX, Anonymous, Seen
from lakemq.model.names import ACCESS_TOPIC
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.state.access_state import AccessState
from lakemq.testing import FaultyFiles, GatewayProcess, start_gateway
from lakemq.web.failures import BURST
from tests.gateway.access.asking import allow, ask_as, deny, give, make_user, token_of
from tests.gateway.http_client import Connection, is_problem
from tests.gateway.routing.asking import begin, checks, decide, nack, position

MESSAGE = b'{"messages": [{"body": "x"}]}'
HOUR_MS = 3_600_000


class Scene(NamedTuple):
    """A gateway that asks everybody who he is, and its administrator."""

    gateway: GatewayProcess
    data: Path
    admin: httpx.Client


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data = tmp_path_factory.mktemp("access") / "data"
    # However slow the machine is, nothing is checked before a test says so, and what is handed out stays so.
    options = {"transactions__timeout_ms": HOUR_MS, "transactions__check_answer_ms": HOUR_MS}
    with start_gateway(data, auth__required="true", **options) as gateway, ask_as(gateway, token_of(data)) as admin:
        yield Scene(gateway, data, admin)


def produce(client: httpx.Client, topic: str, **message: Any) -> httpx.Response:
    return client.post(f"/v1/topics/{topic}/messages", json={"messages": [{"body": "x", **message}]})


def stored(client: httpx.Client, topic: str, **message: Any) -> str:
    """The id of a message that is stored there."""
    answer = produce(client, topic, **message)
    assert answer.status_code == 200, answer.text
    return answer.json()["messages"][0]["message_id"]


# Tokens --------------------------------------------------------------------------------------


def test_the_administrators_token_is_its_owners_alone_and_stays(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway:
        token = token_of(data)
        assert stat.S_IMODE((data / "admin.token").stat().st_mode) == 0o600
        assert any(f"the administrator's token is in {data / 'admin.token'}" in line for line in gateway.log)
        assert not any(token in line for line in gateway.log)
    (data / "admin.token").chmod(0o644)
    with start_gateway(data) as gateway:
        assert token_of(data) == token
        assert stat.S_IMODE((data / "admin.token").stat().st_mode) == 0o600
        with ask_as(gateway, token) as admin:
            assert admin.get("/v1/sinks").is_success
    (data / "admin.token").write_text("nothing\n")
    with pytest.raises(RuntimeError, match=r"admin\.token holds no token: remove it"):
        start_gateway(data)
    (data / "admin.token").unlink()
    with start_gateway(data):
        assert token_of(data) != token


def test_the_file_of_the_token_is_its_owners_before_it_is_read(tmp_path: Path) -> None:
    class Watched(FaultyFiles):
        def read_whole(self, path: Path, size: int | None = None) -> bytes:
            if path.exists():
                modes.append(stat.S_IMODE(path.stat().st_mode))
            return super().read_whole(path, size)

    modes: list[int] = []
    made = open_admin_token(Watched(), tmp_path)
    (tmp_path / "admin.token").chmod(0o644)
    assert open_admin_token(Watched(), tmp_path) == made
    assert modes == [0o600]


def test_a_token_holds_until_it_is_taken_back_also_on_a_connection_that_is_open(scene: Scene) -> None:
    token = make_user(scene.admin, "carol", allow("Topic:carols", "Pub"))
    assert scene.admin.put("/v1/topics/carols").status_code == 201
    other = scene.admin.post("/v1/users/carol/tokens", json={}).json()
    head = b"POST /v1/topics/carols/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    request = head + b"Authorization: Bearer %b\r\nContent-Length: 1\r\n\r\nx"

    def ask(connection: Connection, said: str) -> int:
        connection.send(request % said.encode())
        answer = connection.answer()
        assert answer is not None
        return answer.status

    with Connection(scene.gateway) as connection, Connection(scene.gateway) as second:
        assert [ask(connection, token) for _ in range(3)] == [200, 200, 200]
        assert [ask(second, other["token"]) for _ in range(2)] == [200, 200]
        give(scene.admin, "carol", [allow("Topic:*", "Pub"), deny("Topic:carol*", "Pub")])
        assert [ask(connection, token), ask(second, other["token"])] == [403, 403]
        give(scene.admin, "carol", [allow("Topic:carol*", "Pub")])
        assert [ask(connection, token), ask(connection, token)] == [200, 200]
        deleted = scene.admin.delete(f"/v1/users/carol/tokens/{other['token_id']}")
        assert deleted.status_code == 204
        assert [ask(connection, token), ask(second, other["token"])] == [200, 401]
        scene.admin.put("/v1/users/carol", json={"status": "disabled"})
        assert [ask(connection, token), ask(connection, token)] == [403, 403]


def test_who_tries_too_many_tokens_waits_and_who_has_one_doesnt(scene: Scene) -> None:
    token = make_user(scene.admin, "dan", allow("Topic:*", "List"))
    with Connection(scene.gateway, "127.0.0.9") as connection:

        def ask(said: str) -> int:
            head = f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {said}\r\n\r\n"
            connection.send(head.encode())
            answer = connection.answer()
            assert answer is not None
            return answer.status

        tried = [ask(f"lmq_{number:016x}_{'0' * 64}") for number in range(2 * BURST)]
        assert tried[0] == 401
        assert 429 in tried
        assert ask(token) == 200, "it is nobody's fault who has the same address"


def test_what_is_no_authorization_is_refused_and_shown_nowhere(scene: Scene) -> None:
    with ask_as(scene.gateway) as nobody:
        for value in (
            "Bearer",
            "Bearer x",
            "Bearer lmq_a_b",
            "lmq_a_b",
            "Basic eDp5",
            "Bearer lmq_secretive_" + "z" * 900,
        ):
            answer = nobody.get("/v1/topics", headers={"Authorization": value})
            assert is_problem(answer, 401, "unauthenticated")
            assert "secretive" not in answer.text
        twice = httpx.Headers([("Authorization", "Bearer a"), ("Authorization", "Bearer b")])
        assert is_problem(nobody.get("/v1/topics", headers=twice), 400, "invalid_request")
    assert not any("secretive" in line or "zzzz" in line for line in scene.gateway.log)


def test_sources_are_addresses(scene: Scene) -> None:
    policy = {**allow("Topic:*", "List"), "sources": ["127.0.0.7"]}
    token = make_user(scene.admin, "erin", policy)
    head = f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    for address, status in (("127.0.0.7", 200), ("127.0.0.1", 403), ("127.0.0.7", 200)):
        with Connection(scene.gateway, address) as connection:
            connection.send(head.encode())
            answer = connection.answer()
            assert answer is not None
            assert answer.status == status


# What handlers look at -----------------------------------------------------------------------


def test_a_message_is_looked_up_by_who_may_read_its_topic(scene: Scene) -> None:
    own, others = stored(scene.admin, "mine"), stored(scene.admin, "theirs")
    waits = stored(scene.admin, "mine", delay_ms=3_600_000)
    theirs_wait = stored(scene.admin, "theirs", delay_ms=3_600_000)
    token = make_user(scene.admin, "frank", allow("Topic:mine", "Sub"))
    with ask_as(scene.gateway, token) as frank:
        assert frank.get(f"/v1/messages/{own}").json()["topic"] == "mine"
        assert frank.get(f"/v1/messages/{waits}").is_success
        for each in (others, theirs_wait):
            refused = frank.get(f"/v1/messages/{each}")
            assert is_problem(refused, 403, "forbidden")
            # Whoever counts through ids is not told which topics there are.
            assert refused.json()["detail"] == "user frank may not: it takes Sub or Get on the message's topic"
        assert is_problem(frank.delete(f"/v1/messages/{waits}"), 403, "forbidden")
        give(scene.admin, "frank", [allow("Topic:mine", "Pub")])
        assert is_problem(frank.delete(f"/v1/messages/{theirs_wait}"), 403, "forbidden")
        assert frank.delete(f"/v1/messages/{waits}").is_success
        assert is_problem(frank.get(f"/v1/messages/{own}"), 403, "forbidden")


def test_a_half_is_read_by_nobody_before_its_commit(scene: Scene) -> None:
    token = make_user(scene.admin, "grace", allow("Topic:*", "Pub", "Sub", "Get"), allow("Group:*", "Pub", "Sub"))
    with ask_as(scene.gateway, token) as grace:
        begun = grace.post(
            "/v1/topics/paid/transactions", params={"producer_group": "p"}, json={"messages": [{"body": "x"}]}
        )
        half = begun.json()["transactions"][0]
        assert is_problem(grace.get(f"/v1/messages/{half['message_id']}"), 403, "forbidden")
        path = "/v1/topics/RMQ_SYS_TRANS_HALF_TOPIC/queues/0/messages"
        assert is_problem(grace.get(path, params={"offset": 0}), 403, "forbidden")
        query = {"from": 0, "to": 10_000, "topics": "RMQ_SYS_TRANS_HALF_TOPIC"}
        assert is_problem(grace.get("/v1/log/messages", params=query), 403, "forbidden")
        commit = {"producer_group": "p", "resolution": "commit"}
        assert grace.post(f"/v1/transactions/{half['transaction_id']}", json=commit).is_success


def test_a_transaction_takes_what_producing_takes_and_to_be_asked_about_it_the_producer_group(scene: Scene) -> None:
    token = make_user(scene.admin, "nora", allow("Topic:bills", "Pub"))
    with ask_as(scene.gateway, token) as nora:
        first, second = begin(nora, "bills", "x", "y", group="billers")
        other = nora.post(f"/v1/transactions/{first}", json={"producer_group": "others", "resolution": "commit"})
        assert other.status_code in (400, 404, 409), "a transaction is its group's"
        for transaction in (first, second):
            commit = {"producer_group": "billers", "resolution": "commit"}
            assert nora.post(f"/v1/transactions/{transaction}", json=commit).is_success
        refused = nora.get("/v1/producer-groups/billers/checks")
        assert is_problem(refused, 403, "forbidden")
        give(scene.admin, "nora", [allow("Topic:bills", "Pub"), allow("Group:billers", "Pub")])
        assert nora.get("/v1/producer-groups/billers/checks").is_success


def test_checks_are_handed_to_who_may_produce_to_their_topics_and_left_to_others(scene: Scene) -> None:
    kept = begin(scene.admin, "kept", *["x"] * 40, group="shared")
    (own,) = begin(scene.admin, "own", "x", group="shared")
    assert decide(scene.admin, "check", [position(each) for each in [*kept, own]])["accepted"] == 41
    token = make_user(scene.admin, "olaf", allow("Topic:own", "Pub"), allow("Group:shared", "Pub"))
    with ask_as(scene.gateway, token) as olaf:
        assert [each["transaction_id"] for each in checks(olaf, "shared")] == [own]
        assert checks(olaf, "shared") == [], "and that one is handed out"
        found = [each["transaction_id"] for _ in range(2) for each in checks(scene.admin, "shared")]
        assert sorted(found) == sorted(kept)


def test_a_group_receives_topics_that_its_user_may_read(scene: Scene) -> None:
    stored(scene.admin, "received")
    stored(scene.admin, "kept-from")
    token = make_user(scene.admin, "heidi", allow("Group:h", "Sub"), allow("Topic:received", "Sub"))
    with ask_as(scene.gateway, token) as heidi:
        got = heidi.post("/v1/groups/h/receive", json={"topic": "received"})
        assert got.is_success
        assert is_problem(heidi.post("/v1/groups/h/receive", json={"topic": "kept-from"}), 403, "forbidden")
        assert is_problem(heidi.post("/v1/groups/i/receive", json={"topic": "received"}), 403, "forbidden")
        pulled = heidi.get("/v1/topics/received/queues/0/messages", params={"offset": 0, "group": "i"})
        assert is_problem(pulled, 403, "forbidden")
        retries = heidi.get("/v1/topics/%25RETRY%25i/queues/0/messages", params={"offset": 0})
        assert is_problem(retries, 403, "forbidden")
        own = heidi.get("/v1/topics/%25RETRY%25h/queues/0/messages", params={"offset": 0})
        assert own.status_code in (200, 404)


def test_a_group_gets_no_messages_as_retries_that_its_user_may_not_read(scene: Scene) -> None:
    own, others = stored(scene.admin, "nacked"), stored(scene.admin, "not-to-be-nacked")
    token = make_user(scene.admin, "leo", allow("Group:l", "Sub"), allow("Topic:nacked", "Sub"))
    with ask_as(scene.gateway, token) as leo:

        def nack(*messages: str) -> httpx.Response:
            return leo.post("/v1/groups/l/nacks", json={"messages": [{"message_id": each} for each in messages]})

        for refused in ([others], [own, others]):
            assert is_problem(nack(*refused), 403, "forbidden")
        assert nack(own).json()["messages"][0]["status"] == "ok", "nothing was stored of those that were refused"


def test_what_a_path_says_stands_for_nothing_that_a_query_says(scene: Scene) -> None:
    token = make_user(
        scene.admin, "mallory", allow("Sink:*", "Pub"), allow("Topic:own", "Pub"), allow("Topic:*", "Sub")
    )
    with ask_as(scene.gateway, token) as mallory:
        for sink in ("%3F", "mine", "%3F"):
            path = f"/v1/sinks/{sink}/batches/theirs/parts/billing"
            for query in (
                {"topic": "x"},
                {"topic": "theirs", "group": "billing"},
                {"topic": "own", "group": "billing"},
            ):
                assert is_problem(mallory.put(path, params=query), 403, "forbidden")
        assert mallory.get("/v1/topics/%3F/queues/billing/messages", params={"offset": 0}).status_code == 400
        pulled = mallory.get("/v1/topics/own/queues/0/messages", params={"offset": 0, "group": "billing"})
        assert is_problem(pulled, 403, "forbidden")


def test_a_probe_is_answered_whichever_token_it_has(scene: Scene) -> None:
    with ask_as(scene.gateway, f"lmq_{'c' * 16}_{'d' * 64}") as probe:
        assert probe.get("/healthz").is_success
        assert probe.get("/readyz").json() == {"status": "ready"}


def test_who_scrapes_metrics_reads_no_messages(scene: Scene) -> None:
    stored(scene.admin, "scraped")
    token = make_user(scene.admin, "rita", allow("Cluster:*", "List"))
    with ask_as(scene.gateway, token) as rita:
        assert "lakemq_" in rita.get("/metrics").text
        assert rita.get("/readyz").json()["degraded"] is not None
        for path, query in (
            ("/v1/log/frames", {"from": "0"}),
            ("/v1/log/messages", {"from": "0", "to": "1"}),
            ("/v1/topics/RMQ_SYS_TOPICS/queues/0/messages", {"offset": "0"}),
        ):
            assert is_problem(rita.get(path, params=query), 403, "forbidden")


def test_a_topic_is_made_changed_and_made_by_its_first_message_by_who_may(scene: Scene) -> None:
    token = make_user(scene.admin, "ivan", allow("Topic:new*", "Create"))
    with ask_as(scene.gateway, token) as ivan:
        assert ivan.put("/v1/topics/new-1").status_code == 201
        assert is_problem(ivan.put("/v1/topics/new-1", json={"permission": "r"}), 403, "forbidden")
        assert is_problem(ivan.put("/v1/topics/other"), 403, "forbidden")
        assert is_problem(produce(ivan, "new-2"), 403, "forbidden")
        give(scene.admin, "ivan", [allow("Topic:new*", "Update", "Pub")])
        assert ivan.put("/v1/topics/new-1", json={"permission": "r"}).is_success
        assert is_problem(ivan.put("/v1/topics/new-3"), 403, "forbidden")
        assert ivan.put("/v1/topics/new-3", params={"auto": "true"}).status_code == 201
        assert produce(ivan, "new-2").is_success


def test_readers_of_the_log_get_their_topics(scene: Scene) -> None:
    stored(scene.admin, "read-1")
    stored(scene.admin, "read-2")
    token = make_user(scene.admin, "judy", allow("Topic:read-1", "Sub"))
    end = scene.admin.get("/v1/log/end").json()["end_position"]

    def read(client: httpx.Client, **query: str) -> httpx.Response:
        return client.get("/v1/log/messages", params={"from": 0, "to": end, "columns": "topic", **query})

    with ask_as(scene.gateway, token) as judy:
        assert read(judy, topics="read-1").is_success
        for refused in ({"topics": "read-1,read-2"}, {}, {"topics": "RMQ_SYS_TOPICS"}):
            assert is_problem(read(judy, **refused), 403, "forbidden"), refused
        by_pattern = read(judy, pattern=".*")
        assert by_pattern.is_success
        assert b"read-1" in by_pattern.content
        assert b"read-2" not in by_pattern.content
        assert is_problem(judy.get("/v1/log/end", params={"topics": "read-2"}), 403, "forbidden")
        assert judy.get("/v1/log/end", params={"topics": "read-1"}).is_success
        assert is_problem(judy.get("/v1/log/frames", params={"from": 0}), 403, "forbidden")


def test_the_end_of_a_pattern_is_that_of_topics_that_one_may_read(scene: Scene) -> None:
    stored(scene.admin, "seen-1")
    token = make_user(scene.admin, "pia", allow("Topic:seen-1", "Sub"), allow("Topic:seen-3", "Get"))
    with ask_as(scene.gateway, token) as pia:

        def end(client: httpx.Client, **query: str) -> int:
            answer = client.get("/v1/log/end", params={"from": 0, **query})
            assert answer.is_success, answer.text
            return answer.json()["end_position"]

        own = end(pia, topics="seen-1")
        stored(scene.admin, "seen-2")
        assert end(scene.admin, pattern="seen-.*") > own
        assert end(pia, pattern="seen-.*") == end(pia, pattern=".*") == own
        assert end(pia, pattern="seen-2") == end(pia, topics="")
        stored(scene.admin, "seen-3")
        assert end(pia, pattern=".*") > own
        many = ",".join(f"t{number}" for number in range(1_001))
        for path, query in (("/v1/log/end", {}), ("/v1/log/messages", {"from": "0", "to": "1"})):
            assert is_problem(scene.admin.get(path, params={"topics": many} | query), 400, "invalid_request")


def test_topics_of_the_system_are_listed_for_who_may_read_them(scene: Scene) -> None:
    own, others = stored(scene.admin, "listed"), stored(scene.admin, "listed")
    for group, message in (("qa", own), ("qb", others)):
        assert nack(scene.admin, group, {"message_id": message, "delay_level": -1}).is_success
    token = make_user(scene.admin, "quentin", allow("Topic:*", "List"), allow("Group:qa", "Sub"))
    with ask_as(scene.gateway, token) as quentin:

        def listed(client: httpx.Client, **query: str) -> set[str]:
            return {each["topic"] for each in client.get("/v1/topics", params=query).json()["topics"]}

        plain, everything = listed(quentin), listed(scene.admin, system="true")
        assert "%DLQ%qb" in everything
        assert ACCESS_TOPIC in everything
        assert listed(quentin, system="true") == plain | {"%DLQ%qa"}
        give(scene.admin, "quentin", [allow("Topic:*", "List"), allow("Group:*", "List"), allow("Cluster:*", "Get")])
        assert listed(quentin, system="true") == everything


def test_a_redrive_is_shown_to_who_may_look_at_its_group(scene: Scene) -> None:
    begun = scene.admin.post("/v1/groups/redriven/dead-letters/redrive", json={"dry_run": True})
    path = f"/v1/redrives/{begun.json()['redrive_id']}"
    token = make_user(scene.admin, "ken", allow("Group:other", "Get"))
    with ask_as(scene.gateway, token) as ken:
        refused = ken.get(path)
        assert is_problem(refused, 403, "forbidden")
        assert "redriven" not in refused.json()["detail"]
        give(scene.admin, "ken", [allow("Group:redriven", "Get")])
        assert ken.get(path).is_success


def test_dead_letters_are_chosen_by_what_is_in_them_by_who_may_read_them(scene: Scene) -> None:
    message = stored(scene.admin, "buried")
    assert nack(scene.admin, "sexton", {"message_id": message, "delay_level": -1}).is_success
    token = make_user(scene.admin, "sam", allow("Group:sexton", "Update"))
    with ask_as(scene.gateway, token) as sam:

        def redrive(**fields: Any) -> httpx.Response:
            return sam.post("/v1/groups/sexton/dead-letters/redrive", json={"dry_run": True, **fields})

        assert redrive().json()["matched"] == 1
        assert is_problem(redrive(where="reconsume_times = 0"), 403, "forbidden")
        give(scene.admin, "sam", [allow("Group:sexton", "Update", "Sub")])
        assert redrive(where="reconsume_times = 0").is_success


# Where nobody has to say who he is -----------------------------------------------------------


def test_on_loopback_messages_are_everybodys_and_what_can_forge_is_not(gateway: GatewayProcess, topic: str) -> None:
    with ask_as(gateway) as nobody:
        own = stored(nobody, topic)
        assert nobody.get(f"/v1/messages/{own}").is_success
        assert nobody.get(f"/v1/topics/{topic}/queues/0/messages", params={"offset": 0}).is_success
        assert nobody.get("/v1/log/end").is_success
        assert nobody.get("/metrics").is_success
        assert nobody.get("/v1/log/messages", params={"from": 0, "to": 1, "topics": topic}).is_success
        forging: list[tuple[str, str, dict[str, Any]]] = [
            ("PUT", "/v1/broker/compacted", {"json": {"compacted_position": 0}}),
            ("POST", "/v1/log/decisions", {"json": {}}),
            ("POST", "/v1/log/erasures", {"json": {"positions": []}}),
            ("GET", "/v1/log/frames", {"params": {"from": 0}}),
            ("GET", "/v1/log/messages", {"params": {"from": 0, "to": 1}}),
            ("GET", "/v1/log/messages", {"params": {"from": 0, "to": 1, "pattern": ".*"}}),
            ("GET", "/v1/topics/RMQ_SYS_TOPICS/queues/0/messages", {"params": {"offset": 0}}),
            ("GET", "/v1/sinks", {}),
            ("POST", "/v1/sinks/s/batches/1/commit", {"json": {}}),
            ("PUT", "/v1/jobs", {"json": {"jobs": []}}),
            ("PUT", "/v1/users/me", {"json": {"type": "super"}}),
        ]
        for method, path, asked in forging:
            answer = nobody.request(method, path, **asked)
            assert is_problem(answer, 401, "unauthenticated"), path
            assert Path(answer.json()["token_file"]).is_file()
        for header in ("Forwarded", "X-Forwarded-For", "Via"):
            answer = nobody.get("/v1/sinks", headers={header: "for=192.0.2.1"})
            assert is_problem(answer, 401, "unauthenticated")
            assert "token_file" not in answer.json(), "a proxy on this machine would hand it on"
            wrong = nobody.get("/v1/sinks", headers={header: "for=192.0.2.1", "Authorization": "Bearer x"})
            assert "token_file" not in wrong.json()
        # Whoever says who he is has to be right, and is held to it.
        assert is_problem(nobody.get("/v1/topics", headers={"Authorization": "Bearer x"}), 401, "unauthenticated")


def test_a_half_is_shown_to_nobody_on_loopback_too(gateway: GatewayProcess, topic: str) -> None:
    with ask_as(gateway) as nobody:
        begun = nobody.post(
            f"/v1/topics/{topic}/transactions", params={"producer_group": "p"}, json={"messages": [{"body": "x"}]}
        )
        half = begun.json()["transactions"][0]
        assert is_problem(nobody.get(f"/v1/messages/{half['message_id']}"), 401, "unauthenticated")


def test_what_was_allowed_is_bounded() -> None:
    seen = Seen()
    access = Access(False, lambda: AccessState(), SystemClock())
    caller = Anonymous(None, access, False, "")
    for number in range(SEEN_MAX + 1):
        seen.add((caller, routes.TOPIC, (str(number),)))
    assert len(seen) == 1
    seen.add((caller, routes.TOPIC, ("n" * (SEEN_CHARACTERS_MAX + 1),)))
    assert len(seen) == 1


def test_an_administrators_token_that_is_given_is_the_only_one(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"lmq_given_{'s' * 64}\n")
    file.chmod(0o600)
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true", auth__admin_token_file=file) as gateway:
        assert not (data / "admin.token").exists()
        with ask_as(gateway, file.read_text().strip()) as admin:
            assert admin.get("/v1/users").status_code == 200
        with ask_as(gateway, f"lmq_given_{'t' * 64}") as other:
            assert other.get("/v1/users").status_code == 401
        assert "ssss" not in "".join(gateway.log)


@pytest.mark.parametrize(("content", "mode"), [(None, 0), ("hunter2\n", 0o600), (f"lmq_a_{'hunter2' * 9}", 0o644)])
def test_a_start_whose_given_token_is_none_is_refused_and_says_nothing_of_it(
    tmp_path: Path, content: str | None, mode: int
) -> None:
    file = tmp_path / "given"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    with pytest.raises(RuntimeError, match=r"auth\.admin_token_file") as refused:
        start_gateway(tmp_path / "data", auth__admin_token_file=file)
    assert "hunter2" not in str(refused.value)
