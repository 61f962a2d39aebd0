"""A statement as Spark's parser has it, before anything is looked up: every object in it is walked over, and refused
unless it is listed (`allowed.py`). How much the statement can make of what it reads is bounded on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakemq.jobs.errors import NotServed
from lakemq.jobs.sql import allowed
from lakemq.jobs.sql.allowed import Function

NODES_MAX = 1_500
DEPTH_MAX = 120
LEAVES_MAX = 32
"""So many tables a statement reads, a name of WITH counted as often as it is used: Spark plans each anew."""
GROWTH_MAX = 32
"""So many times as large as what it is made of a value may be."""
MULTIPLIED_MAX = 1
"""Spark looks whether a task is to end when it reads the next row, not while one row becomes many: after two joins, or
two arrays that are taken apart, that may be never."""
USES_MAX = 1_000
"""So many columns of tables an expression has at most, once all that it names is put in the place of the names. Spark's
optimizer does so, and `SELECT c + c AS c` within such ones has twice as many a level: nothing ends an optimizer."""
STAR_USES = 100
"""`greatest(*)` has as many columns as there are: that isn't known yet."""
LITERAL_CHARACTERS_MAX = 256
FRAME_ROWS_MAX = 100
PIVOT_COLUMNS_MAX = 100
"""So many columns PIVOT makes at most: of each value one for each aggregate."""
PIVOT_USES = 17
"""An aggregate has 16 arguments at most, and Spark may put a test of the column that is turned around each."""

_BRIEF = "org.apache.spark.sql.catalyst."
_PLAIN = (str, int, float, bool, bytes, bytearray, type(None))
_TYPES = "org.apache.spark.sql.types."


class Relation(NamedTuple):
    """A table that is named: its name's parts, and where in the text that stands, both ends included."""

    parts: tuple[str, ...]
    start: int
    stop: int
    has_alias: bool


class Cost(NamedTuple):
    """`leaves`: tables that are read. `growth`: of values against the columns that they are made of, and `below`: of
    these columns, as a plan below makes them. `multiplied`: how often rows are multiplied on the way of one;
    `exploded`: how often by expressions that aren't part of a plan yet. `uses`: columns of the plan below in one
    expression; `used`: columns of tables in a column of that plan."""

    leaves: int = 0
    growth: int = 1
    below: int = 1
    multiplied: int = 0
    exploded: int = 0
    uses: int = 0
    used: int = 0

    def beside(self, other: Cost, *, within_one: bool = False) -> Cost:
        """Of two that stand beside each other. `within_one`: in one expression."""
        return Cost(
            self.leaves + other.leaves,
            max(self.growth, other.growth),
            max(self.below, other.below),
            max(self.multiplied, other.multiplied),
            self.exploded + other.exploded,
            self.uses + other.uses if within_one else max(self.uses, other.uses),
            max(self.used, other.used),
        )


class Place(NamedTuple):
    """Where the walk is."""

    depth: int = 0
    in_lambda: bool = False
    has_alias: bool = False
    in_expression: bool = False

    def below(self) -> Place:
        """One node further down."""
        return Place(self.depth + 1, self.in_lambda, in_expression=self.in_expression)


