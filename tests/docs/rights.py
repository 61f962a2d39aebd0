"""The table of routes and rights in docs/security.md: `python -m tests.docs.rights` writes it anew."""

from __future__ import annotations

from pathlib import Path

from lakemq.contract import routes
from lakemq.contract.right import Right
from lakemq.contract.route import Route
from tests.docs.part import Part

PART = Part(Path("docs/security.md"), "<!-- rights: python -m tests.docs.rights -->", "<!-- end of rights -->")


def table() -> str:
    """As Markdown."""
    rows = [
        f"| `{each.method} {each.path}` | {said_of(each)} | {_nobody(each)} |"
        for each in routes.ALL
        if each.tag != "docs"
    ]
    return "\n".join(["| route | needs | without a token, if none is required |", "|---|---|---|", *rows])


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
    PART.write(table())
