"""Our reading of JSON Schema agrees with that of the package jsonschema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

import ffn_export
from ffn_export.core.json_schema import first_problem
from tests.fuzz.bundles import changed_value

PACKAGE = Path(ffn_export.__file__).parent
MANIFEST = json.loads((PACKAGE / "bundle" / "manifest.schema.json").read_text())
TABLES = {
    "type": "object",
    "additionalProperties": False,
    "required": ["format", "tables"],
    "properties": {"format": {"const": 1}, "tables": {"type": "array", "items": {"$ref": "#/$defs/table"}}},
    "$defs": {"table": {"type": "object", "required": ["onnxruntime"]}},
}
TENSOR = {"name": "x", "dtype": "float32", "shape": ["n", 4]}
RATIO = {"value": 0.5, "low": 0.4, "high": 0.6, "verdict": "faster"}
GOOD: dict[str, Any] = {
    "schema_version": 3, "name": "b", "target": "ort-cpu", "provider": "CPU", "operators_outside_standard": ["a::B"],
    "source": {
        "spec": "b", "kind": "preset", "seed": 0, "reference": "", "inputs": {"x": "float32[n,4]"}, "dtype": "float32",
        "keep_io": False,
    },
    "inputs": [TENSOR], "outputs": [{**TENSOR, "shape": None}], "opset_imports": {"": 20}, "weights_bytes": 8,
    "fusion": {"sites": {}, "rules": {"gelu": 1}, "nodes": {}, "check": {"status": "passed", "reason": None}},
    "parity": {"passed": True, "runtimes": {"ort-cpu": {
        "cases": 1, "worst_ulps": 0.5, "allowed_ulps": 4, "baseline_ulps": None, "warned": 0, "warned_factor": None,
    }}},
    "latency": {"baseline": "torch", "measurements": [{
        "sizes": {"n": 2}, "median_ms": {"torch": 1.5},
        "ratio": {"a": RATIO, "b": {"verdict": "inconclusive", "reason": "busy"}},
        "ratio_over_default": {},
    }]},
    "session_options": {"graph_optimization_level": "basic", "config_entries": {"a": "1"}},
    "tolerances": {"relative_l2": None, "closeness": {"*": {"atol": 1e-5, "rtol": 0}}, "factor": 4},
    "environment": None, "files": {"model.onnx": "0" * 64}, "quantization": None, "tuning": None,
}  # fmt: skip


def test_the_example_is_valid() -> None:
    assert first_problem(GOOD, MANIFEST) is None
    jsonschema.Draft202012Validator(MANIFEST).validate(GOOD)


@pytest.mark.parametrize("seed", range(20))
def test_the_verdicts_agree_on_damaged_data(seed: int) -> None:
    random = Random(seed)
    validator = jsonschema.Draft202012Validator(MANIFEST)
    for _ in range(40):
        data = changed_value(copy.deepcopy(GOOD), random)
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
