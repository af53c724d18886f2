"""Costs of kernels: which table is taken, and what is no table."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ffn_export.core import processor
from ffn_export.core.words import words
from ffn_export.errors import UsageError
from ffn_export.fusion.costs import costs, installed_version, read_tables, stored

ZEN = ("avx512", "AuthenticAMD", "25")
# Kernels that decision 31 compares, and whole products.
NEEDED = words(
    "Add Add:residual Relu Gelu Gelu:tanh com.microsoft::BiasGelu com.microsoft::FastGelu:bias LayerNormalization "
    "RMSNormalization com.microsoft::SkipLayerNormalization com.microsoft::SkipSimplifiedLayerNormalization Gemm "
    "com.microsoft::FusedGemm:Relu MatMul:aliased MatMul:padded"
)


def table(version: str, key: tuple[str, str, str] = ZEN, **fields: Any) -> dict[str, Any]:
    instruction_set, vendor, family = key
    named = {"onnxruntime": version, "instruction_set": instruction_set, "vendor": vendor, "family": family}
    measured = {"processor": "a processor", "dtype": "float32", "threads": 1, "command": "a command"}
    return {**named, **measured, "ns_per_element": {"Add": 0.1, "Mul": 0.25}, **fields}


def written(path: Path, *tables: object) -> Path:
    path.write_text(json.dumps({"format": 2, "tables": tables}))
    return path


@pytest.fixture
def several(tmp_path: Path) -> Path:
    versions = ("1.23.0", "1.31.1", "1.31.0")
    return written(tmp_path / "costs.json", *map(table, versions), table("1.32.0", ("avx2", "GenuineIntel", "6")))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.31.0", "1.31.0"),
        ("1.31.2", "1.31.1"),
        ("1.31.0rc1", "1.23.0"),
        ("1.32.0", "1.31.1"),
        ("1.22.0", "1.23.0"),  # all are above
    ],
)
def test_the_nearest_version_is_taken(version: str, expected: str, several: Path) -> None:
    found = costs(version, several, key=ZEN)
    assert found is not None
    assert found.onnxruntime == expected
    assert found.words == f"onnxruntime {expected}, avx512, AuthenticAMD family 25"
    assert found.ns_per_element["Add"] == 0.1


@pytest.mark.parametrize(
    "key", [("avx512", "AuthenticAMD", "26"), ("avx512", "GenuineIntel", "25"), ("avx2", "AuthenticAMD", "25")]
)
def test_a_processor_that_was_not_measured_has_none(key: tuple[str, str, str], several: Path) -> None:
    assert costs("1.31.1", several, key=key) is None


def test_by_default_this_machine_is_asked_for(tmp_path: Path) -> None:
    version = installed_version()
    assert version in {d.version for d in metadata.distributions() if d.name.startswith("onnxruntime")}
    here = (processor.instruction_set(), processor.vendor(), processor.family())
    found = costs(path=written(tmp_path / "costs.json", table("1.0.0", here), table(version, here)))
    assert found is not None
    assert found.onnxruntime == version


def test_choosing_does_not_load_the_runtime() -> None:
    code = "import sys; from ffn_export.fusion.costs import costs; costs(); assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_tables_of_the_package_are_complete() -> None:
    for each in read_tables():
        assert not NEEDED.difference(each.ns_per_element), each.words
        # What is measured beside another form may cost less than it.
        kernels = {n: cost for n, cost in each.ns_per_element.items() if "Gemm" not in n and not n.endswith(":split")}
        assert min(kernels.values()) > 0
        assert each.command.startswith("python scripts/measure_kernels.py")
    by_family = {each.family: each.ns_per_element for each in read_tables() if each.vendor == "AuthenticAMD"}
    zen4, zen5 = by_family["25"], by_family["26"]
    # Eight lines in a set of its first cache, and twelve.
    assert zen4["MatMul:padded"] < 0.97 * zen4["MatMul:aliased"]
    assert zen5["MatMul:padded"] > 0.97 * zen5["MatMul:aliased"]


def test_what_is_stored_is_read_again_sorted(several: Path, tmp_path: Path) -> None:
    tables = read_tables(several)
    path = tmp_path / "again.json"
    path.write_text(json.dumps(stored(reversed(tables))))
    again = read_tables(path)
    assert set(map(str, again)) == set(map(str, tables))
    assert [t.onnxruntime for t in again] == ["1.32.0", "1.23.0", "1.31.0", "1.31.1"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (table("1.31.1", threads="one"), r"`int`, got `str` - at `\$.threads`"),
        (table("newest"), "Invalid version: 'newest'"),
        (table("1.31.1", ns_per_element={"Add": "fast"}), r"`float`, got `str` - at `\$.ns_per_element"),
        (table("1.31.1", ns_per_element={"Add": float("nan")}), "the cost of Add is no number"),
        (table("1.31.1", ns_per_element={"Add": 1e999}), "the cost of Add is no number"),
        ({"onnxruntime": "1.31.1"}, "missing required field `instruction_set`"),
        ([], "got `array`"),
        (table("1.23.0"), "has two tables for one version and processor"),
    ],
)
def test_a_malformed_table_is_refused(entry: object, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "costs.json", table("1.23.0"), entry)
    with pytest.raises(UsageError, match=message):
        costs("1.31.1", path, key=ZEN)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 1, "tables": []}', '{"format": 2}', '{"format": 2, "tables": 3}']
)
def test_what_holds_no_tables_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"no tables of costs"):
        read_tables(path)
    with pytest.raises(UsageError, match="no tables of costs"):
        read_tables(tmp_path / "gone.json")
