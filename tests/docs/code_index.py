"""Modules, classes and functions of the package, as their source says them: what `route_errors` looks through."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_TRANSPARENT = {"Annotated", "Final", "Optional", "Awaitable", "Coroutine", "Generator", "AsyncGenerator", "Iterator"}
_OF_LAST = {"Coroutine"}


@dataclass(eq=False)
class Function:
    """A function; `owner`: the class that it is a method of, `within`: the function that it is defined in."""

    node: FunctionNode
    module: Module
    owner: Class | None = None
    within: Function | None = None
    functions: list[Function] = field(default_factory=list["Function"])
    env: dict[str, object] | None = None

    def _is(self, *names: str) -> bool:
        return any(ast.unparse(each).rpartition(".")[2] in names for each in self.node.decorator_list)

    @property
    def is_property(self) -> bool:
        return self._is("property", "cached_property")

    @property
    def is_static(self) -> bool:
        return self._is("staticmethod")

    @property
    def is_class_method(self) -> bool:
        return self._is("classmethod")


@dataclass(eq=False)
class Class:
    """A class: an instance of it, or the class itself (`is_reference`)."""

    name: str
    node: ast.ClassDef
    module: Module
    methods: dict[str, Function] = field(default_factory=dict[str, Function])
    fields: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    code: str = ""
    is_reference: bool = False
    reference: Class = field(init=False)
    instance: Class = field(init=False)

    @property
    def is_protocol(self) -> bool:
        return any(ast.unparse(base).rpartition(".")[2] in ("Protocol", "ABC") for base in self.node.bases)

    def __post_init__(self) -> None:
        self.instance = self.reference = self


@dataclass(eq=False)
class Module:
    """A module."""

    name: str
    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    classes: dict[str, Class] = field(default_factory=dict[str, Class])
    values: dict[str, ast.Dict | ast.Call] = field(default_factory=dict[str, "ast.Dict | ast.Call"])
    imports: dict[str, tuple[str, str]] = field(default_factory=dict[str, "tuple[str, str]"])
    all_functions: list[Function] = field(default_factory=list[Function])


class Index:
    """All of some packages."""

    def __init__(self, folder: Path, packages: tuple[str, ...]) -> None:
        self.modules: dict[str, Module] = {}
        for package in packages:
            for path in sorted((folder / package).rglob("*.py")):
                name = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
                self.modules[name] = _module(name, ast.parse(path.read_text("utf-8")))
        self.classes = [each for module in self.modules.values() for each in module.classes.values()]
        self.errors = {each.name: each for each in self.classes if "LakemqError" in self._names_above(each)}

    def _names_above(self, kind: Class) -> set[str]:
        found = {kind.name}
        for base in self.bases(kind):
            found |= self._names_above(base)
        return found

    def ancestors(self, error: str) -> set[str]:
        """The names of an error's class and of those above it."""
        return self._names_above(self.errors[error])

    def bases(self, kind: Class) -> list[Class]:
        """The classes that it is directly derived from."""
        found = [self.annotated(kind.module, each) for each in kind.node.bases]
        return [each for each in found if isinstance(each, Class)]

    def named(self, module: Module, name: str) -> object:
        """What a name stands for in a module: a class itself, a function, a module, what makes a constant."""
        if name in module.functions:
            return module.functions[name]
        if name in module.classes:
            return module.classes[name].reference
        if name in module.values:
            return module.values[name]
        if name in module.imports:
            where, what = module.imports[name]
            inner = self.modules.get(f"{where}.{what}" if what else where)
            if inner is not None:
                return inner
            outer = self.modules.get(where)
            return self.named(outer, what) if outer is not None and what else None
        return None

    def home(self, module: Module, name: str) -> Module:
        """The module that defines what is called so in another one."""
        where = self.modules.get(module.imports.get(name, ("", ""))[0])
        return module if where is None else self.home(where, module.imports[name][1])

    def value(self, module: Module, said: ast.expr) -> Any:
        """The value that an expression of names has, as the module sees it when it runs."""
        return eval(ast.unparse(said), vars(importlib.import_module(module.name)))

    def annotated(self, module: Module, said: ast.expr | None, owner: Class | None = None) -> Class | None:
        """The class that an annotation names; of several the first."""
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            said = ast.parse(said.value, mode="eval").body
        if isinstance(said, ast.BinOp):
            return self.annotated(module, said.left, owner) or self.annotated(module, said.right, owner)
        if isinstance(said, ast.Subscript):
            name = ast.unparse(said.value).rpartition(".")[2]
            if name in _TRANSPARENT:
                inner = said.slice.elts if isinstance(said.slice, ast.Tuple) else [said.slice]
                return self.annotated(module, inner[-1] if name in _OF_LAST else inner[0], owner)
            said = said.value
        if isinstance(said, ast.Name):
            if said.id == "Self":
                return owner
            found = self.named(module, said.id)
            return found.instance if isinstance(found, Class) else None
        if isinstance(said, ast.Attribute):
            inner = self.named(module, ast.unparse(said.value))
            found = self.named(inner, said.attr) if isinstance(inner, Module) else None
            return found.instance if isinstance(found, Class) else None
        return None

    def member(self, owner: Class, name: str) -> Function | ast.expr | None:
        """A method, or a field's annotation, of a class or one that it is derived from."""
        if name in owner.instance.methods:
            return owner.instance.methods[name]
        if name in owner.instance.fields:
            return owner.instance.fields[name]
        return next((found for base in self.bases(owner.instance) if (found := self.member(base, name))), None)

    def module_of_field(self, owner: Class, name: str) -> Module:
        """The module in which a field is annotated."""
        if name in owner.instance.fields:
            return owner.instance.module
        return next(
            (self.module_of_field(base, name) for base in self.bases(owner.instance) if self.member(base, name)),
            owner.instance.module,
        )

    def assigned(self, owner: Class, name: str) -> tuple[ast.expr, Function, bool] | None:
        """What a method of a class assigns to an attribute, or how it annotates it (True), and that method."""
        for method in owner.instance.methods.values():
            this = method.node.args.args[0].arg if method.node.args.args else ""
            for node in ast.walk(method.node):
                targets = node.targets if isinstance(node, ast.Assign) else []
                for target in targets:
                    assert isinstance(node, ast.Assign)
                    for each, value in _pairs(target, node.value):
                        if isinstance(each, ast.Attribute) and ast.unparse(each) == f"{this}.{name}":
                            return value, method, False
                if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == f"{this}.{name}":
                    return node.annotation, method, True
        return next((found for base in self.bases(owner.instance) if (found := self.assigned(base, name))), None)

    def said_of(self, function: Function) -> list[str]:
        """The errors that the docstring of a method says it raises."""
        said = (ast.get_docstring(function.node) or "").partition("Raises")[2]
        return [name for name in re.findall(r"`(\w+)`", said) if name in self.errors]

    def implementations(self, owner: Class, name: str) -> Iterator[Function]:
        """The method, and of a protocol those of all classes that have its methods."""
        found = self.member(owner, name)
        if isinstance(found, Function):
            yield found
        if owner.instance.is_protocol:
            wanted = set(owner.instance.methods)
            for each in self.classes:
                if each is not owner.instance and wanted <= set(each.methods):
                    yield each.methods[name]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, of in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, of)
    else:
        yield target, value


