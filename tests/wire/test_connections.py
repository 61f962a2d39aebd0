"""Connections that are kept: a gateway that closes them, breaks off or is silent."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from lakemq.contract import routes
from lakemq.model.errors import InvalidRequest, LakemqError, TopicNotFound
from lakemq.wire.connections import Answer, Connections, NoAnswer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nLakemq-Log-Id: l\r\n\r\n{}"
Serve = Callable[[socket.socket], object]


@contextmanager
def gateway(*serve: Serve) -> Generator[tuple[str, list[bytes]]]:
    """An address whose connections are served by these, one after the other; and what was sent to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            for each in serve:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(60)
                    heard.append(connection.recv(65536))
                    each(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        thread.join(60)
        assert not thread.is_alive()


def answer(connection: socket.socket) -> None:
    connection.sendall(OK)


def answer_twice(connection: socket.socket) -> None:
    connection.sendall(OK)
    assert connection.recv(65536).startswith(b"GET /readyz")
    connection.sendall(OK)


def answer_half(connection: socket.socket) -> None:
    connection.sendall(OK[:-1])


def answer_nothing(connection: socket.socket) -> None:
    connection.recv(1)  # until the other side has gone


def test_a_connection_serves_what_is_asked_next() -> None:
    with gateway(answer_twice) as (address, heard):
        connections = Connections(address)
        first = connections.ask(routes.READY.at(), {"a": "b c"}, headers={"Accept": "x"})
        assert (first.status, first.headers["lakemq-log-id"], first.body) == (200, "l", b"{}")
        assert connections.ask(routes.READY.at()).body == b"{}"
        assert heard[0].startswith(b"GET /readyz?a=b+c HTTP/1.1\r\n")
        connections.close()


def test_an_answer_of_2xx_is_none_and_any_other_is_an_error() -> None:
    problem = b'{"code": "topic_not_found", "detail": "no topic t"}'
    assert Answer(200, {}, problem).error() is None
    assert Answer(399, {}, b"").error("a") is not None
    refusal = Answer(404, {}, problem).error("http://a:1")
    assert isinstance(refusal, TopicNotFound)
    assert refusal.detail == "http://a:1 answered 404: no topic t"
    refusal = Answer(400, {}, b"<html>").error()
    assert type(refusal) is LakemqError
    assert refusal.detail == "the gateway answered 400"


def test_one_that_was_closed_meanwhile_is_replaced_before_anything_is_sent() -> None:
    closed = threading.Event()

    def answer_and_close(connection: socket.socket) -> None:
        answer(connection)
        connection.shutdown(socket.SHUT_RDWR)
        closed.set()

    with gateway(answer_and_close, answer) as (address, heard):
        connections = Connections(address)
        assert connections.ask(routes.READY.at()).status == 200
        assert closed.wait(60)
        assert connections.ask(routes.READY.at()).status == 200
        assert len(heard) == 2
        connections.close()


@pytest.mark.parametrize("serve", [answer_half, lambda _: None, answer_nothing], ids=["half", "nothing", "silent"])
def test_what_has_no_whole_answer_may_have_been_carried_out(serve: Serve) -> None:
    with gateway(serve, answer) as (address, heard):
        connections = Connections(address)
        with pytest.raises(NoAnswer) as raised:
            connections.ask(routes.PRODUCE.at("t"), body=b"x", timeout_s=0.2)
        assert raised.value.sent
        assert connections.ask(routes.READY.at()).status == 200, "the broken one is not used again"
        assert len(heard) == 2
        connections.close()


def test_what_found_nobody_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NoAnswer) as raised:
        Connections(f"http://127.0.0.1:{port}").ask(routes.READY.at())
    assert not raised.value.sent


def test_a_header_that_cannot_be_sent_is_refused() -> None:
    with gateway(lambda _: None, answer) as (address, heard):
        connections = Connections(address)
        with pytest.raises(InvalidRequest, match="can't be sent"):
            connections.ask(routes.READY.at(), headers={"Idempotency-Key": "a\r\nb"})
        assert connections.ask(routes.READY.at()).status == 200
        assert heard[0] == b"", "nothing of it was sent"
        connections.close()


def test_an_address_may_do_without_a_scheme_and_be_pickled() -> None:
    with gateway(answer) as (address, _):
        connections = pickle.loads(pickle.dumps(Connections(address.removeprefix("http://"))))
        assert connections.ask(routes.READY.at()).status == 200
        connections.close()
