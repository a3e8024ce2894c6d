"""What code a step runs: its module and, through their imports, the others of the package that it uses."""

import ast
from collections.abc import Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path
from symtable import symtable

PACKAGE = Path(__file__).parents[1]
STEPS = "experiments.steps"


def source_files(step: str, package: Path = PACKAGE, steps: str = STEPS) -> list[Path]:
    """The files of a package that a step runs, sorted; ``steps`` says where in it the steps are.

    Every import counts, those in functions and for type checkers too; those by ``import_module`` are not seen. The
    ``__init__.py`` of packages on the way count as well, but the outermost only where a name of its own is imported.
    ImportError says where an import leads to no file of the package: a change there would go unnoticed.
    """
    modules = _modules(package)
    return _reached(_executed(f"{package.name}.{steps}.{step}", None, modules), modules)


def script_files(*scripts: Path, package: Path = PACKAGE) -> list[Path]:
    """The files that scripts of a folder run, sorted: of that folder, and of a package; what counts is as there."""
    beside = {path.stem: path for path in scripts[0].parent.glob("*.py")}
    return _reached([path.stem for path in scripts], {**_modules(package), **beside})


def imports(package: Path = PACKAGE) -> dict[Path, list[Path]]:
    """The files of a package that each of its files imports, sorted; what counts is as in ``source_files``."""
    modules = _modules(package)
    return {path: sorted({modules[each] for each in _imported(name, modules)}) for name, path in modules.items()}


def _modules(package: Path) -> dict[str, Path]:
    """The files of a package by the full names of their modules."""
    paths = {}
    for path in sorted(package.rglob("*.py"), reverse=True):  # a/__init__.py after a.py, as it goes before it in Python
        module = path.parent if path.name == "__init__.py" else path.with_suffix("")
        paths[".".join(module.relative_to(package.parent).parts)] = path
    return paths


def _reached(queue: list[str], modules: Mapping[str, Path]) -> list[Path]:
    """The files of modules and of all that they import, sorted."""
    reached = set()
    while queue:
        module = queue.pop()
        if module not in reached:
            reached.add(module)
            queue.extend(_imported(module, modules))
    return sorted(modules[module] for module in reached)


def _imported(module: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Those of the modules that the imports in one of them execute."""
    path, roots = modules[module], {each.partition(".")[0] for each in modules}
    parent = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes(), path)):
        try:
            if isinstance(node, ast.Import):
                wanted = [(alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = resolve_name("." * node.level + (node.module or ""), parent)
                wanted = [(source, alias.name) for alias in node.names]
            else:
                continue
            for source, name in wanted:
                if source == module and name:  # from itself: a module, or the name would be defined by this import
                    source, name = f"{source}.{name}", None
                if source.partition(".")[0] in roots:
                    yield from _executed(source, name, modules)
        except ImportError as error:
            raise ImportError(f"{path}:{node.lineno}: {ast.unparse(node)}: {error}") from None


def _executed(module: str, name: str | None, modules: Mapping[str, Path]) -> list[str]:
    """What ``from module import name`` executes, or ``import module``: the packages on the way, and the module."""
    if f"{module}.{name}" in modules:
        module = f"{module}.{name}"
    elif module not in modules:
        raise ImportError(f"there is no module {module}")
    elif name is None and "." not in module and modules[module].name == "__init__.py":
        raise ImportError(f"it does not say which module of {module}")
    elif name is not None and modules[module].name == "__init__.py" and name not in _defined(modules[module]):
        raise ImportError(f"{module} neither has a module {name} nor defines it")
    parts = module.split(".")
    around = [".".join(parts[:end]) for end in range(2, len(parts))]
    return [each for each in (*around, module) if each in modules]


def _defined(path: Path) -> set[str]:
    """The names that a file assigns, defines or imports, outside functions and classes."""
    symbols = symtable(path.read_text(encoding="utf-8"), str(path), "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
