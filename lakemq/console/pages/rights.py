"""What a user has: policies and tokens, given and taken. And a new user, who gets all of it by one form."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from lakemq.console.pages.people import is_administrator, page_of, user_page
from lakemq.console.presets import (
    DAYS,
    FIELDS,
    Wanted,
    check_new_name,
    expires_ms,
    policy_of,
    read_policies,
    wanted_of,
    write_policies,
)
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import user_routes
from lakemq.model.access import Policy, parse_policy
from lakemq.model.errors import Forbidden, InvalidRequest, LakemqError, TokenNotFound

_RAISED = ("forbidden", "unauthenticated", "unreachable")
_TEXT_MAX = 64 * 1024
"""Characters of the policies that a form carries along."""


async def new_user(visit: Visit) -> Response:
    """The form."""
    if not is_administrator(await visit.who()):
        raise Forbidden("only an administrator creates users")
    values = {each: visit.field(each) for each in ("name", *FIELDS)} | {"days": "90"}
    return visit.page("new_user.html", values=values, problem="", days=DAYS)


async def preview_user(visit: Visit) -> Response:
    """What the form comes to: nothing is made yet."""
    values = _values(visit)
    try:
        wanted = _checked(values)
        if await _is_there(visit, values["name"]):
            raise InvalidRequest(f"there is a user {values['name']} already")
    except LakemqError as error:
        if error.code in _RAISED:
            raise
        return visit.page("new_user.html", 400, values=values, problem=error.detail, days=DAYS)
    return visit.page("new_user_preview.html", values=values, wanted=wanted)


def _values(visit: Visit) -> dict[str, str]:
    return {each: visit.field(each) for each in ("name", "days", *FIELDS, "super")}


def _checked(values: dict[str, str]) -> Wanted:
    check_new_name(values["name"])
    expires_ms(values["days"])
    wanted = wanted_of(values)
    if not wanted.policies and not values["super"]:
        raise InvalidRequest("choose what the user may do: without a policy it may do nothing")
    return wanted


async def _is_there(visit: Visit, name: str) -> bool:
    try:
        await visit.broker.get(user_routes.USER.at(name))
    except LakemqError as error:
        if error.code == "user_not_found":
            return False
        raise
    return True


async def create_user(visit: Visit) -> Response:
    """Make the user, its policies and a token, which is shown this once."""
    values = _values(visit)
    wanted, name = _checked(values), values["name"]
    if await _is_there(visit, name):  # of who sends the form twice the second one would be another's user
        raise InvalidRequest(f"there is a user {name} already; give it a new token on its page")
    kind = "super" if values["super"] else "normal"
    await _send(visit, user_routes.PUT_USER.at(name), {"type": kind, "status": "enabled"})
    try:
        if wanted.policies:
            await _put_policies(visit, name, list(wanted.policies))
        made = await _make_token(visit, name, values["days"])
    except LakemqError as error:
        if error.code in _RAISED:
            raise
        return await user_page(visit, name, 400, f"The user exists, but something is missing: {error.detail}")
    return visit.page("token_made.html", name=name, made=made, wanted=wanted, new=True, address=visit.broker.address)


async def add_token(visit: Visit) -> Response:
    """One more token for a user: it is shown this once, in this answer."""
    name = visit.path("user")
    try:
        made = await _make_token(visit, name, visit.field("days"))
    except LakemqError as error:
        if error.code in (*_RAISED, "user_not_found"):
            raise
        return await user_page(visit, name, 400, error.detail)
    none = Wanted((), "", "", "")
    return visit.page("token_made.html", name=name, made=made, wanted=none, new=False, address=visit.broker.address)


async def _make_token(visit: Visit, name: str, days: str) -> dict[str, Any]:
    until = expires_ms(days)
    content = {} if until is None else {"expires_ms": until}
    return await _send(visit, user_routes.ADD_TOKEN.at(name), content)


async def ask_revoke(visit: Visit) -> Response:
    """Whether a token is meant to be revoked."""
    name, token_id = visit.path("user"), visit.path("token_id")
    tokens = (await visit.broker.get(user_routes.TOKENS.at(name)))["tokens"]
    if all(each["token_id"] != token_id for each in tokens):
        raise TokenNotFound(f"{name} has no token {token_id[:40]!r}")
    return visit.page(
        "confirm.html",
        crumbs=[("/people", "People"), (page_of(name), name)],
        title="Revoke this token?",
        text=f"The token {token_id} of {name}: the next request with it is refused. This can't be undone; you can"
        " make another token.",
        warning="",
        action=f"{page_of(name)}/tokens/{segment(token_id)}/revoke",
        fields={},
        button="Revoke it",
        back=page_of(name),
    )


async def revoke(visit: Visit) -> Response:
    """Delete the token."""
    name = visit.path("user")
    await visit.broker.ask(user_routes.DELETE_TOKEN.at(name, visit.path("token_id")), timeout_s=30.0)
    return visit.go(page_of(name), "token-revoked")


async def preview_policies(visit: Visit) -> Response:
    """What a form adds to a user's policies: nothing is added yet."""
    name = visit.path("user")
    try:
        fields = {each: visit.field(each) for each in visit.form}
        new = [policy_of(fields)] if fields.get("resource") else list(wanted_of(fields).policies)
        if not new:
            raise InvalidRequest("choose what the user may do")
    except LakemqError as error:
        return await user_page(visit, name, 400, error.detail)
    return visit.page(
        "confirm.html",
        crumbs=[("/people", "People"), (page_of(name), name)],
        title=f"Change what {name} may do?",
        text="These policies are added:",
        lines=[str(each) for each in new],
        warning="",
        action=f"{page_of(name)}/policies",
        fields={"policies": write_policies(new)},
        button="Add them" if len(new) > 1 else "Add it",
        safe=True,
        back=page_of(name),
    )


