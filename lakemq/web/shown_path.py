"""A request's path as others may see it."""

from __future__ import annotations

from lakemq.contract.grammar import Found

PATH_SHOWN_MAX = 200


def path_of(found: Found) -> str:
    """With the names in it that rights are by; ids may be secrets."""
    path = found.route.path
    named = {right.of for right in found.route.path_rights}
    for name, value in zip(found.route.within, found.values, strict=True):
        path = path.replace(f"{{{name}}}", value) if name in named else path
    return path[:PATH_SHOWN_MAX]
