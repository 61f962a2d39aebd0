"""docs/http.md, made of the contract: `python -m tests.docs.http_page` writes it."""
# ruff: noqa: E501
# (lines of the page, as they stand there)

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx

from lakemq.contract import headers, nameserver_routes, routes
from lakemq.contract.headers import Header
from lakemq.contract.leader_routes import REMOVE
from lakemq.contract.route import Reads, Route
from lakemq.contract.sql_routes import STATEMENT
from lakemq.gateway.decode.limits import DRAFTS_MAX, ROWS_MAX
from lakemq.model import errors
from lakemq.model.errors import LakemqError
from lakemq.testing import start_gateway
from lakemq.web.problems import RETRY_AFTER_S, STATUS
from tests.docs.errors import parts
from tests.docs.rights import said_of
from tests.docs.route_errors import of_routes

FILE = Path("docs/http.md")
TITLES = {
    "messages": "Messages",
    "transactions": "Transactions",
    "requests": "Requests and replies",
    "receive": "Receive and acknowledge",
    "routing": "Delays, retries, dead letters",
    "groups": "Consumer groups",
    "clients": "Clients",
    "topics": "Topics",
    "sinks": "Sinks",
    "log": "The log",
    "operations": "Operations",
    "access": "Users and rights",
}
_HEAD = """# HTTP reference

<!-- made of lakemq/contract/ by `python -m tests.docs.http_page` -->

Every route of a gateway, and below them those of name servers and of the SQL server. A running gateway has the same as an
OpenAPI document at `/openapi.json`, and as a page at `/docs`.

- Bodies are JSON, unless a route takes messages. A field, a query field or a `Lakemq-…` header that lakemq does not know is
  400 `invalid_request`.
- Errors are [problem documents](#errors) with a stable `code`. Each route has a table of its own errors, found in the code.
  Every route can also answer `invalid_request`, `busy` and `internal`; `unauthenticated`, `forbidden` and, above a user's quota,
  `flow_control` ([rights](security.md#routes-and-their-rights)); and `wrong_host`, `wrong_origin` and `request_too_slow`.
- *Leader only*: a follower answers 421 `not_leader`, and names the leader. Other routes are answered by any replica.
- Routes that write, or that wait until what they show is on disk or confirmed, can answer `store_unwritable`,
  `not_enough_replicas` and `not_confirmed`.
- Tables name what the code checks: `required` fields, defaults, and bounds.
"""


def page(document: dict[str, Any]) -> str:
    """As Markdown. `document`: the OpenAPI document of a gateway, which has the bodies."""
    parts = [_HEAD]
    tags = list(dict.fromkeys(route.tag for route in routes.ALL if route.tag in TITLES))
    for tag in tags:
        parts += [f"## {TITLES[tag]}\n", *_routes([each for each in routes.ALL if each.tag == tag], document)]
    parts += ["## SQL\n", _SQL, *_route(STATEMENT, None)]
    parts += ["## Name servers\n", *_routes(nameserver_routes.ALL, {"paths": {}})]
    parts += ["## Headers of requests\n", _headers(headers.REQUESTS)]
    parts += ["## Headers of answers\n", _headers(headers.ANSWERS)]
    parts += ["## Messages in a body\n", _FORMS, _MANY, "## Errors\n", _ERRORS, _errors()]
    return "\n".join(parts)


_SQL = """The server of the jobs answers this route; `GET /v1/broker` returns its address as `sql`. [sql.md](sql.md) has the fields of the body.
"""
_MEANINGS = {
    "broker_unavailable": "The jobs can't reach a broker that the statement needs.",
    "internal": "A fault of lakemq; the log of the process has more, by the request id.",
    "method_not_allowed": "The path has no such method; `Allow` has those that it has.",
    "not_found": "There is no such path.",
    "request_too_slow": "The request's head or body took too long to arrive.",
    "wrong_host": "The `Host` of the request is none of `gateway.hosts`.",
    "wrong_origin": "The request comes from a web page of another site (`Origin`).",
}
"""Of codes that are answered by no class of error."""
_OF_MANY = {
    *("invalid_request", "busy", "internal", "forbidden", "not_leader"),
    *("store_unwritable", "not_enough_replicas", "not_confirmed"),
}
"""What the page's head says of all routes, or of many."""
_BESIDE = {REMOVE: {"not_confirmed"}}
"""Of these, what a route answers that is none of those the head speaks of."""
_MANY = f"""A request has at most {DRAFTS_MAX:,} messages, as Arrow {ROWS_MAX:,}, and is at most `gateway.request_bytes_max` long, inflated too. A larger
one is 413 `message_too_large`.
"""
_FORMS = """What a route that takes messages reads, by `Content-Type`:

| type | the body |
|---|---|
| `application/json` | `{"messages": [{…}]}`, or one message as an object. A message has `body` or `json`, and any of `tag`, `keys`, `properties`, `ordering_key`, `queue_id`, `delay_level`, `delay_ms`, `deliver_at_ms`, `ttl_ms`, `priority`, `born_time_ms` |
| `application/x-ndjson` | one message a line |
| `application/vnd.apache.arrow.stream` | an Arrow stream with the same columns |
| `application/cloudevents+json`, `application/cloudevents-batch+json` | one CloudEvent, or a list of them |
| anything else | one message, as it is; its fields are [headers](#headers-of-requests) |
"""
_ERRORS = """An error is `application/problem+json`: `type`, `title`, `status`, `detail`, `code` and `request_id`. Branch on `code`; `detail`
is for people and may change. [errors.md](errors.md) has the Python classes, and what to do about each.
"""


def _routes(found: Iterable[Route], document: dict[str, Any]) -> Iterator[str]:
    for route in found:
        yield from _route(route, _schema(route, document))