def _module(name: str, tree: ast.Module) -> Module:
    module = Module(name, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                module.imports[each.asname or each.name] = node.module, each.name
        elif isinstance(node, ast.Import):
            for each in node.names:
                module.imports[each.asname or each.name] = each.name, ""
    for node in tree.body:
        if isinstance(node, FunctionNode):
            module.functions[node.name] = _function(node, module)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = _class(node, module)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.Call):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            module.values[ast.unparse(target)] = node.value
    return module


def _class(node: ast.ClassDef, module: Module) -> Class:
    kind = Class(node.name, node, module)
    reference = Class(node.name, node, module, kind.methods, kind.fields, is_reference=True)
    kind.reference, reference.instance = reference, kind
    for each in node.body:
        if isinstance(each, FunctionNode):
            kind.methods[each.name] = _function(each, module, kind)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            kind.fields[each.target.id] = each.annotation
        elif isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "code":
            kind.code = ast.literal_eval(each.value) if isinstance(each.value, ast.Constant) else ""
    return kind


def _function(
    node: FunctionNode, module: Module, owner: Class | None = None, within: Function | None = None
) -> Function:
    function = Function(node, module, owner, within)
    module.all_functions.append(function)
    for each in _own_functions(node):
        function.functions.append(_function(each, module, within=function))
    return function


def _own_functions(node: ast.AST) -> Iterator[FunctionNode]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            yield child
        elif not isinstance(child, ast.ClassDef | ast.Lambda):
            yield from _own_functions(child)
