"""`make test` leaves out what is marked `long`; a quicker test of the same promise stays in the same file."""

from __future__ import annotations

import ast

from tests.tidy.test_style import name_of, python_files

MARK = "pytest.mark.long"


def is_marked(function: ast.FunctionDef) -> bool:
    """As a whole: single parameters may be marked too, and leave it the others."""
    return any(ast.unparse(each).startswith(MARK) for each in function.decorator_list)


def test_each_file_with_long_tests_has_quick_ones() -> None:
    for path in python_files():
        if not path.name.startswith("test_") or MARK not in (text := path.read_text()):
            continue
        functions = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
        tests = [each for each in functions if each.name.startswith("test_")]
        assert not all(is_marked(each) for each in tests), f"{name_of(path)} has no quick test"
