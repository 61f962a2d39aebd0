"""A group's dead letters at all brokers that have it, on one page."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

import httpx
import pytest

from lakemq.console.pages.dead_letters import PAGE_ROWS
from lakemq.testing import GatewayProcess, start_gateway
from tests.console.buried import bury
from tests.console.visitor import ConsoleProcess, Guarded, Visitor, token_of, went_to
from tests.gateway.http_client import connect


class Two(NamedTuple):
    """Brokers, of which the console looks at the first one."""

    first: httpx.Client
    second: httpx.Client
    other: GatewayProcess
    visitor: Visitor


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path_factory.mktemp("other"), broker__name="broker-b") as started:
        yield started


@pytest.fixture
def two(http: httpx.Client, gateway: GatewayProcess, other: GatewayProcess) -> Iterator[Two]:
    with connect(other) as second, ConsoleProcess(gateway.url, other.url) as console:
        visitor = Visitor(console.url)
        yield Two(http, second, other, visitor)
        visitor.close()


def part_of(page: str, broker: str) -> str:
    """What the page says of the letters of a broker, with its form."""
    (found,) = re.findall(
        rf'aria-label="Dead letters of {broker}">(.*?)(?=aria-label="Dead letters of |</main>)', page, re.S
    )
    return found


def hidden_in(form: str) -> dict[str, str]:
    return {name: unescape(text) for name, text in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}


def test_letters_of_each_broker_are_sent_and_discarded_there(two: Two, name: str) -> None:
    bury(two.first, name, "one", "two")
    bury(two.second, name, "two", "three", "four")
    visitor, path = two.visitor, f"/groups/{name}/dead-letters"
    page = visitor.get(path)
    assert page.index("Dead letters of broker-a") < page.index("Dead letters of broker-b"), "the chosen one first"
    here, there = part_of(page, "broker-a"), part_of(page, "broker-b")
    assert (here.count('type="checkbox"'), there.count('type="checkbox"')) == (2, 3)
    letter = re.search(r'name="at" value="([^"]+)"><input type="hidden" name="next" value="(/messages/[^"]+)"', there)
    assert letter is not None, "which chooses the broker that has the message"
    assert unescape(letter[1]) == two.other.url
    forms = [each.partition("</form>")[0] for each in there.split("<form ") if each.startswith('class="card"')]
    (fields,) = map(hidden_in, forms)
    assert fields["at"] == two.other.url
    tick = re.findall(r'name="(tick-\d+)"', there)[0]
    counted = visitor.http.post(path, data=fields | {tick: "1", "rate": "10"})
    assert "1 dead letter would be sent again" in counted.text
    progress = went_to(visitor.http.post(f"{path}/redrive", data=hidden_in(counted.text)))
    while visitor.get(progress).count(">redriven<") < 1:
        pass
    page = visitor.get(path)
    assert [part_of(page, each).count('type="checkbox"') for each in ("broker-a", "broker-b")] == [2, 2]
    counted = visitor.http.post(path, data=fields | {"discard": "1", "rate": "10"})
    assert "2 dead letters would be discarded" in counted.text
    assert went_to(visitor.http.post(f"{path}/discard", data=hidden_in(counted.text))) == path
    page = visitor.get(path)
    assert part_of(page, "broker-a").count('type="checkbox"') == 2
    assert "No open dead letters." in part_of(page, "broker-b")
    assert page.count("<h2>Send again or discard") == 1, "no form where there is nothing"


def test_a_predicate_that_is_not_taken_is_said_beside_its_broker(two: Two, name: str) -> None:
    bury(two.first, name, "one")
    bury(two.second, name, "two")
    path = f"/groups/{name}/dead-letters"
    fields = hidden_in(part_of(two.visitor.get(path), "broker-b").rpartition("<form ")[2])
    wrong = two.visitor.http.post(path, data=fields | {"where": "body = ", "rate": "10"})
    assert wrong.status_code == 400
    alerts = [part_of(wrong.text, each).count('role="alert"') for each in ("broker-a", "broker-b")]
    assert alerts == [0, 1]


def test_older_ones_and_files_are_of_one_broker(two: Two, name: str) -> None:
    bury(two.first, name, "here")
    bury(two.second, name, *["there"] * (PAGE_ROWS + 2))
    visitor, path = two.visitor, f"/groups/{name}/dead-letters"
    part = part_of(visitor.get(path), "broker-b")
    links = [unescape(each) for each in re.findall(r'href="([^"]+)"', part)]
    (older,) = [each for each in links if "after=" in each]
    page = visitor.get(older)
    assert page.count('type="checkbox"') == 2
    assert "Dead letters of broker-a" not in page
    assert f'href="{path}?state=open' in page.partition("Only those of one broker.")[2]
    (kept,) = [each for each in links if "format=jsonl" in each]
    assert len(visitor.get(kept).splitlines()) == PAGE_ROWS + 2
    assert "of one broker: which one?" in visitor.get(path, 400, after="1")
    assert "a broker that this console doesn" in visitor.get(path, 400, at="http://127.0.0.1:1")


def test_a_group_that_only_another_broker_has_is_shown(two: Two, name: str) -> None:
    bury(two.second, name, "two")
    page = two.visitor.get(f"/groups/{name}/dead-letters")
    assert part_of(page, "broker-b").count('type="checkbox"') == 1
    assert "broker-a" not in page
    assert ">two<" in two.visitor.get(f"/groups/{name}/dead-letters/causes")
    two.visitor.get(f"/groups/none-{name}/dead-letters", 404)
    two.visitor.get(f"/groups/none-{name}/dead-letters/causes", 404)


def test_a_broker_that_does_not_answer_is_said_to_be_missing(
    http: httpx.Client, gateway: GatewayProcess, name: str
) -> None:
    bury(http, name, "one")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else will
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with ConsoleProcess(gateway.url, gone) as console:
            visitor = Visitor(console.url)
            page = visitor.get(f"/groups/{name}/dead-letters")
            assert f"{gone} tells nothing: " in page
            assert "Dead letters that only this broker has are missing here." in page
            assert part_of(page, "broker-a").count('type="checkbox"') == 1
            causes = visitor.get(f"/groups/{name}/dead-letters/causes")
            assert ">one<" in causes
            assert f"{gone} tells nothing: " in causes
            assert "missing here" in visitor.get(f"/groups/none-{name}/dead-letters"), "that one may have it"
            visitor.close()


def test_a_broker_that_would_refuse_is_said_to_be_missing(
    guarded: Guarded, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    bury(guarded.http, name, "one")
    token = token_of(guarded.http, name, (f"Group:{name}", ["Get"]), (f"Topic:{name}", ["Get"]))
    with (
        start_gateway(tmp_path_factory.mktemp("second"), auth__required=True, broker__name="broker-b") as second,
        ConsoleProcess(guarded.gateway.url, second.url) as console,
    ):
        visitor = Visitor(console.url)
        visitor.sign_in(token)
        page = visitor.get(f"/groups/{name}/dead-letters")
        assert f"{second.url} tells nothing: This broker doesn&#39;t take your token." in page
        assert part_of(page, "broker-a").count('<td data-label="Died"') == 1
        assert "you may not see its dead letters" in visitor.get(f"/groups/hidden-{name}/dead-letters")
        visitor.close()