@dataclass
class Walk:
    """Over one plan, or one expression. `functions`, `plans`: those that may be in it."""

    functions: Mapping[str, Function] = field(default_factory=lambda: allowed.FUNCTIONS)
    plans: Set[str] = allowed.PARSED_PLANS
    relations: list[Relation] = field(default_factory=list[Relation])
    _ctes: dict[str, Cost] = field(default_factory=dict[str, Cost])
    _aliases: dict[str, int] = field(default_factory=dict[str, int])
    _nodes: int = 0

    def check(self, node: Any) -> Cost:
        """Raises `NotServed` for the first thing in it that isn't served."""
        return self._node(node, Place())

    def _node(self, node: Any, place: Place) -> Cost:
        self._nodes += 1
        if self._nodes > NODES_MAX or place.depth > DEPTH_MAX:
            raise _refused(node, "the statement is too large or too deep: make it simpler")
        name = class_of(node)
        if name not in self.plans and name not in allowed.PARSED_EXPRESSIONS:
            raise _refused(node, f"{_shown(name)} isn't served by POST /v1/sql")
        if place.in_lambda and name not in allowed.IN_LAMBDA_EXPRESSIONS:
            raise _refused(node, f"{_shown(name)} isn't served within a condition on an array's elements")
        special = _SPECIAL.get(name)
        # Of a plan, columns are made of the columns below it; of a subquery's, values in an expression.
        is_plan = name in allowed.PARSED_PLANS
        if name.endswith(_STARS):
            cost = Cost(uses=STAR_USES if place.in_expression else 1).beside(self._product(node, place))
        else:
            outer, self._aliases = self._aliases, {} if is_plan else self._aliases
            place = place._replace(in_expression=not is_plan)
            cost = self._product(node, place) if special is None else special(self, node, place)
            self._aliases = outer
        growth = cost.growth * cost.below if is_plan else max(cost.growth, cost.below)
        uses = max(cost.uses, 1) * max(cost.used, 1) if is_plan else cost.uses + cost.used
        if is_plan:
            used = uses if name.endswith(_MAKERS) else max(cost.used, 1)
            cost = Cost(cost.leaves, 1, growth, cost.multiplied + cost.exploded, used=used)
        else:
            cost = cost._replace(growth=growth, below=1, uses=uses, used=0)
        if uses > USES_MAX:
            raise _refused(
                node, "the statement is too complex: its columns are made of too many others, level by level"
            )
        if cost.leaves > LEAVES_MAX:
            raise _refused(node, f"a statement reads {LEAVES_MAX} tables at most, each counted as often as it is used")
        if cost.multiplied > MULTIPLIED_MAX:
            raise _refused(
                node,
                "a row goes through one join or explode here, not several: what multiplies rows often can't be ended",
            )
        if growth > GROWTH_MAX:
            raise _refused(node, f"a value could become more than {GROWTH_MAX} times as large as what it is made of")
        return cost

    def _product(self, node: Any, place: Place) -> Cost:
        cost = Cost()
        for at in range(node.productArity()):
            cost = cost.beside(self._value(node.productElement(at), node, place), within_one=place.in_expression)
        return cost

    def _value(self, value: Any, within: Any, place: Place) -> Cost:
        if isinstance(value, _PLAIN):
            return Cost()
        name = class_of(value)
        if name.startswith(_TYPES) or name in allowed.PARSED_VALUES or name == "scala.None$":
            return Cost()
        if name.startswith(("scala.collection.", "scala.Some", "scala.Tuple")):
            self._nodes += 1
            if self._nodes > NODES_MAX:
                raise _refused(within, "the statement is too large: make it simpler")
            cost = Cost()
            for each in _items(value):
                cost = cost.beside(self._value(each, within, place), within_one=place.in_expression)
            return cost
        if name.startswith(_BRIEF):
            return self._node(value, place.below())
        raise _refused(within, f"{_shown(name)} isn't served by POST /v1/sql")

    # What is looked at more closely ------------------------------------------------------------

    def _named(self, node: Any, place: Place) -> Cost:
        """A column that has a name, by which those after it in its list may take it."""
        cost = self._product(node, place)
        self._aliases[str(node.name()).casefold()] = cost.uses + cost.used
        return cost

    def _attribute(self, node: Any, place: Place) -> Cost:
        parts = [str(each).casefold() for each in _items(node.nameParts())]
        return Cost(uses=max(self._aliases.get(parts[0], 1), 1))

    def _relation(self, node: Any, place: Place) -> Cost:
        parts = tuple(str(each) for each in _items(node.multipartIdentifier()))
        if node.isStreaming() or not node.options().isEmpty():
            raise _refused(node, "a table is read as it is: without options, and not as a stream")
        if len(parts) == 1 and (known := self._ctes.get(parts[0].casefold())) is not None:
            return known
        origin = node.origin()
        start, stop = origin.startIndex(), origin.stopIndex()
        if not start.isDefined() or not stop.isDefined():
            raise _refused(node, "the place of a table's name isn't known")
        self.relations.append(Relation(parts, start.get(), stop.get(), place.has_alias))
        return Cost(leaves=1)

    def _alias(self, node: Any, place: Place) -> Cost:
        child = node.productElement(1)
        return self._node(child, place.below()._replace(has_alias=True))

    def _join(self, node: Any, place: Place) -> Cost:
        sides = [self._node(node.productElement(at), place.below()) for at in (0, 1)]
        cost = self._value(node.productElement(3), node, place)  # its condition
        multiplied = sum(each.multiplied for each in sides)
        kind = node.productElement(2)
        if class_of(kind) not in allowed.PARSED_VALUES:
            raise _refused(node, f"{_shown(class_of(kind))} isn't served by POST /v1/sql")
        if not class_of(kind).endswith(("LeftSemi$", "LeftAnti$")):
            multiplied += 1
        cost = sides[0].beside(sides[1]).beside(cost)
        return cost._replace(multiplied=max(multiplied, cost.multiplied))

    def _explode(self, node: Any, place: Place) -> Cost:
        cost = self._product(node, place)
        return cost._replace(multiplied=cost.multiplied + 1)

    def _pivot(self, node: Any, place: Place) -> Cost:
        """As a GROUP BY with an aggregate for each value: `agg(CASE WHEN column <=> value THEN argument END)`."""
        if not class_of(node.productElement(1)).endswith(".UnresolvedAttribute"):
            raise _refused(node, "PIVOT is FOR one column here: SELECT what it is made of in a subquery before it")
        values, aggregates = (list(_items(node.productElement(at))) for at in (2, 3))
        if len(values) * len(aggregates) > PIVOT_COLUMNS_MAX:
            raise _refused(node, f"PIVOT makes {PIVOT_COLUMNS_MAX} columns at most here")
        for each in values:
            is_named = class_of(each).endswith("Alias")
            _check_literal(each.productElement(0) if is_named else each, "a value of PIVOT")
        cost = self._product(node, place)
        return cost._replace(uses=PIVOT_USES * (cost.uses + 1))

    def _column_aliases(self, node: Any, place: Place) -> Cost:
        return self._node(node.productElement(1), place.below()._replace(has_alias=place.has_alias))

    def _with(self, node: Any, place: Place) -> Cost:
        if node.productElement(2):
            raise _refused(node, "WITH RECURSIVE isn't served by POST /v1/sql")
        cost, named = Cost(), list[str]()
        for each in _items(node.productElement(1)):
            name, plan = str(each.productElement(0)).casefold(), each.productElement(1)
            if name in self._ctes:
                raise _refused(node, f"WITH names {name!r} twice")
            made = self._node(plan, place.below())
            self._ctes[name] = made
            named.append(name)
        cost = cost.beside(self._node(node.productElement(0), place.below()))
        for name in named:  # outside of it they are names of tables again
            del self._ctes[name]
        return cost

    def _function(self, node: Any, place: Place) -> Cost:
        parts = [str(each) for each in _items(node.nameParts())]
        name = parts[0].lower()
        known = self.functions.get(name) if len(parts) == 1 else None
        if known is None:
            raise _refused(node, f"function {'.'.join(parts)[:100]!r} isn't served here")
        if place.in_lambda and name not in allowed.IN_LAMBDA:
            raise _refused(node, f"function {name!r} isn't served within a condition on an array's elements")
        if node.isInternal() or not node.orderingWithinGroup().isEmpty():
            raise _refused(node, "WITHIN GROUP isn't served by POST /v1/sql")
        arguments = list(_items(node.arguments()))
        if len(arguments) > known.arguments_max:
            raise _refused(node, f"function {name!r} takes {known.arguments_max} arguments at most here")
        for at in known.literals:
            if at < len(arguments):
                _check_literal(arguments[at], f"argument {at + 1} of {name!r}")
        cost = self._product(node, place)
        if name in allowed.GENERATORS:
            cost = cost._replace(exploded=cost.exploded + 1)
        growth = cost.growth * (known.growth or max(len(arguments), 1))
        return cost._replace(
            growth=growth, uses=max(cost.uses, 1) * repeats if (repeats := _REPEATS.get(name)) else cost.uses
        )

    def _generator(self, node: Any, place: Place) -> Cost:
        called = node.productElement(0)
        if called.database().isDefined() or str(called.funcName()).lower() not in allowed.GENERATORS:
            raise _refused(node, f"function {str(called.funcName())[:100]!r} isn't served here")
        return self._product(node, place)

    def _lambda(self, node: Any, place: Place) -> Cost:
        if place.in_lambda:
            raise _refused(node, "a condition on an array's elements has none on others within it")
        return self._product(node, place._replace(in_lambda=True))

    def _sum(self, node: Any, place: Place) -> Cost:
        cost = self._product(node, place)
        return cost._replace(growth=cost.growth * max(node.children().length(), 1))

    def _like(self, node: Any, place: Place) -> Cost:
        pattern = node.productElement(1)
        text = _check_literal(pattern, "the pattern of LIKE")
        inner = text.strip("%")
        within = inner.count("%") + inner.count("_")
        if "\\" in text or (within and (text != inner or within > 1)):
            raise _refused(
                node,
                (
                    "a pattern of LIKE may have % at its ends, or one % or _ in between, and no "
                    "\\: others could take forever"
                ),
            )
        return self._product(node, place)

    def _located(self, node: Any, place: Place) -> Cost:
        _check_literal(node.productElement(0), "what position() looks for")
        return self._product(node, place)

    def _trimmed(self, node: Any, place: Place) -> Cost:
        what = node.productElement(1)
        if what.isDefined():
            _check_literal(what.get(), "what trim() takes away")
        return self._product(node, place)

    def _frame(self, node: Any, place: Place) -> Cost:
        for at in (1, 2):
            bound = node.productElement(at)
            if class_of(bound).endswith("$"):
                continue
            number = bound.productElement(0) if class_of(bound).endswith(".UnaryMinus") else bound
            value = number.value() if class_of(number).endswith(".Literal") else None
            is_rows = class_of(node.productElement(0)).endswith(".RowFrame$")
            if not is_rows or not isinstance(value, int) or abs(value) > FRAME_ROWS_MAX:
                raise _refused(
                    node, f"a window's frame is of all rows before or after, or of {FRAME_ROWS_MAX} ROWS at most"
                )
        return self._product(node, place)

    def _literal(self, node: Any, place: Place) -> Cost:
        return Cost()


