"""What a broker of an earlier version doesn't know: refusals of some routes, and users' connections to the jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.refusals import Refusal, Refusals
from lakemq.jobs.served.usage import Usage
from lakemq.jobs.served.who import Asker
from lakemq.model.access import User, UserType

WAIT_S = 300


@contextmanager
def older_broker() -> Generator[tuple[str, Queue[dict[str, Any]]]]:
    """Its address, and the refusals that it took, those of SQL alone, as it knows no `of`; and what users took, without
    their connections."""
    taken: Queue[dict[str, Any]] = Queue()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told = content.get("refusals", [content])
            is_older = all("of" not in each and "connections" not in each for each in told)
            problem = {"status": 400, "code": "invalid_request", "detail": "there is extra input"}
            body = b"" if is_older else json.dumps(problem).encode()
            self.send_response(204 if is_older else 400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            for each in told if is_older else ():
                taken.put(each)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", taken
        server.shutdown()
        thread.join()


def test_a_refusal_that_an_older_broker_does_not_know_holds_up_none_behind_it() -> None:
    with older_broker() as (address, taken):
        brokers = Brokers()
        told = Refusals(brokers, lambda: address)
        told.add(Refusal("ann", None, "compact", "why", "", "run"))
        told.add(Refusal("ben", None, "SELECT", "why", ""))
        found = [taken.get(timeout=WAIT_S) for _ in range(2)]
        told.close()
        brokers.close()
    assert [(each["user"], each["what"]) for each in found] == [("ann", "run: compact"), ("ben", "SELECT")]


def test_a_connection_that_an_older_broker_does_not_count_is_let_in() -> None:
    with older_broker() as (address, taken):
        brokers = Brokers()
        Usage(brokers).admit(Asker((User("ann", UserType.NORMAL),), None, (address,)), 10, "id", others=3)
        brokers.close()
    assert taken.get(timeout=WAIT_S) == {"requests": 1, "bytes": 10, "source": None, "request_id": "id"}
