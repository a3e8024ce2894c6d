"""Digests of source code, by which Snakemake knows that a job must run again."""

import ast
import hashlib
from functools import cache
from pathlib import Path


@cache
def version(path: Path) -> str:
    """Return a digest of a file. Comments and docstrings of Python code do not change it."""
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None  # a docstring
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


@cache
def code_digest(folder: Path, *left_out: str) -> str:
    """Return a digest of the names and the code of all files in a folder, except in the folders ``left_out``."""
    names = {path: path.relative_to(folder).as_posix() for path in sorted(folder.rglob("[!.]*.*"))}
    kept = {path: name for path, name in names.items() if not name.startswith(tuple(f"{part}/" for part in left_out))}
    versions = [(name, version(path)) for path, name in kept.items() if path.suffix != ".pyc"]
    return hashlib.sha256(str(versions).encode()).hexdigest()[:16]
