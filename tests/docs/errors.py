"""The table of errors in docs/errors.md: `python -m tests.docs.errors` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

from lakemq import client
from lakemq.client.errors import LakemqError
from lakemq.web.problems import STATUS
from tests.docs.part import Part

PART = Part(Path("docs/errors.md"), "<!-- errors: python -m tests.docs.errors -->", "<!-- end of errors -->")
TO_DO = "What to do: "


def kinds() -> list[type[LakemqError]]:
    """All errors of `lakemq.client`, but for their base."""
    found = [getattr(client, name) for name in sorted(client.__all__)]
    kinds = [each for each in found if isinstance(each, type) and issubclass(each, LakemqError)]
    return [each for each in kinds if each is not LakemqError]


def parts(kind: type[LakemqError]) -> tuple[str, str]:
    """What is wrong, and what to do about it: where it doesn't say, what the error does that it is one of."""
    said, _, to_do = re.sub(r"\s+", " ", kind.__doc__ or "").partition(TO_DO)
    base = kind.__bases__[0]
    if not to_do and issubclass(base, LakemqError) and base is not LakemqError:
        to_do = parts(base)[1]
    return said.strip(), to_do.strip()


def table() -> str:
    """As Markdown."""
    rows: list[str] = []
    for kind in kinds():
        said, to_do = parts(kind)
        retried = "yes" if kind.retryable else "no"
        status = STATUS.get(kind.code, "")
        rows.append(
            f"| `{kind.__name__}` | `{kind.code}` | {status} | {retried} | {said} | {to_do} |".replace("  ", " ")
        )
    return "\n".join(
        ["| error | code | status | retry | what is wrong | what to do |", "|---|---|---|---|---|---|", *rows]
    )


if __name__ == "__main__":
    PART.write(table())