async def add_policies(visit: Visit) -> Response:
    """Add them to those that the user has now."""
    name = visit.path("user")
    new = read_policies(_carried(visit, "policies"))
    has = await _policies(visit, name)
    await _put_policies(visit, name, has + [each for each in new if each not in has])
    return visit.go(page_of(name), "policies-added")


async def ask_remove(visit: Visit) -> Response:
    """Whether a policy is meant to be removed."""
    name, number = visit.path("user"), visit.number("number", 0)
    has = await _policies(visit, name)
    if number >= len(has):
        raise InvalidRequest("there is no such policy any more")
    policy = has[number]
    return visit.page(
        "confirm.html",
        crumbs=[("/people", "People"), (page_of(name), name)],
        title=f"Change what {name} may do?",
        text="This policy is removed:",
        lines=[str(policy)],
        warning="It denies something that other policies may then allow." if policy.decision == "deny" else "",
        action=f"{page_of(name)}/policies/remove",
        fields={"policies": write_policies([policy])},
        button="Remove it",
        back=page_of(name),
    )


async def remove_policy(visit: Visit) -> Response:
    """Take it from those that the user has now."""
    name = visit.path("user")
    gone = read_policies(_carried(visit, "policies"))
    has = await _policies(visit, name)
    if not all(each in has for each in gone):
        problem = "Somebody else changed these policies in the meantime. Nothing was removed."
        return await user_page(visit, name, 400, problem)
    await _put_policies(visit, name, [each for each in has if each not in gone])
    return visit.go(page_of(name), "policy-removed")


def _carried(visit: Visit, field: str) -> str:
    text = visit.form.get(field, "")
    if len(text) > _TEXT_MAX:
        raise InvalidRequest(f"{field} is too long")
    return text


async def _policies(visit: Visit, name: str) -> list[Policy]:
    return [parse_policy(each) for each in (await visit.broker.get(user_routes.POLICIES.at(name)))["policies"]]


async def _put_policies(visit: Visit, name: str, policies: list[Policy]) -> None:
    content = {"policies": [each.fields() for each in policies]}
    await _send(visit, user_routes.PUT_POLICIES.at(name), content)


async def _send(visit: Visit, target: Any, content: dict[str, Any]) -> dict[str, Any]:
    return (await visit.broker.ask(target, body=json.dumps(content).encode(), timeout_s=30.0)).json()


ROUTES = (
    ("GET", "/people/new", new_user),
    ("POST", "/people/new", preview_user),
    ("POST", "/people/new/create", create_user),
    ("POST", "/people/users/{user}/tokens", add_token),
    ("GET", "/people/users/{user}/tokens/{token_id}/revoke", ask_revoke),
    ("POST", "/people/users/{user}/tokens/{token_id}/revoke", revoke),
    ("POST", "/people/users/{user}/policies/preview", preview_policies),
    ("POST", "/people/users/{user}/policies", add_policies),
    ("GET", "/people/users/{user}/policies/remove", ask_remove),
    ("POST", "/people/users/{user}/policies/remove", remove_policy),
)
