"""Reference pages in Markdown: commands from their parsers, keys of mappings and of the configuration from schemas."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from drcrm.__main__ import main_parser

ROOT = Path(__file__).resolve().parents[2]
MAPPING, CONFIG = ROOT / "src/drcrm/mapping/mapping.schema.json", ROOT / "workflow/schemas/config.schema.yaml"
CONFIG_TABLES = {
    "A data set": "dataset",
    "An algorithm": "algorithm",
    "An experiment": "experiment",
    "An evaluation": "evaluation",
}


def format_table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(list(header)), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def format_commands() -> str:
    """Return the page of all commands: what `drcrm COMMAND --help` prints."""
    texts = [f"## {name}\n\n```text\n{parser.format_help()}```\n" for name, parser in command_parsers().items()]
    return "\n".join([f"# Commands\n\n{main_parser().description}\n", *texts])


def command_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by its name."""
    [commands] = [action for action in main_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(commands.choices)


def resolve(schema: Mapping, root: Mapping) -> dict:
    """Return a schema merged over the definition that it refers to."""
    reference = schema.get("$ref")
    base = resolve(root["$defs"][reference.rpartition("/")[2]], root) if reference else {}
    return {**base, **schema}


def mapping_keys() -> str:
    """Return the table of the keys of a mapping."""
    schema = json.loads(MAPPING.read_text(encoding="utf-8"))
    keys = {key: resolve(settings, schema) for key, settings in schema["properties"].items()}
    rows = [(f"`{key}`", settings["description"], settings["title"]) for key, settings in keys.items()]
    return format_table(("key", "value", "meaning"), rows)


def config_keys() -> str:
    """Return the tables of the configuration of experiments."""
    schema = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    sections = {"Top level": schema, **{title: schema["$defs"][name] for title, name in CONFIG_TABLES.items()}}
    sections["`replay_curve` of an experiment"] = schema["$defs"]["experiment"]["properties"]["replay_curve"]
    sections["`theory`"] = schema["properties"]["theory"]
    return "\n".join(f"### {title}\n\n{format_properties(part, schema)}" for title, part in sections.items())


def format_properties(schema: Mapping, root: Mapping) -> str:
    """Return the table of the properties of an object: value, default and meaning."""
    rows = []
    for key, property_schema in schema["properties"].items():
        settings = resolve(property_schema, root)
        name = f"`{key}`" + (" (required)" if key in schema.get("required", ()) else "")
        default = f"`{json.dumps(settings['default'], ensure_ascii=False)}`" if "default" in settings else ""
        rows.append((name, format_type(settings), default, settings.get("description", "")))
    return format_table(("key", "value", "default", "meaning"), rows)


def format_type(settings: Mapping) -> str:
    """Return in words which values a schema accepts."""
    if "enum" in settings:
        return ", ".join(f"`{'null' if value is None else value}`" for value in settings["enum"])
    types = settings.get("type", "any")
    words = {"object": "map", "array": "list", "integer": "whole number", "string": "text", "boolean": "true or false"}
    names = [words.get(name, name) for name in ([types] if isinstance(types, str) else types)]
    return " or ".join(names) + format_range(settings)


def format_range(settings: Mapping) -> str:
    """Return the range of a number, or nothing."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {settings[key]}" for key, sign in signs.items() if key in settings]
    return f" {' and '.join(limits)}" if limits else ""
