"""The brokers that a command speaks to: one, or all that name servers know."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer

from lakemq.cli.options import broker_url, name_servers
from lakemq.model.errors import LakemqError, MessageNotFound, TopicNotFound
from lakemq.model.ids import broker_of_id
from lakemq.model.primary import PRIMARY, Claim, primary_of

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
    from lakemq.client.http import HttpClient

    with ExitStack() as stack:
        servers = name_servers(context, broker, nameservers)
        if servers:
            yield [Named(name, stack.enter_context(HttpClient(url))) for name, url in _named_by(servers).items()]
            return
        urls = broker_url(context, broker).split(",")
        clients = [stack.enter_context(HttpClient(url)) for url in urls]
        if len(clients) == 1:
            yield [Named("", clients[0])]
            return
        yield _leading(clients)


def addresses_of(context: typer.Context, broker: str | None, nameservers: str | None) -> str:
    """Where these brokers are, with commas between, none of them asked; raises as `connect_all`."""
    servers = name_servers(context, broker, nameservers)
    return ",".join(_named_by(servers).values()) if servers else broker_url(context, broker)


def _named_by(servers: list[str]) -> dict[str, str]:
    from lakemq.client.errors import Unreachable

    found = ask_fleet(servers, lambda asked: asked.primaries())
    if not found:
        raise Unreachable(f"no broker is known to {', '.join(servers)}", sent=False)
    return dict(sorted(found.items()))


def _leading(clients: list[HttpClient]) -> list[Named]:
    """Of each broker, sorted by name, the replica that leads it; where none does, the one that is named first."""
    said = [(client, client.broker()) for client in clients]
    by_name: dict[str, list[tuple[HttpClient, dict[str, Any]]]] = {}
    for client, answer in said:
        by_name.setdefault(str(answer["name"]), []).append((client, answer))
    return [Named(name, (primary_of(each, _claim_of) or each[0])[0]) for name, each in sorted(by_name.items())]


def _claim_of(asked: tuple[HttpClient, dict[str, Any]]) -> Claim:
    answer = asked[1]
    return Claim(answer.get("replica", 0), answer.get("role", PRIMARY), answer.get("epoch", 0))


def ask_fleet(servers: list[str], question: Callable[[NameServers], Answer]) -> Answer:
    """What the name servers answer. Raises `Unreachable` when none of them does, or none that is trusted."""
    from lakemq.client.errors import Unreachable, Untrusted
    from lakemq.wire.connections import NoAnswer
    from lakemq.wire.name_servers import NameServers

    with closing(NameServers(servers)) as asked:
        try:
            return question(asked)
        except NoAnswer as error:
            raise (Unreachable(str(error), sent=False) if error.refusal is None else Untrusted(str(error))) from None


def said_of(*names: str) -> dict[str, str]:
    """What is said of the brokers of these names beside the rest: nothing where there is only one."""
    known = [name for name in names if name]
    return {"broker": known[0]} if known else {}


def the_one_of(brokers: list[Named], text: str) -> HttpClient:
    """Who has what is named by an id: the broker that it begins with, or the only one there is. Raises
    `MessageNotFound`."""
    if len(brokers) == 1:
        return brokers[0].client
    name = broker_of_id(text)
    found = next((each.client for each in brokers if each.name == name), None)
    if found is None:
        raise MessageNotFound(f"{text[:200]!r} is of none of the brokers {', '.join(each.name for each in brokers)}")
    return found


def ask_each(
    brokers: list[Named],
    question: Callable[[HttpClient], Answer],
    missing_kinds: tuple[type[LakemqError], ...] = (TopicNotFound,),
) -> dict[str, Answer]:
    """What each broker answers that has what is asked for: no answer is the error of one of the kinds. Raises that when
    none has, and the first error that is another: with the broker's name, where there are several."""
    answers: dict[str, Answer] = {}
    missing: LakemqError | None = None
    for name, client in brokers:
        try:
            answers[name] = question(client)
        except missing_kinds as error:
            missing = error
        except LakemqError as error:
            if len(brokers) > 1:
                error.detail = f"{name}: {error.detail}"
                error.args = (error.detail,)
            raise
    if missing is not None and not answers:
        raise missing
    return answers
