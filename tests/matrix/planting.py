"""Plant a fault in drcrm while it runs: replace a text of a function, as ``benchmarks/protection.py`` does in a copy.

The new code object replaces that of the function, so every module that has imported the function has the fault.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"


def plant(monkeypatch: Any, text: str, faulty: str) -> None:
    """Replace a text that occurs once in the source by a faulty one, in the function or method around it."""
    places = [path for path in SOURCE.rglob("*.py") if text in path.read_text(encoding="utf-8")]
    assert len(places) == 1, f"expected one file of src with {text!r}, found {places}"
    [path] = places
    source = path.read_text(encoding="utf-8")
    assert source.count(text) == 1, f"{text!r} occurs {source.count(text)} times in {path}"
    names = _enclosing_names(ast.parse(source), source[: source.index(text)].count("\n") + 1)
    module = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    function = _function(module, names)
    lines = inspect.getsource(function)
    changed = lines.replace(text, faulty)
    assert changed != lines, f"{text!r} spans more than the function {names}"
    compiled = compile(textwrap.dedent(changed), str(path), "exec", flags=module_flags(module), dont_inherit=True)
    monkeypatch.setattr(function, "__code__", _code_named(compiled, function.__name__))


def module_flags(module: Any) -> int:
    """Return the compiler's flags of ``from __future__ import annotations`` if the module has it."""
    return getattr(module, "annotations").compiler_flag if hasattr(module, "annotations") else 0  # noqa: B009


def _enclosing_names(tree: ast.AST, line: int) -> list[str]:
    """Return the names of the class and the function around a line, without functions inside functions."""
    names: list[str] = []
    nodes = [
        node for node in ast.iter_child_nodes(tree) if getattr(node, "lineno", line + 1) <= line <= node.end_lineno
    ]
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            names += [node.name, *_enclosing_names(node, line)]
        elif isinstance(node, ast.FunctionDef):
            names.append(node.name)
    return names


def _function(module: Any, names: list[str]) -> FunctionType:
    value = module
    for name in names:
        value = inspect.getattr_static(value, name)
    for wrapper in ("__func__", "fget", "func"):  # of class methods, properties and cached properties
        value = getattr(value, wrapper, None) or value
    return inspect.unwrap(value)


def _code_named(code: CodeType, name: str) -> CodeType:
    [found] = [constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name == name]
    return found
