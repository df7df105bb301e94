"""Which scenario parameters an adapter's source reads, without running or importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from openeta_exp.catalog.findings import Finding, invalid, ok, suspect, unknown
from openeta_exp.catalog.source import locate, parse
from openeta_exp.domain.identity import JsonObject
from openeta_exp.wire.explain import nearest

_CHECK = "static_key_scan"
_ENTRIES = {"reset": 0, "make_obs": 1, "start_episode": 0}
"""Methods that are given the task, and at which position after `self`."""
_HOST_KEYS = frozenset({"name", "suite", "episode_idx", "task_id"})
_HARMLESS = frozenset({"print", "repr", "str", "len", "id", "type", "isinstance", "bool"})


@dataclass(slots=True)
class KeyScan:
    """What the source does with the task.

    Attributes:
        read: Keys taken by index, with the line.
        optional: Keys taken with `.get`, `.pop` or `.setdefault`.
        own: Keys that `get_tasks` writes as literals.
        opaque: Why the scan may have missed something.
    """

    read: dict[str, int] = field(default_factory=dict)
    optional: dict[str, int] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)
    opaque: list[str] = field(default_factory=list)


def check_static(
    provider: str, declared: Sequence[str], search_path: Sequence[str]
) -> list[Finding]:
    """Compare the declared parameters with what the source reads."""
    scan = scan_adapter(provider, search_path)
    if scan is None:
        return [unknown(_CHECK, f"the source of {provider} cannot be read")]
    evidence: JsonObject = {
        "declared": list(declared),
        "read": dict(scan.read),
        "read_with_default": dict(scan.optional),
        "opaque": list(scan.opaque),
    }
    if scan.opaque:
        return [
            unknown(_CHECK, f"{provider} hands its task on whole: {scan.opaque[0]}", evidence),
            *_optional(scan, declared, evidence),
        ]
    found = [*_unread(scan, declared, evidence), *_optional(scan, declared, evidence)]
    return found or [ok(_CHECK, f"{provider} reads every declared parameter", evidence)]


def _unread(scan: KeyScan, declared: Sequence[str], evidence: JsonObject) -> Iterator[Finding]:
    asked = {**scan.optional, **scan.read}
    foreign = [key for key in asked if key not in declared and key not in scan.own | _HOST_KEYS]
    for name in declared:
        if name not in asked:
            hint = f"; it reads {foreign}, which are not declared" if foreign else ""
            guess = f"; {nearest(name, foreign)}" if foreign else ""
            yield invalid(
                _CHECK, f"scenario parameter {name} is never read by the adapter{hint}{guess}",
                evidence,
            )  # fmt: skip
    for key in foreign:
        if key in scan.read and all(name in asked for name in declared):
            yield suspect(
                _CHECK,
                f"the adapter reads {key} (line {scan.read[key]}), which no scenario declares; "
                f"{nearest(key, declared)}",
                evidence,
            )


def _optional(scan: KeyScan, declared: Sequence[str], evidence: JsonObject) -> Iterator[Finding]:
    for name in declared:
        if name in scan.optional and name not in scan.read:
            yield suspect(
                "default_hides_parameter",
                f"{name} is read with a default (line {scan.optional[name]}): a misspelt "
                f"parameter would pass unnoticed; index the task instead",
                evidence,
            )


def scan_adapter(provider: str, search_path: Sequence[str]) -> KeyScan | None:
    """Read the class's source; None if there is none."""
    import sys

    module, _, name = provider.partition(":")
    file = locate(module, (*search_path, *sys.path))
    tree = parse(file) if file else None
    if tree is None:
        return None
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in classes:
        return None
    scanner = _Scanner(functions, _methods(name, classes))
    if "reset" not in scanner.methods and "start_episode" not in scanner.methods:
        scanner.scan.opaque.append(f"{name} inherits its reset from another module")
    for method, position in _ENTRIES.items():
        if method in scanner.methods:
            scanner.enter(scanner.methods[method], position + 1)
    scanner.follow_attributes()
    _own_keys(scanner)
    return scanner.scan


