"""What a person may do, in a person's words, as policies: docs/security.md has the rights that each takes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from lakemq.model.access import Action, Policy, check_user_name, parse_policy, parse_resource
from lakemq.model.errors import InvalidRequest

NAMES_MAX = 50
"""Topics or groups in one field."""
DAYS = ("7", "30", "90", "365", "")
"""How long a token may be valid; the last one: until it is revoked."""
DAY_MS = 86_400_000
FIELDS = ("send_to", "consume", "group", "look", "sql")
_LOOK = (("Topic:*", "Get", "List"), ("Group:*", "Get", "List"), ("Cluster:*", "List"))


class Wanted(NamedTuple):
    """What a form asks for. `topic` and `group`: what an example is shown with; empty: there is nothing to show."""

    policies: tuple[Policy, ...]
    send_to: str
    consume: str
    group: str


def wanted_of(fields: Mapping[str, str]) -> Wanted:
    """The policies that a form's fields come to, one for each resource. Raises `InvalidRequest`."""
    send_to, consume = _names(fields, "send_to", "Topic"), _names(fields, "consume", "Topic")
    groups = _names(fields, "group", "Group")
    if consume and not groups:
        raise InvalidRequest("a consumer needs a group: write its name")
    if groups and not consume:
        raise InvalidRequest("a group needs topics: write their names")
    found: dict[str, set[str]] = {}
    for name in send_to:
        found.setdefault(f"Topic:{name}", set()).add("Pub")
    for name in consume:
        found.setdefault(f"Topic:{name}", set()).add("Sub")
    for name in groups:
        found.setdefault(f"Group:{name}", set()).add("Sub")
    if fields.get("look"):
        for resource, *actions in _LOOK:
            found.setdefault(resource, set()).update(actions)
    if fields.get("sql"):
        found.setdefault("Lake:*", set()).add("Sql")
    policies = tuple(parse_policy({"resource": each, "actions": sorted(found[each])}) for each in found)
    return Wanted(policies, _example(send_to), _example(consume), _example(groups))


def _names(fields: Mapping[str, str], field: str, kind: str) -> list[str]:
    names = list(dict.fromkeys(fields.get(field, "").replace(",", " ").split()))
    if len(names) > NAMES_MAX:
        raise InvalidRequest(f"at most {NAMES_MAX} names at once; orders* covers all names that begin with orders")
    for each in names:
        parse_resource(f"{kind}:{each}")
    return names


def _example(names: Iterable[str]) -> str:
    return next((each.rstrip("*-") or "orders" for each in names), "")


def policy_of(fields: Mapping[str, str]) -> Policy:
    """The policy of a form that has all of its fields. Raises `InvalidRequest`."""
    actions = [each for each in (action.value for action in Action) if fields.get(f"action_{each}")]
    sources = fields.get("sources", "").replace(",", " ").split()
    said: dict[str, Any] = {"resource": fields.get("resource", ""), "actions": actions, "sources": sources}
    return parse_policy(said | {"decision": fields.get("decision") or "allow"})


def read_policies(text: str) -> list[Policy]:
    """Those that a form carries along, as JSON. Raises `InvalidRequest`."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, list):
        raise InvalidRequest("this form has no policies")
    return [parse_policy(each) for each in said]


def write_policies(policies: Iterable[Policy]) -> str:
    """As `read_policies` reads them."""
    return json.dumps([each.fields() for each in policies])


def expires_ms(days: str) -> int | None:
    """So long from now, as a request for a token says it; None: never. Raises `InvalidRequest`."""
    if days not in DAYS:
        raise InvalidRequest(f"a token is valid for {', '.join(each for each in DAYS if each)} days, or until revoked")
    return int(days) * DAY_MS if days else None


def check_new_name(name: str) -> str:
    """Raises `InvalidRequest`."""
    if not name:
        raise InvalidRequest("a user needs a name")
    return check_user_name(name)
