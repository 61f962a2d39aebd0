"""Requests that schemathesis draws from an OpenAPI document, with names in them that there are."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import requests
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode, openapi

from lakemq.contract import forms
from lakemq.contract.route import Field, Route, is_name
from tests.gateway.decode.fuzz import arrow_requests, other_requests

Names = Mapping[str, Sequence[str]]
"""What there is, by the name of a path's or a query's field."""
ANSWER_S_MAX = 120.0
_UNHEALTHY = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_OF_SESSIONS = ("timeout", "verify", "cert", "allow_redirects")
_KNOWN_OF_TEN = 7
_ARROW = [each.body for each in arrow_requests()]
_OTHERS = [each.body for each in other_requests()]
for _form, _bodies in ((forms.ARROW, _ARROW), (forms.NDJSON, _OTHERS), (forms.EVENT, _OTHERS), (forms.OCTETS, _OTHERS)):
    openapi.media_type(_form, st.one_of(st.sampled_from(_bodies), st.binary(max_size=300)))
openapi.media_type(forms.EVENTS, st.one_of(st.sampled_from(_OTHERS), st.binary(max_size=300)))
_MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


class Answered(NamedTuple):
    """One request and its answer. `text`: all that was asked with, as text."""

    method: str
    path: str
    text: str
    status: int
    headers: Mapping[str, str]
    body: bytes


def document_of(routes: Sequence[Route]) -> dict[str, Any]:
    """An OpenAPI document of routes that no gateway describes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        named = [each[1:-1] for each in route.path.split("/") if is_name(each)]
        parameters = [{"name": each, "in": "path", "required": True, "schema": {"type": "string"}} for each in named]
        parameters += [_described(each) for each in route.query]
        operation: dict[str, Any] = {"parameters": parameters, "responses": {"200": {"description": "as asked"}}}
        if route.method in ("PUT", "POST"):
            operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "lakemq", "version": "1"}, "paths": paths}


def _described(field: Field) -> dict[str, Any]:
    return {"name": field.name, "in": "query", "required": field.required, "schema": {"type": field.kind}}


def strategies_of(document: Mapping[str, Any]) -> list[Any]:
    """What draws requests, of each operation such as are right and such as are not. To make them takes longer than to
    draw from them."""
    schema = openapi.from_dict(dict(document))
    schema.config.update(base_url="http://127.0.0.1")
    operations: list[Any] = [getattr(found, "ok")() for found in schema.get_all_operations()]  # noqa: B009
    return [each.as_strategy(generation_mode=mode) for each in operations for mode in _modes(each)]


def _modes(operation: Any) -> Sequence[GenerationMode]:
    """Any text is right as a name in a path, so of what has no more nothing can be wrong. To find that out by trying
    took most of the time."""
    return _MODES if operation.query or operation.body else _MODES[:1]


def ask(
    strategies: list[Any], url: str, token: str, names: Names, seeds: Iterable[int], each: int
) -> Iterator[list[Answered]]:
    """Some `each` requests of one operation and their answers, for all operations in turn, once for each seed. What
    draws nothing is taken out of `strategies`, whoever asks next: to find that out takes hundreds of tries."""
    session = requests.Session()
    session.trust_env = False
    if token:
        session.headers["Authorization"] = f"Bearer {token}"
    with session:
        for number in seeds:
            for strategy in list(strategies):
                done: list[Answered] = []
                _run(strategy, number, each, _asker(session, url, names, done))
                if not done:
                    strategies.remove(strategy)
                yield done


def _asker(session: requests.Session, url: str, names: Names, done: list[Answered]) -> Callable[[Any, Any], None]:
    def ask_one(case: Any, chance: Any) -> None:
        for fields in (case.path_parameters, case.query, case.body):
            _name(fields, names, chance)
        answer = session.send(
            session.prepare_request(requests.Request(**_plain(case, url))),
            timeout=ANSWER_S_MAX,
            allow_redirects=False,
        )
        asked = answer.request
        body = asked.body.decode("utf-8", "replace") if isinstance(asked.body, bytes) else str(asked.body or "")
        text = f"{asked.method} {unquote(asked.url or '')} {dict(asked.headers)} {body}"
        done.append(
            Answered(case.method, case.operation.path, text, answer.status_code, answer.headers, answer.content)
        )

    return ask_one


def _name(fields: Any, names: Names, chance: Any) -> None:
    """Let fields, at whatever depth, say what there is."""
    if isinstance(fields, list):
        for each in fields:  # pyright: ignore[reportUnknownVariableType]
            _name(each, names, chance)
    elif isinstance(fields, dict):
        for name, value in fields.items():  # pyright: ignore[reportUnknownVariableType]
            if name in names and (_waits(name, value) or chance.randrange(10) < _KNOWN_OF_TEN):
                fields[name] = chance.choice(names[name])
            else:
                _name(value, names, chance)


def _waits(name: str, value: Any) -> bool:
    """Not all routes take their longest wait from the settings, and one that waits is a run that stands still."""
    return name.endswith("_ms") and str(value).isdecimal()


def _plain(case: Any, url: str) -> dict[str, Any]:
    """As `requests.Request` takes it."""
    asked = case.as_transport_kwargs(base_url=url)
    return {
        name: value for name, value in asked.items() if name not in ("timeout", "verify", "cert", "allow_redirects")
    }


def _run(strategy: Any, number: int, count: int, act: Callable[[Any, Any], None]) -> None:
    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=_UNHEALTHY,
        verbosity=Verbosity.quiet,
    )
    @given(case=strategy, chance=st.randoms(use_true_random=False))
    def each(case: Any, chance: Any) -> None:
        act(case, chance)

    with warnings.catch_warnings(), contextlib.suppress(Unsatisfiable):  # where nothing can be wrong
        warnings.simplefilter("ignore")
        each()
