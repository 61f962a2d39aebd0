"""The brokers that a command speaks to: one, or all that name servers know."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import typer

from lakemq.cli.options import broker_url, name_servers
from lakemq.model.errors import LakemqError, TopicNotFound

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.wire.name_servers import NameServers

Answer = TypeVar("Answer")


class Named(NamedTuple):
    """A broker's name and a client of it. The name is empty where it is the only one, whose name nobody asks for."""

    name: str
    client: HttpClient


@contextmanager
def connect_all(context: typer.Context, broker: str | None, nameservers: str | None) -> Generator[list[Named]]:
    """The brokers that name servers know, sorted by name; or those whose addresses are given. Raises `Unreachable`,
    and `SettingsError` for both options."""
    from lakemq.client.errors import Unreachable
    from lakemq.client.http import HttpClient

    with ExitStack() as stack:
        servers = name_servers(context, broker, nameservers)
        if servers:
            found = ask_fleet(servers, lambda asked: asked.primaries())
            if not found:
                raise Unreachable(f"no broker is known to {', '.join(servers)}", sent=False)
            yield [Named(name, stack.enter_context(HttpClient(url))) for name, url in sorted(found.items())]
            return
        urls = broker_url(context, broker).split(",")
        clients = [stack.enter_context(HttpClient(url)) for url in urls]
        if len(clients) == 1:
            yield [Named("", clients[0])]
            return
        yield sorted((Named(str(client.broker()["name"]), client) for client in clients), key=lambda each: each.name)


def ask_fleet(servers: list[str], question: Callable[[NameServers], Answer]) -> Answer:
    """What the name servers answer. Raises `Unreachable` when none of them does."""
    from lakemq.client.errors import Unreachable
    from lakemq.wire.connections import NoAnswer
    from lakemq.wire.name_servers import NameServers

    with closing(NameServers(servers)) as asked:
        try:
            return question(asked)
        except NoAnswer as error:
            raise Unreachable(str(error), sent=False) from None


def ask_each(brokers: list[Named], question: Callable[[HttpClient], Answer]) -> dict[str, Answer]:
    """What each broker answers that has what is asked for. Raises its error when none has, and the first error that is
    another: with the broker's name, where there are several."""
    answers: dict[str, Answer] = {}
    missing: LakemqError | None = None
    for name, client in brokers:
        try:
            answers[name] = question(client)
        except TopicNotFound as error:
            missing = error
        except LakemqError as error:
            if len(brokers) > 1:
                error.detail = f"{name}: {error.detail}"
                error.args = (error.detail,)
            raise
    if missing is not None and not answers:
        raise missing
    return answers