def class_of(value: Any) -> str:
    """The name of a Java object's class."""
    return str(value.getClass().getName()) if hasattr(value, "getClass") else type(value).__name__


def place_in(node: Any) -> tuple[int | None, int | None]:
    """Line and column of a node of a plan, both from 1; None: it stands nowhere."""
    try:
        origin = node.origin()
        line, column = origin.line(), origin.startPosition()
    except (AttributeError, TypeError):
        return None, None
    return (line.get(), column.get() + 1) if line.isDefined() and column.isDefined() else (None, None)


def _items(value: Any) -> Iterator[Any]:
    name = class_of(value)
    if name.startswith("scala.Tuple"):
        for at in range(value.productArity()):
            yield value.productElement(at)
        return
    iterator = value.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _check_literal(node: Any, what: str) -> str:
    if not class_of(node).endswith(".expressions.Literal"):
        raise _refused(node, f"{what} is a literal here")
    value = node.value()
    text = "" if value is None else str(value)
    is_long = (
        len(value) > 4 * LITERAL_CHARACTERS_MAX if isinstance(value, bytes) else len(text) > LITERAL_CHARACTERS_MAX
    )
    if is_long:  # four bytes are a character's most
        raise _refused(node, f"{what} has {LITERAL_CHARACTERS_MAX} characters at most")
    return text


