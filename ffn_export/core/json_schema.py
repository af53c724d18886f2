"""Check JSON data against the part of JSON Schema that the schemas of this package use.

The file that is checked may be a stranger's; the schema is ours. A keyword that is not known here is an error of the
schema. ``tests/core/test_json_schema.py`` compares the verdicts with those of the package jsonschema.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_WITHOUT_MEANING = frozenset({"$schema", "$defs", "title", "description", "then", "else"})


def first_problem(data: Any, schema: Schema) -> str | None:
    """Return where data first differs from a schema, and how; None if they agree.

    The data is what ``plain_file.read_json`` returned. References of the schema are to its own ``$defs``.
    """
    for path, words in _problems(data, schema, schema):
        return f"{'/'.join(path) or 'the file'}: {words}"[:300]
    return None


Problems = Iterator[tuple[tuple[str, ...], str]]


def _problems(data: Any, schema: Schema, root: Schema) -> Problems:
    for keyword, wanted in schema.items():
        if keyword == "$ref":
            yield from _problems(data, root["$defs"][wanted.removeprefix("#/$defs/")], root)
        elif keyword == "anyOf":
            if all(any(_problems(data, each, root)) for each in wanted):
                yield (), f"{_shown(data)} is none of what is allowed here"
        elif keyword == "if":
            branch = schema.get("else" if any(_problems(data, wanted, root)) else "then", {})
            yield from _problems(data, branch, root)
        elif keyword in _OF_A_VALUE:
            problem = _OF_A_VALUE[keyword](data, wanted)
            if problem is not None:
                yield (), problem
        elif keyword in ("properties", "propertyNames", "additionalProperties", "items"):
            for name, value, inner in _parts(data, keyword, wanted, schema):
                yield from (((name, *path), words) for path, words in _problems(value, inner, root))
        elif keyword not in _WITHOUT_MEANING:
            raise AssertionError(f"the schema has {keyword!r}, which is not known here")


def _parts(data: Any, keyword: str, wanted: Any, schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    """Yield name, value and schema of the parts of an object or array that a keyword is about."""
    if keyword == "items" and isinstance(data, list):
        yield from ((str(index), value, wanted) for index, value in enumerate(data))
    elif keyword != "items" and isinstance(data, dict):
        named = schema.get("properties", {})
        for name, value in data.items():
            if keyword == "properties" and name in named:
                yield name, value, named[name]
            elif keyword == "propertyNames":
                yield name, name, wanted
            elif keyword == "additionalProperties" and name not in named:
                yield name, value, _NOTHING if wanted is False else wanted


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _type(value: Any, wanted: str | list[str]) -> str | None:
    names = [wanted] if isinstance(wanted, str) else wanted
    return (
        None if any(_TYPES[name](value) for name in names) else f"{_shown(value)} is not of type {' or '.join(names)}"
    )


def _enum(value: Any, wanted: list[Any]) -> str | None:
    return None if any(_same(value, each) for each in wanted) else f"{_shown(value)} is not one of {wanted}"


def _required(value: Any, wanted: list[str]) -> str | None:
    missing = [name for name in wanted if name not in value] if isinstance(value, dict) else []
    return f"{missing[0]!r} is missing" if missing else None


def _fault(kind: str, is_wrong: Callable[[Any, Any], bool], words: str) -> Callable[[Any, Any], str | None]:
    """Return the check of a keyword that is about values of one type."""

    def check(value: Any, wanted: Any) -> str | None:
        is_fault = _TYPES[kind](value) and is_wrong(value, wanted)
        return words.format(value=_shown(value), wanted=wanted) if is_fault else None

    return check


def _shown(value: Any) -> str:
    """Return a value as text; what is nested may be deep or long, so its kind is enough."""
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else f"{value!r:.80}"


_NOTHING: Schema = {"not allowed": True}
_OF_A_VALUE: Mapping[str, Callable[[Any, Any], str | None]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, wanted: _enum(value, [wanted]),
    "required": _required,
    "minimum": _fault("number", operator.lt, "{value} is less than {wanted}"),
    "exclusiveMinimum": _fault("number", operator.le, "{value} is not more than {wanted}"),
    "minItems": _fault("array", lambda value, wanted: len(value) < wanted, "has fewer than {wanted} items"),
    "minLength": _fault("string", lambda value, wanted: len(value) < wanted, "is shorter than {wanted}"),
    "pattern": _fault("string", lambda value, wanted: not re.search(wanted, value), "{value} does not match {wanted}"),
    "not allowed": lambda value, wanted: "is not allowed here",
}