def _route(route: Route, schema: dict[str, Any] | None) -> Iterator[str]:
    yield f"### `{route.method} {route.path}`\n"
    rights = f"Rights: {said_of(route)}." if not route.rights.public else "Public."
    yield " ".join([f"{route.summary}.", rights, *_notes(route)]) + "\n"
    if route.query:
        yield "| query | type | default | |"
        yield "|---|---|---|---|"
        for each in route.query:
            default = "required" if each.required else "" if each.default in (None, "") else f"`{each.default}`"
            kind = ", ".join(f"`{choice}`" for choice in each.choices) or each.kind
            kind += "" if each.least is None else f", from {each.least}"
            yield f"| `{each.name}` | {kind} | {default} | {_cell(each.description)} |"
        yield ""
    if schema is not None and schema.get("properties"):
        yield "| body | type | default |"
        yield "|---|---|---|"
        yield from _rows(schema, schema.get("$defs", {}))
        yield ""
    codes = {code for code in of_routes().get(route, ()) if code in STATUS} - (_OF_MANY - _BESIDE.get(route, set()))
    if codes:
        yield "| error | status | what to do |"
        yield "|---|---|---|"
        for code in sorted(codes, key=lambda each: (STATUS[each], each)):
            yield f"| `{code}` | {STATUS[code]} | {_cell(_to_do(code))} |"
        yield ""


def _to_do(code: str) -> str:
    """What to do about an error; where its class doesn't say, what it means."""
    said, to_do = parts(_errors_by_code()[code])
    return f"{to_do[:1].upper()}{to_do[1:]}" if to_do else said


def _notes(route: Route) -> Iterator[str]:
    if route.reads is Reads.MESSAGES:
        yield "Takes [messages](#messages-in-a-body)."
    if route.writes:
        yield "Leader only."
    if route.audited:
        yield "Audited."
    if route.rights.guarded:
        yield "Needs a token also where `auth.required` is off."


def _schema(route: Route, document: dict[str, Any]) -> dict[str, Any] | None:
    operation = document["paths"].get(route.path, {}).get(route.method.lower(), {})
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    found = dict(schema)
    if "$ref" in found:
        found = dict(document["components"]["schemas"][found["$ref"].rpartition("/")[2]])
    return found | {"$defs": {**document.get("components", {}).get("schemas", {}), **found.get("$defs", {})}}


def _rows(schema: dict[str, Any], known: dict[str, Any], within: str = "") -> Iterator[str]:
    needed = schema.get("required", [])
    for name, each in schema["properties"].items():
        default = each.get("default")
        shown = "required" if name in needed else "" if default in (None, "", [], {}) else f"`{_value(default)}`"
        yield f"| `{within}{name}` | {_cell(_kind(each, known))} | {shown} |"
        inner = _inner(each, known)
        if inner is not None:
            yield from _rows(inner[1], known, f"{within}{name}{inner[0]}.")


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inner(each: dict[str, Any], known: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The object that a field is, or has a list of."""
    for option in each.get("anyOf", [each]):
        if option.get("type") == "array" and (found := _inner(option.get("items", {}), known)):
            return f"[]{found[0]}", found[1]
        resolved = _resolved(option, known)
        if resolved.get("properties"):
            return "", resolved
    return None


def _resolved(each: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return known[each["$ref"].rpartition("/")[2]] if "$ref" in each else each


def _kind(each: dict[str, Any], known: dict[str, Any]) -> str:
    if "anyOf" in each:
        return " or ".join(dict.fromkeys(_kind(option, known) for option in each["anyOf"]))
    each = _resolved(each, known)
    if "enum" in each or "const" in each:
        return ", ".join(f"`{choice}`" for choice in each.get("enum", [each.get("const")]))
    kind = each.get("type", "any")
    if kind == "array":
        kind = f"list of {_kind(each.get('items', {}), known)}"
    bounds = [
        f"{word} {int(each[key]):,}"
        for key, word in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("maxLength", "at most"),
            ("maxItems", "at most"),
        )
        if each.get(key) is not None
    ]
    return ", ".join([kind, *bounds])


def _headers(found: Iterable[Header]) -> str:
    rows = [f"| `{each.name}` | {each.where} | {each.meaning} |" for each in found]
    return "\n".join(["| header | where | meaning |", "|---|---|---|", *rows]) + "\n"


def _errors() -> str:
    kinds = _errors_by_code()
    rows = ["| code | status | `Retry-After` | meaning |", "|---|---|---|---|"]
    for code, status in sorted(STATUS.items(), key=lambda each: (each[1], each[0])):
        meaning = kinds[code].__doc__ or "" if code in kinds else _MEANINGS[code]
        text = re.sub(r"\s+", " ", meaning).partition("What to do:")[0]
        again = RETRY_AFTER_S.get(code, b"").decode()
        rows.append(f"| `{code}` | {status} | {again and again + ' s'} | {_cell(text.strip())} |")
    return "\n".join(rows) + "\n"


def _errors_by_code() -> dict[str, type[LakemqError]]:
    return {
        kind.code: kind for kind in _kinds(LakemqError) if "code" in vars(kind) and kind.__module__ == errors.__name__
    }


def _kinds(kind: type[LakemqError]) -> Iterator[type[LakemqError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def document() -> dict[str, Any]:
    """The OpenAPI document of a gateway that is started for it."""
    with tempfile.TemporaryDirectory() as folder, start_gateway(Path(folder)) as gateway:
        return httpx.get(f"{gateway.url}/openapi.json", trust_env=False, timeout=60).json()


def main() -> None:
    """Write it."""
    FILE.write_text(page(document()), "utf-8")


if __name__ == "__main__":
    main()