def _refused(node: Any, why: str) -> NotServed:
    return NotServed(why, *place_in(node))


def _shown(name: str) -> str:
    return name.rpartition(".")[2].strip("$")[:100]


_MAKERS = (".Project", ".Aggregate", ".Pivot", ".Generate", ".WithWindowDefinition")
"""Plans that make columns of others; those that all others have are the ones below."""
_STARS = (".UnresolvedStar", ".UnresolvedStarExceptOrReplace")
_REPEATS = {
    **dict.fromkeys(("between", "nullif"), 2),
    **dict.fromkeys(("is_system", "body_text", "body_json", "position_of", "broker_of", "half_of", "has_tag"), 4),
}
"""Functions that Spark replaces by expressions which name an argument so many times, or fewer."""

_Special = Callable[[Walk, Any, Place], Cost]
_OWN: dict[str, _Special] = {
    "analysis.UnresolvedRelation": Walk._relation,  # pyright: ignore[reportPrivateUsage]
    "plans.logical.SubqueryAlias": Walk._alias,  # pyright: ignore[reportPrivateUsage]
    "analysis.UnresolvedSubqueryColumnAliases": Walk._column_aliases,  # pyright: ignore[reportPrivateUsage]
    "plans.logical.Join": Walk._join,  # pyright: ignore[reportPrivateUsage]
    "expressions.Alias": Walk._named,  # pyright: ignore[reportPrivateUsage]
    "analysis.UnresolvedAttribute": Walk._attribute,  # pyright: ignore[reportPrivateUsage]
    "plans.logical.Pivot": Walk._pivot,  # pyright: ignore[reportPrivateUsage]
    "plans.logical.Generate": Walk._explode,  # pyright: ignore[reportPrivateUsage]
    "plans.logical.UnresolvedWith": Walk._with,  # pyright: ignore[reportPrivateUsage]
    "analysis.UnresolvedFunction": Walk._function,  # pyright: ignore[reportPrivateUsage]
    "analysis.UnresolvedGenerator": Walk._generator,  # pyright: ignore[reportPrivateUsage]
    "expressions.LambdaFunction": Walk._lambda,  # pyright: ignore[reportPrivateUsage]
    "expressions.Concat": Walk._sum,  # pyright: ignore[reportPrivateUsage]
    "expressions.CreateNamedStruct": Walk._sum,  # pyright: ignore[reportPrivateUsage]
    "expressions.Like": Walk._like,  # pyright: ignore[reportPrivateUsage]
    "expressions.ILike": Walk._like,  # pyright: ignore[reportPrivateUsage]
    "expressions.StringLocate": Walk._located,  # pyright: ignore[reportPrivateUsage]
    "expressions.StringTrim": Walk._trimmed,  # pyright: ignore[reportPrivateUsage]
    "expressions.StringTrimLeft": Walk._trimmed,  # pyright: ignore[reportPrivateUsage]
    "expressions.StringTrimRight": Walk._trimmed,  # pyright: ignore[reportPrivateUsage]
    "expressions.SpecifiedWindowFrame": Walk._frame,  # pyright: ignore[reportPrivateUsage]
    "expressions.Literal": Walk._literal,  # pyright: ignore[reportPrivateUsage]
}
_SPECIAL: dict[str, _Special] = {f"{_BRIEF}{name}": special for name, special in _OWN.items()}
