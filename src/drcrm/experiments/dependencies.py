"""Source files that a step or a script runs. Snakemake runs a step again if one of them changes."""

import ast
from functools import cache
from pathlib import Path


def source_files(package: Path, *entries: Path) -> list[Path]:
    """Return the entry files and all files that they import, directly or indirectly, sorted.

    The function follows absolute imports (``from drcrm.x import y``) of files of the package. It follows imports
    inside functions and imports for type checkers too. If the first entry lies outside the package, it also follows
    imports of the files next to that entry. The result includes the ``__init__.py`` of every package on the way,
    except the outermost one, whose imports are lazy.
    """
    modules = {path.stem: path for path in entries[0].parent.glob("*.py")} if package not in entries[0].parents else {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    del modules[package.name]
    reached, queue = set(), list(entries)
    while queue:
        path = queue.pop()
        if path not in reached:
            reached.add(path)
            queue += [modules[name] for name in _imported_names(path) if name in modules]
            if package in path.parents and path.parent != package:
                queue += [parent / "__init__.py" for parent in path.parents if package in parent.parents]
    return sorted(reached)


@cache  # the rules of a workflow share most of their files
def _imported_names(path: Path) -> frozenset[str]:
    """Return the full name of everything that a file imports: modules, and names that may be modules."""
    names = set()
    for node in ast.walk(ast.parse(path.read_bytes(), path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)
