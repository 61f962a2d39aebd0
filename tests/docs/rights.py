"""The table of routes and rights in docs/security.md: `python -m tests.docs.rights` writes it anew."""

from __future__ import annotations

from pathlib import Path

from lakemq.contract import routes
from lakemq.contract.right import Right
from lakemq.contract.route import Route

FILE = Path("docs/security.md")
BEGIN, END = "<!-- rights: python -m tests.docs.rights -->", "<!-- end of rights -->"


def table() -> str:
    """As Markdown."""
    rows = [
        f"| `{each.method} {each.path}` | {_rights(each)} | {_nobody(each)} |"
        for each in routes.ALL
        if each.tag != "docs"
    ]
    return "\n".join(["| route | takes | without a token, where none is required |", "|---|---|---|", *rows])


def _rights(route: Route) -> str:
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
    optional = f", where `{right.of}` is given" if right.optional else ""
    return f"{' or '.join(f'`{each}`' for each in right.actions)} on `{on}`{optional}"


def _nobody(route: Route) -> str:
    return "401" if route.rights.guarded else "yes"


def written() -> str:
    """What stands in the document."""
    return FILE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def main() -> None:
    """Write it."""
    text = FILE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    FILE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
