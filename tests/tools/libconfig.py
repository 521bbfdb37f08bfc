"""Writes libconfig's syntax from plain Python values."""

from __future__ import annotations

from typing import Any

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def _value(value: Any, indent: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(ESCAPES.get(c, c) for c in value) + '"'
    if isinstance(value, dict):
        return "{\n" + settings(value, indent + "  ") + indent + "}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_value(item, indent + "  ") for item in value) + ")"
    raise TypeError(f"libconfig has no {type(value).__name__}")


def settings(values: dict[str, Any], indent: str = "") -> str:
    """The text of a file, or of a group."""
    return "".join(f"{indent}{name} = {_value(value, indent)};\n" for name, value in values.items())


def merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, group by group; None removes a setting."""
    merged = dict(base)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = merge(merged[name], value)
        else:
            merged[name] = value
    return merged
