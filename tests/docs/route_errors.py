"""Which errors a gateway's route can answer, found in the code: from the route's handler, along everything that it
calls, to each error that is made there and caught nowhere on the way. What a protocol's method says that it raises
counts too.

Types come from annotations, constructors and assignments. A call whose target they don't tell is left out, so an error
may be missing; none is listed that no path of the code leads to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from lakemq.contract.route import Route
from tests.docs.code_index import Class, Function, Index, Module
from tests.docs.documents import ROOT

PACKAGES = ("contract", "gateway", "model", "objects", "settings", "storage", "web")
BASE = "LakemqError"
RACES = {("SealedIndexes", "read"): frozenset({"PositionGone"})}
"""Errors left out: a segment that leaves the log between a look-up and its read."""
_EVERYTHING = {BASE, "Exception", "BaseException"}
Env = dict[str, object]


class Try(NamedTuple):
    """What a `try` does, which errors it catches for good, and what happens in all other places of it."""

    body: list[object]
    caught: frozenset[str]
    rest: list[object]


@dataclass(eq=False)
class Reached:
    """A function as what it may do: errors by their class's name, calls, and tries around both."""

    does: list[object] = field(default_factory=list[object])
    errors: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()


class RouteErrors:
    """Finds them."""

    def __init__(self) -> None:
        self._index = Index(ROOT / "lakemq", PACKAGES)
        self._reached: dict[int, Reached] = {}
        self._order: list[Reached] = []

    def of_routes(self) -> dict[Route, frozenset[str]]:
        """The codes of each route's errors."""
        roots = dict(self._roots())
        changed = True
        while changed:
            changed = False
            for each in self._order:
                errors = self._sum(each.does) - each.left_out
                changed, each.errors = changed or errors != each.errors, errors
        return {route: frozenset(self._code(name) for name in root.errors) for route, root in roots.items()}

    def _roots(self) -> Iterator[tuple[Route, Reached]]:
        for module in self._index.modules.values():
            for function in module.all_functions:
                for decorator in function.node.decorator_list:
                    if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "serves":
                        yield self._route(module, decorator.args[1]), self._reach(function)
        app = self._index.modules["lakemq.gateway.process.app"]
        function = app.functions["_handlers"]
        env = self._env(function)
        for node in ast.walk(function.node):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    assert key is not None
                    assert isinstance(self._type(value, env, app), Function), ast.unparse(value)
                    root = Reached(self._does(value, env, app))  # with what its object is given to call
                    self._order.append(root)
                    yield self._route(app, key), root

    def _route(self, module: Module, said: ast.expr) -> Route:
        found = self._index.value(module, said)
        assert isinstance(found, Route), ast.unparse(said)
        return found

    def _code(self, name: str) -> str:
        kind: Class | None = self._index.errors[name]
        while kind is not None:
            if kind.code:
                return kind.code
            kind = next((each for each in self._index.bases(kind)), None)
        return "internal"

    def _sum(self, does: list[object]) -> frozenset[str]:
        found: set[str] = set()
        for each in does:
            if isinstance(each, str):
                found.add(each)
            elif isinstance(each, Reached):
                found |= each.errors
            elif isinstance(each, Try):
                found |= {name for name in self._sum(each.body) if not self._is_caught(name, each.caught)}
                found |= self._sum(each.rest)
        return frozenset(found)

    def _is_caught(self, name: str, caught: frozenset[str]) -> bool:
        return bool(caught & (self._index.ancestors(name) | _EVERYTHING))

    def _reach(self, function: Function) -> Reached:
        if id(function) in self._reached:
            return self._reached[id(function)]
        kind = "" if function.owner is None else function.owner.name
        reached = self._reached[id(function)] = Reached(left_out=RACES.get((kind, function.node.name), frozenset()))
        self._order.append(reached)
        env = self._env(function)
        for each in function.node.body:
            reached.does += self._does(each, env, function.module)
        return reached

    def _does(self, node: ast.AST, env: Env, module: Module) -> list[object]:
        if isinstance(node, ast.Try):
            return [self._try(node, env, module)]
        does: list[object] = []
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            does += self._named(node, env, module)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                does += self._methods(self._type(item.context_expr, env, module), ("__enter__", "__aenter__"))
        for child in self._within(node, env, module):
            does += self._does(child, env, module)
        return does

    def _within(self, node: ast.AST, env: Env, module: Module) -> Iterator[ast.AST]:
        """The parts of it that count."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return  # what is defined within counts where it is named
        if isinstance(node, ast.AnnAssign):
            yield from [] if node.value is None else [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            return
        elif (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id.isupper()
        ):
            yield from node.args  # a look-up of a topic of lakemq's own, which is always there
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self._is_task(node.value, env, module):
            return
        else:
            yield from ast.iter_child_nodes(node)

    def _is_task(self, node: ast.Call, env: Env, module: Module) -> bool:
        """Whether it begins a task that nobody waits for."""
        found = self._type(node.func, env, module)
        if not isinstance(found, Function) or found.node.returns is None:
            return False
        return "Task[" in ast.unparse(found.node.returns)

    def _try(self, node: ast.Try, env: Env, module: Module) -> Try:
        body = [found for each in node.body for found in self._does(each, env, module)]
        rest = [found for each in (*node.orelse, *node.finalbody) for found in self._does(each, env, module)]
        caught: set[str] = set()
        for handler in node.handlers:
            again = any(_goes_on(each, handler.name) for each in ast.walk(handler))
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            if not again:
                caught |= {ast.unparse(each).rpartition(".")[2] if each else BASE for each in kinds}
            within = env | ({handler.name: None} if handler.name else {})
            rest += [found for each in handler.body for found in self._does(each, within, module)]
        return Try(body, frozenset(caught), rest)

    def _named(self, node: ast.Name | ast.Attribute | ast.Subscript, env: Env, module: Module) -> list[object]:
        if isinstance(node, ast.Subscript):
            return self._methods(self._type(node.value, env, module), ("__getitem__",))
        if isinstance(node, ast.Attribute):
            owner = self._type(node.value, env, module)
            found = self._index.member(owner, node.attr) if isinstance(owner, Class) else None
            if isinstance(owner, Class) and isinstance(found, Function):
                said = self._index.said_of(found) if owner.instance.is_protocol else []
                return [*said, *(self._reach(each) for each in self._index.implementations(owner, node.attr))]
        found = self._type(node, env, module)
        if isinstance(found, Function):
            return [self._reach(found)]
        if isinstance(found, ast.Dict) and isinstance(node, ast.Name):
            where = self._index.home(module, node.id)
            return [each for value in found.values for each in self._does(value, {}, where)]
        if isinstance(found, Class) and found.is_reference:
            if found.name in self._index.errors:
                return [found.name]
            return self._methods(found, ("__init__", "__post_init__", "__new__"))
        return []

    def _methods(self, owner: object, names: tuple[str, ...]) -> list[object]:
        if not isinstance(owner, Class):
            return []
        found = [self._index.member(owner, name) for name in names]
        return [self._reach(each) for each in found if isinstance(each, Function)]

    def _env(self, function: Function) -> Env:
        """The types of its parameters, and of what it assigns, with those of the function around it."""
        if function.env is not None:
            return function.env
        env: Env = dict(self._env(function.within)) if function.within is not None else {}
        function.env = env
        args = function.node.args
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            env[each.arg] = self._index.annotated(function.module, each.annotation)
        if function.owner is not None and args.args and not function.is_static:
            env[args.args[0].arg] = function.owner.reference if function.is_class_method else function.owner
        for inner in function.functions:
            env[inner.node.name] = inner
        for node in ast.walk(function.node):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(node.targets[0], node.value, env, function.module)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                env[node.target.id] = self._index.annotated(function.module, node.annotation)
            elif isinstance(node, ast.NamedExpr):
                env[node.target.id] = self._type(node.value, env, function.module)
            elif isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
                env[node.optional_vars.id] = self._type(node.context_expr, env, function.module)
        return env

    def _assign(self, target: ast.expr, value: ast.expr, env: Env, module: Module) -> None:
        if isinstance(target, ast.Name):
            found = self._type(value, env, module)
            if found is not None or target.id not in env:
                env[target.id] = found
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for each, of in zip(target.elts, value.elts, strict=True):
                self._assign(each, of, env, module)

    def _type(self, node: ast.expr, env: Env, module: Module) -> object:
        """A class, of which it is an instance or itself; a function; a module; None where that isn't known."""
        if isinstance(node, ast.Await | ast.NamedExpr):
            return self._type(node.value, env, module)
        if isinstance(node, ast.Name):
            found = env[node.id] if node.id in env else self._index.named(module, node.id)
            return self._type(found, {}, self._index.home(module, node.id)) if isinstance(found, ast.Call) else found
        if isinstance(node, ast.Attribute):
            return self._attribute(self._type(node.value, env, module), node.attr)
        if isinstance(node, ast.IfExp):
            return self._type(node.body, env, module) or self._type(node.orelse, env, module)
        if isinstance(node, ast.BoolOp):
            return next((found for each in node.values if (found := self._type(each, env, module))), None)
        if isinstance(node, ast.Call):
            return self._called(self._type(node.func, env, module))
        return None

    def _called(self, found: object) -> object:
        if isinstance(found, Class) and found.is_reference:
            return found.instance
        if isinstance(found, Function):
            return self._index.annotated(found.module, found.node.returns, found.owner)
        if isinstance(found, Class):
            return self._called(self._index.member(found, "__call__"))
        return None

    def _attribute(self, owner: object, name: str) -> object:
        if isinstance(owner, Module):
            return self._index.named(owner, name)
        if not isinstance(owner, Class):
            return None
        found = self._index.member(owner, name)
        if isinstance(found, Function):
            return self._called(found) if found.is_property else found
        if isinstance(found, ast.expr):
            return self._index.annotated(self._index.module_of_field(owner, name), found)
        kept = self._index.assigned(owner, name)
        if kept is not None:
            value, function, annotated = kept
            if annotated:
                return self._index.annotated(function.module, value)
            return self._type(value, self._env(function), function.module)
        return None


def _goes_on(node: ast.AST, error: str | None) -> bool:
    """Whether that lets a caught error go on: it is raised again, or kept to be raised later."""
    if isinstance(node, ast.Raise) and node.exc is None:
        return True
    kept: list[ast.expr | None] = []
    if isinstance(node, ast.Raise):
        kept = [node.exc]
    elif isinstance(node, ast.Assign | ast.Return):
        kept = [node.value]
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("append", "set_exception"):
        kept = list(node.args)
    return any(isinstance(each, ast.Name) and each.id == error for each in kept)


@lru_cache(maxsize=1)
def of_routes() -> dict[Route, frozenset[str]]:
    """The codes of each route's errors, of a gateway that leads."""
    return RouteErrors().of_routes()


if __name__ == "__main__":
    for route, codes in of_routes().items():
        print(route.method, route.path, *sorted(codes))  # noqa: T201
