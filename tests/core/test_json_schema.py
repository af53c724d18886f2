"""Our reading of JSON Schema agrees with that of the package jsonschema."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

import ffn_export as fx
from ffn_export.core.json_schema import first_problem
from tests.fuzz.bundles import changed_value

PACKAGE = Path(fx.__file__).parent
MANIFEST = json.loads((PACKAGE / "bundle" / "manifest.schema.json").read_text())
TABLES = {
    "type": "object",
    "required": ["format", "tables"],
    "additionalProperties": False,
    "properties": {"format": {"const": 1}, "tables": {"type": "array", "items": {"required": ["onnxruntime"]}}},
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = fx.build("d2l-ffn", directory=tmp_path_factory.mktemp("exported"), bench_budget=0.01).directory
    return json.loads((directory / "manifest.json").read_text())


@pytest.mark.slow  # it builds a bundle
@pytest.mark.parametrize("seed", range(20))
def test_the_verdicts_agree_on_damaged_manifests(seed: int, good: Any) -> None:
    random, validator = Random(seed), jsonschema.Draft202012Validator(MANIFEST)
    assert first_problem(good, MANIFEST) is None
    for _ in range(40):
        data = changed_value(copy.deepcopy(good), random)
        assert (first_problem(data, MANIFEST) is None) == validator.is_valid(data), data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "the file: a list is not of type object"),
        ({"format": 1}, "the file: 'tables' is missing"),
        ({"format": True, "tables": []}, "format: True is not one of [1]"),
        ({"format": 1, "tables": [], "more": 1}, "more: is not allowed here"),
        ({"format": 1, "tables": [{}]}, "tables/0: 'onnxruntime' is missing"),
        ({"format": 1.0, "tables": "none"}, "tables: 'none' is not of type array"),
    ],
)
def test_the_first_problem_says_where(data: Any, problem: str) -> None:
    assert first_problem(data, TABLES) == problem


def test_a_keyword_that_is_not_known_is_an_error_of_the_schema() -> None:
    with pytest.raises(AssertionError, match="'maxItems'"):
        first_problem([], {"maxItems": 1})


def keywords(schema: Any) -> Iterator[str]:
    """Yield the keywords of a schema and of the schemas in it."""
    for keyword, value in schema.items():
        yield keyword
        named = keyword in ("properties", "$defs")
        inner = value.values() if named else value if keyword == "anyOf" else [value]
        yield from (found for each in inner if isinstance(each, dict) for found in keywords(each))


def test_every_keyword_of_our_schema_is_known() -> None:
    known = {"$defs": MANIFEST["$defs"]}
    for keyword in set(keywords(MANIFEST)) - {"$ref", "if", "anyOf", "properties", "$defs"}:
        values = {"type": "string", "enum": [], "required": [], "pattern": "", "items": {}, "const": 1}
        first_problem({}, {**known, keyword: values.get(keyword, {} if "ropert" in keyword else 0)})