def _methods(
    name: str, classes: dict[str, ast.ClassDef]
) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Methods of a class and of its bases in the same module; the nearest definition counts."""
    node = classes.get(name)
    if node is None:
        return {}
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id != name:
            found.update(_methods(base.id, classes))
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            found[each.name] = each
    return found


def _own_keys(scanner: _Scanner) -> None:
    method = scanner.methods.get("get_tasks")
    for node in ast.walk(method) if method else ():
        if isinstance(node, ast.Dict):
            scanner.scan.own |= {
                key.value
                for key in node.keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }


class _Scanner:
    """Follows the task through methods, helpers and attributes."""

    def __init__(
        self,
        functions: dict[str, ast.FunctionDef],
        methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef],
    ) -> None:
        self.scan = KeyScan()
        self.methods = methods
        self._functions = functions
        self._attributes: set[str] = {"_task"}
        self._entered: set[tuple[str, int]] = set()

    def enter(self, function: ast.FunctionDef | ast.AsyncFunctionDef, position: int) -> None:
        """Scan a function whose argument at `position` is the task."""
        arguments = [*function.args.posonlyargs, *function.args.args]
        if position >= len(arguments):
            self.scan.opaque.append(f"{function.name} takes the task in another way")
            return
        if (function.name, position) in self._entered:
            return
        self._entered.add((function.name, position))
        self._walk(function, {arguments[position].arg})

    def follow_attributes(self) -> None:
        """Scan what other methods do with a task kept on `self`."""
        for method in self.methods.values():
            self._walk(method, set())

    def _walk(self, function: ast.AST, names: set[str]) -> None:
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and self._is_task(node.value, names):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        names.add(target.id)
                    elif isinstance(target, ast.Attribute):
                        self._attributes.add(target.attr)
        handled: set[int] = set()
        for node in ast.walk(function):
            self._visit(node, names, handled)

    def _is_task(self, node: ast.AST, names: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name in names
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                return attribute in self._attributes
            case ast.Call(func=ast.Name(id="dict"), args=[only]):
                return self._is_task(only, names)
            case ast.Call(func=ast.Attribute(value=inner, attr="copy")):
                return self._is_task(inner, names)
        return False

    def _visit(self, node: ast.AST, names: set[str], handled: set[int]) -> None:
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if self._is_task(
                value, names
            ):
                self._note(key, self.scan.read, node.lineno)
            case ast.Call(
                func=ast.Attribute(value=value, attr="get" | "pop" | "setdefault"), args=[key, *_]
            ) if self._is_task(value, names):
                self._note(key, self.scan.optional, node.lineno)
            case ast.Call(
                func=ast.Attribute(value=value, attr="items" | "values" | "keys" | "update")
            ) if self._is_task(value, names):
                self.scan.opaque.append(f"line {node.lineno}: all keys are used at once")
            case ast.Call():
                self._follow_call(node, names)
            case ast.Dict(keys=keys, values=values):
                for name, content in zip(keys, values, strict=True):
                    # A key of None stands for `**content`.
                    if name is None and self._is_task(content, names):
                        self.scan.opaque.append(f"line {node.lineno}: the task is unpacked")
            case ast.For(iter=value) if self._is_task(value, names):
                self.scan.opaque.append(f"line {node.lineno}: the task is iterated over")

    def _note(self, key: ast.expr, into: dict[str, int], line: int) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            into.setdefault(key.value, line)
        else:
            self.scan.opaque.append(f"line {line}: the key is computed")

    def _follow_call(self, call: ast.Call, names: set[str]) -> None:
        for keyword in call.keywords:
            if self._is_task(keyword.value, names):
                self.scan.opaque.append(f"line {call.lineno}: the task is passed by keyword")
        for position, argument in enumerate(call.args):
            if not self._is_task(argument, names):
                continue
            match call.func:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in self.methods:
                    self.enter(self.methods[name], position + 1)
                case ast.Name(id=name) if name in self._functions:
                    self.enter(self._functions[name], position)
                case ast.Name(id=name) if name in _HARMLESS or name == "dict":
                    continue
                case ast.Attribute(attr="debug" | "info" | "warning" | "error"):
                    continue
                case _:
                    self.scan.opaque.append(f"line {call.lineno}: the task goes to other code")
