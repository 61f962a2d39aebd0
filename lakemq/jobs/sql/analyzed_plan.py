"""A statement as Spark's analyzer has it: each name has become what it stands for. So here it is seen that rows come
from the views which were made for the statement, and from nowhere else."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from lakemq.jobs.errors import NotServed
from lakemq.jobs.sql import allowed
from lakemq.jobs.sql.parsed_plan import class_of, place_in

NODES_MAX = 20_000
DIGITS_MAX = 100
"""Of text that becomes a DECIMAL."""
_VIEW = "org.apache.spark.sql.catalyst.plans.logical.View"
_SUBQUERIES = (".ListQuery", ".Exists", ".ScalarSubquery")


class AnalyzedWalk:
    """Over one plan. `views`: names of the temporary views that were made for it."""

    def __init__(self, views: Set[str]) -> None:
        self._views = views
        self._nodes = 0

    def check(self, plan: Any) -> None:
        """Raises `NotServed` for the first thing in it that isn't served."""
        self._count(plan)
        name = class_of(plan)
        if name == _VIEW:
            self._check_view(plan)
            return  # what is within is ours
        if name not in allowed.ANALYZED_PLANS:
            raise _refused(plan, name)
        for each in _each(plan.expressions()):
            self.check_expression(each)
        for each in _each(plan.children()):
            self.check(each)

    def check_expression(self, node: Any) -> None:
        """The same for an expression of a plan."""
        self._count(node)
        name = class_of(node)
        if name not in allowed.ANALYZED_EXPRESSIONS:
            raise _refused(node, name)
        if name.endswith(".Cast"):
            _check_cast(node)
        for each in _each(node.children()):
            self.check_expression(each)
        if name.endswith(_SUBQUERIES):
            self.check(node.plan())

    def _check_view(self, plan: Any) -> None:
        found = plan.desc().identifier()
        if not plan.isTempView() or found.database().isDefined() or str(found.table()) not in self._views:
            raise NotServed(f"{str(found.table())[:100]!r} isn't served by POST /v1/sql")

    def _count(self, node: Any) -> None:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise NotServed("the statement is too large: make it simpler", *place_in(node))


def _check_cast(node: Any) -> None:
    """Java makes a DECIMAL of text in a time that grows with the square of its length: of megabytes, for hours."""
    if str(node.dataType().typeName()).startswith("decimal") and str(node.child().dataType().typeName()) == "string":
        text = class_of(node.child())
        if not (text.endswith((".Left", ".Literal")) and _length_of(node.child(), text) <= DIGITS_MAX):
            how = f"CAST(left(text, {DIGITS_MAX}) AS DECIMAL)"
            raise NotServed(f"text becomes a DECIMAL only where it is short: {how}", *place_in(node))


def _length_of(node: Any, name: str) -> int:
    if name.endswith(".Literal"):
        return len(str(node.value()))
    length = node.productElement(1)
    is_literal = class_of(length).endswith(".Literal") and str(length.value()).isdecimal()
    return int(str(length.value())) if is_literal else DIGITS_MAX + 1


def _each(sequence: Any) -> list[Any]:
    iterator, found = sequence.iterator(), list[Any]()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _refused(node: Any, name: str) -> NotServed:
    return NotServed(f"{name.rpartition('.')[2].strip('$')[:100]} isn't served by POST /v1/sql", *place_in(node))
