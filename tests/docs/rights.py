"""The tables of routes and rights in docs/security.md: `python -m tests.docs.rights` writes them anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lakemq.contract import jobs_routes, nameserver_routes, routes
from lakemq.contract.right import Right
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import CATALOG, STATEMENT
from tests.docs.part import Part

PART = Part(Path("docs/security.md"), "<!-- rights: python -m tests.docs.rights -->", "<!-- end of rights -->")
OF_GATEWAY: tuple[Route, ...] = routes.ALL
OF_JOBS: tuple[Route, ...] = (STATEMENT, CATALOG, *jobs_routes.ALL)
OF_NAME_SERVER: tuple[Route, ...] = nameserver_routes.ALL


def tables() -> str:
    """As Markdown."""
    nobody = "| route | needs | without a token, if none is required |"
    of_file = "| route | needs | without a token, if there is that file |"
    return "\n\n".join(
        [
            _table(nobody, ((each, _nobody(each)) for each in OF_GATEWAY if each.tag != "docs")),
            "The server of the jobs, at the address that a broker names as `sql`:",
            _table(nobody, ((each, _nobody(each)) for each in OF_JOBS)),
            "A name server:",
            _table(of_file, ((each, "yes" if each.rights.public else "401") for each in OF_NAME_SERVER)),
        ]
    )


def _table(head: str, rows: Iterable[tuple[Route, str]]) -> str:
    lines = [f"| `{each.method} {each.path}` | {said_of(each)} | {nobody} |" for each, nobody in rows]
    return "\n".join([head, "|---|---|---|", *lines])


def said_of(route: Route) -> str:
    """What it takes, in a few words."""
    rights = route.rights
    if rights.public:
        return "nothing"
    said = [_right(each) for each in rights.each]
    said += [rights.by_handler] if rights.by_handler else []
    return "; ".join(said) or "any user"


def _right(right: Right) -> str:
    on = f"{right.kind}:" + (f"{{{right.of}}}" if right.of else "*")
    if not right.actions:
        return "a super user"
    optional = f", if `{right.of}` is given" if right.optional else ""
    return f"{' or '.join(f'`{each}`' for each in right.actions)} on `{on}`{optional}"


def _nobody(route: Route) -> str:
    return "401" if route.rights.guarded else "yes"


if __name__ == "__main__":
    PART.write(tables())
