"""What stands below each field of a class, as its description."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap


def described(kind: type) -> dict[str, str]:
    """The fields that the class itself has and describes."""
    made = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(made, ast.ClassDef)
    found: dict[str, str] = {}
    for before, after in itertools.pairwise(made.body):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and (text := _text(after)):
            found[before.target.id] = " ".join(text.split())
    return found


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""
