"""A filter's text to a tree, by sqlglot: everything that the text may do wrong is found here.

sqlglot takes half a second and 40 MB to import, so that happens with the first filter. Its parser
calls itself for whatever is nested; what is nested deeper than it can go is refused before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from lakemq.gateway.filter.values import refuse
from lakemq.model.errors import InvalidFilter

if TYPE_CHECKING:
    from sqlglot import exp

CHARACTERS_MAX = 16 * 1024
NESTING_MAX = 24
_QUOTED_CHARACTERS_MAX = 40


def parse(text: str, dialect_name: str | None = "spark") -> exp.Expr:
    """The tree of the one expression in `text`, in one of sqlglot's dialects, or with None in what is
    common to most. Raises `InvalidFilter`."""
    check_text(text)
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, TokenError

    dialect = Dialect.get_or_raise(dialect_name)
    tokens: list[Any] = []
    try:
        tokens = dialect.tokenize(text)
        _check_tokens(tokens, text)
        tokens = _join_quotes(tokens, text)
        trees = dialect.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        _refuse_syntax(error, tokens)
    except TokenError:
        raise InvalidFilter("a quote or a comment in the filter has no end") from None
    except RecursionError:
        raise InvalidFilter("the filter is nested too deep") from None
    except InvalidFilter:
        raise
    except Exception as error:  # noqa: BLE001  a library's fault on odd text is still the text's
        raise InvalidFilter(f"the filter can't be understood ({type(error).__name__})") from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1:
        raise InvalidFilter("the filter must be one expression")
    return found[0]


def check_text(text: str) -> None:
    """Raise `InvalidFilter` for what can't be a filter by its characters alone."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidFilter(f"the filter has {len(text)} characters; at most {CHARACTERS_MAX} are allowed")
    if not text.strip():
        raise InvalidFilter("the filter is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        refuse("a character is half a surrogate pair", error.start + 1)


def _check_tokens(tokens: list[Any], text: str) -> None:
    """Only one statement, and nothing nested deeper than the parser can go."""
    depth = 0
    for number, token in enumerate(tokens):
        name = token.token_type.name
        if name == "SEMICOLON" and number + 1 < len(tokens):
            refuse("the filter must be one expression, but another begins", tokens[number + 1].start + 1)
        if name in ("L_PAREN", "L_BRACKET", "L_BRACE"):
            depth += 1
            if depth > NESTING_MAX:
                refuse(f"the filter is nested deeper than {NESTING_MAX} levels", token.start + 1)
        elif name in ("R_PAREN", "R_BRACKET", "R_BRACE"):
            depth -= 1
    if not tokens:
        raise InvalidFilter(f"the filter holds no expression: {shorten(text)!r}")


def _join_quotes(tokens: list[Any], text: str) -> list[Any]:
    """`'it''s'` is one string for Spark, and two for sqlglot."""
    joined: list[Any] = []
    for token in tokens:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.token_type.name == token.token_type.name == "STRING"
            and last.end + 1 == token.start
            and text[last.start] == text[token.start]
        ):
            inner = last.text + text[token.start] + token.text
            token = type(token)(token.token_type, inner, token.line, token.col, last.start, token.end, token.comments)
            joined.pop()
        joined.append(token)
    return joined


def _refuse_syntax(error: Any, tokens: list[Any]) -> NoReturn:
    """sqlglot names a token by its line and the column at which it ends."""
    fault = error.errors[0] if error.errors else {}
    for token in tokens:
        if (token.line, token.col) == (fault.get("line"), fault.get("col")):
            refuse(f"{shorten(token.text)!r} can't be understood here", token.start + 1)
    raise InvalidFilter("the filter can't be understood")


def shorten(text: str) -> str:
    """The text, or how it begins."""
    return text if len(text) <= _QUOTED_CHARACTERS_MAX else text[:_QUOTED_CHARACTERS_MAX] + "…"


def place_of(tree: exp.Expr) -> int:
    """At which character a part of the tree begins, as well as sqlglot remembers."""
    from sqlglot import exp

    part: Any = tree
    while isinstance(part, exp.Expr):
        if "start" in part.meta:
            return part.meta["start"] + 1
        part = part.this or next(iter(part.expressions), None)
    return 1
