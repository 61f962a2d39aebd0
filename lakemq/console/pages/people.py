"""Users: the list, one of them, and what is changed of one. For administrators; others see themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from lakemq.console.asked import Who
from lakemq.console.presets import DAYS
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import user_routes
from lakemq.model.access import Action, Kind, Need, UserType, need_of_topic, parse_action, parse_resource
from lakemq.model.errors import LakemqError

PAGE_ROWS = 50
STATUS = ("enabled", "disabled")


def is_administrator(who: Who) -> bool:
    """Whether this is a super user, who alone may see and change others."""
    return who.user is not None and who.user.type is UserType.SUPER and who.user.status == "enabled"


async def list_users(visit: Visit) -> Response:
    """All users, a page at a time; users who may not see the others see only themselves."""
    who = await visit.who()
    tested, is_open = await _test(visit, who), not who.token_required
    if not is_administrator(who):
        audit = who.user is not None and who.may(Action.GET, parse_resource(f"{Kind.CLUSTER}:*"))
        return visit.page(
            "people_me.html", who=who.user, tested=tested, actions=list(Action), may_audit=audit, is_open=is_open
        )
    search, number = visit.field("q"), visit.number("page", 1, 1, 1_000_000)
    found = (await visit.broker.get(user_routes.USERS.at()))["users"]
    wanted = sorted((each for each in found if search.lower() in each["user"].lower()), key=lambda each: each["user"])
    return visit.page(
        "people.html",
        rows=wanted[(number - 1) * PAGE_ROWS : number * PAGE_ROWS],
        search=search,
        number=number,
        pages=max(-(-len(wanted) // PAGE_ROWS), 1),
        found=len(wanted),
        all_users=len(found),
        tested=tested,
        actions=list(Action),
        is_open=is_open,
    )


async def _test(visit: Visit, who: Who) -> dict[str, Any] | None:
    """Whether somebody may do something, as the query asks; None: it asks nothing."""
    user, resource = visit.field("user"), visit.field("resource")
    if not resource:
        return None
    asked = {name: visit.field(name) for name in ("user", "action", "resource", "source")}
    try:
        if is_administrator(who):
            content = {name: value for name, value in asked.items() if value}
            answer = await visit.broker.ask(user_routes.ACCESS.at(), body=json.dumps(content | {"user": user}).encode())
            return asked | answer.json()
        need = _need(asked)
        if who.user is None:
            return None
        verdict = who.user.decide(need, asked["source"] or None)
    except LakemqError as error:
        if error.code in ("forbidden", "unauthenticated", "unreachable"):
            raise
        return asked | {"problem": error.detail}
    return asked | {"allowed": verdict.allowed, "by": verdict.by}


def _need(asked: Mapping[str, str]) -> Need:
    """Raises `InvalidRequest`."""
    action, resource = parse_action(asked["action"]), parse_resource(asked["resource"])
    return need_of_topic((action,), resource.name) if resource.kind is Kind.TOPIC else Need((action,), resource)


async def show_user(visit: Visit) -> Response:
    """One user."""
    return await user_page(visit, visit.path("user"))


async def user_page(visit: Visit, name: str, status: int = 200, problem: str = "") -> Response:
    """Its page, with what went wrong."""
    who = await visit.who()
    found = await visit.broker.get(user_routes.USER.at(name))
    return visit.page(
        "user.html",
        status,
        found=found,
        problem=problem,
        actions=list(Action),
        is_me=who.user is not None and who.user.name == name,
        fields=visit.form,
        days=DAYS,
        now_ms=int((await visit.broker.describe()).get("steady_ms") or 0),
    )


def page_of(user: str) -> str:
    """Where its page is."""
    return f"/people/users/{segment(user)}"


async def ask_status(visit: Visit) -> Response:
    """Whether it is meant to be shut out."""
    name = visit.path("user")
    found = await visit.broker.get(user_routes.USER.at(name))
    return visit.page(
        "confirm.html",
        crumbs=[("/people", "People"), (page_of(name), name)],
        title=f"Disable {name}?",
        text="From then on, every request with one of its tokens is refused. Its policies and tokens are kept, and you"
        " can enable it again.",
        warning=await _about_me(visit, name),
        action=f"{page_of(name)}/status",
        fields={"status": "disabled"},
        button="Disable it",
        back=page_of(found["user"]),
    )


async def _about_me(visit: Visit, name: str) -> str:
    who = await visit.who()
    return "This is you: you will be signed out." if who.user is not None and who.user.name == name else ""


async def put_status(visit: Visit) -> Response:
    """Enable or disable it."""
    name, status = visit.path("user"), visit.field("status")
    await visit.broker.get(user_routes.USER.at(name))  # else it would be made
    target, content = user_routes.PUT_USER.at(name), {"status": status}
    await visit.broker.ask(target, body=json.dumps(content).encode(), timeout_s=30.0)
    return visit.go(page_of(name), "user-disabled" if status == "disabled" else "user-enabled")


async def ask_delete(visit: Visit) -> Response:
    """What goes with it, and whether that is meant."""
    return await _delete_page(visit, visit.path("user"))


async def _delete_page(visit: Visit, name: str, status: int = 200, problem: str = "") -> Response:
    found = await visit.broker.get(user_routes.USER.at(name))
    warning = await _about_me(visit, name)
    return visit.page("user_delete.html", status, found=found, problem=problem, warning=warning)


async def delete(visit: Visit) -> Response:
    """Delete it, where its name was written."""
    name = visit.path("user")
    if visit.field("name") != name:
        return await _delete_page(visit, name, 400, "The name doesn't match.")
    await visit.broker.ask(user_routes.DELETE_USER.at(name), timeout_s=30.0)
    return visit.go("/people", "deleted")


ROUTES = (
    ("GET", "/people", list_users),
    ("GET", "/people/users/{user}", show_user),
    ("GET", "/people/users/{user}/disable", ask_status),
    ("POST", "/people/users/{user}/status", put_status),
    ("GET", "/people/users/{user}/delete", ask_delete),
    ("POST", "/people/users/{user}/delete", delete),
)
