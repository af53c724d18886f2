"""Costs of kernels: which table is taken, and what is no table."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ffn_export.core.processor import instruction_set
from ffn_export.errors import UsageError
from ffn_export.fusion.cost_tables import TABLES, check, read_tables, stored
from ffn_export.fusion.costs import costs, installed_version

CPU = "CPUExecutionProvider"
# What forms of sites are made of: a comparison needs the numbers of all of them.
NEEDED = (
    "Add", "Add:residual", "Mul", "Relu", "LeakyRelu", "Elu", "Tanh", "Sigmoid", "Gelu", "Gelu:tanh",
    "com.microsoft::Gelu", "com.microsoft::BiasGelu", "com.microsoft::FastGelu", "com.microsoft::FastGelu:bias",
    "com.microsoft::QuickGelu", "LayerNormalization", "RMSNormalization", "com.microsoft::SkipLayerNormalization",
    "com.microsoft::SkipSimplifiedLayerNormalization", "Gemm", "com.microsoft::FusedGemm:Relu",
)  # fmt: skip


def table(version: str, instructions: str, provider: str = CPU, **fields: Any) -> dict[str, Any]:
    return {
        "onnxruntime": version, "instruction_set": instructions, "provider": provider, "processor": "a processor",
        "dtype": "float32", "threads": 1, "command": "a command", "ns_per_element": {"Add": 0.1, "Mul": 0.25}, **fields,
    }  # fmt: skip


def written(path: Path, *tables: object) -> Path:
    path.write_text(json.dumps({"format": 1, "tables": tables}))
    return path


@pytest.fixture
def several(tmp_path: Path) -> Path:
    return written(
        tmp_path / "costs.json",
        table("1.23.0", "avx512"), table("1.31.0", "avx512"), table("1.31.1", "avx512"), table("1.9.0", "avx2"),
        table("1.40.0", "CUDA's", "CUDAExecutionProvider"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "instructions", "expected", "is_exact"),
    [
        ("1.31.0", "avx512", "1.31.0 avx512", True),
        ("1.31.1", "avx512", "1.31.1 avx512", True),
        ("1.31.2", "avx512", "1.31.1 avx512", True),
        ("1.31.0rc1", "avx512", "1.31.1 avx512", True),
        ("1.32.0", "avx512", "1.31.1 avx512", False),
        ("1.30.2", "avx512", "1.23.0 avx512", False),
        ("1.22.0", "avx512", "1.23.0 avx512", False),  # all are above
        ("1.31.1", "avx2", "1.9.0 avx2", False),  # the set first, however old
        ("1.9.9", "neon", "1.31.1 avx512", False),
        ("1.31.1", "neon", "1.31.1 avx512", False),
    ],
)
def test_the_nearest_table_is_taken(
    version: str, instructions: str, expected: str, *, is_exact: bool, several: Path
) -> None:
    found = costs(CPU, version, instructions, several)
    assert found is not None
    assert f"{found.onnxruntime} {found.instruction_set}" == expected
    assert found.provider == CPU
    assert found.is_exact is is_exact


@pytest.mark.parametrize(
    ("vendor", "expected", "is_exact"),
    [("AuthenticAMD", "1.31.1 AuthenticAMD", True), ("GenuineIntel", "1.31.1", True), ("", "1.31.1", True)],
)
def test_a_table_of_the_same_vendor_goes_before_one_for_any(
    vendor: str, expected: str, *, is_exact: bool, tmp_path: Path
) -> None:
    tables = table("1.31.1", "avx512"), table("1.31.1", "avx512", vendor="AuthenticAMD")
    found = costs(CPU, "1.31.1", "avx512", written(tmp_path / "costs.json", *tables), vendor=vendor)
    assert found is not None
    assert (f"{found.onnxruntime} {found.vendor}".strip(), found.is_exact) == (expected, is_exact)


@pytest.mark.parametrize(
    ("family", "expected", "is_same"), [("25", 0.25, True), ("26", 0.26, True), ("27", 0.25, False), ("", 0.25, False)]
)
def test_a_table_of_the_same_family_is_the_processor_s(
    family: str, expected: float, *, is_same: bool, tmp_path: Path
) -> None:
    tables = [
        table("1.31.1", "avx512", vendor="AuthenticAMD", family=each, ns_per_element={"Add": float(f"0.{each}")})
        for each in ("25", "26")
    ]
    path = written(tmp_path / "costs.json", *tables, table("1.31.1", "avx512", vendor="GenuineIntel"))
    found = costs(CPU, "1.31.1", "avx512", path, vendor="AuthenticAMD", family=family)
    assert found is not None
    assert (found.of("Add"), found.is_exact, found.is_same_processor) == (expected, is_same, is_same)
    assert found.words == f"onnxruntime 1.31.1, avx512, AuthenticAMD family {found.family}"
    any_family = costs(CPU, "1.31.1", "avx512", path, vendor="GenuineIntel", family=family)
    assert any_family is not None
    assert any_family.is_same_processor


def test_a_table_of_another_vendor_is_the_nearest_and_not_exact(tmp_path: Path) -> None:
    tables = table("1.31.1", "avx512", vendor="AuthenticAMD"), table("1.31.1", "avx2", vendor="GenuineIntel")
    found = costs(CPU, "1.31.1", "avx512", written(tmp_path / "costs.json", *tables), vendor="GenuineIntel")
    assert found is not None
    assert (found.instruction_set, found.vendor, found.is_exact) == ("avx512", "AuthenticAMD", False)
    assert found.words == "onnxruntime 1.31.1, avx512, AuthenticAMD"


def test_the_newest_table_of_the_vendor_is_taken_where_none_is_of_the_instruction_set(tmp_path: Path) -> None:
    tables = table("1.31.1", "avx512", vendor="AuthenticAMD"), table("1.31.1", "avx512", vendor="GenuineIntel")
    path = written(tmp_path / "costs.json", *tables)
    for vendor, same_set in (("GenuineIntel", False), ("AuthenticAMD", False), ("GenuineIntel", True)):
        found = costs(CPU, "1.31.1", "avx512" if same_set else "avx2", path, vendor=vendor)
        assert found is not None
        assert (found.vendor, found.is_exact, found.is_same_processor) == (vendor, same_set, same_set)


def test_a_provider_that_was_not_measured_has_none(several: Path) -> None:
    assert costs("TensorrtExecutionProvider", "1.31.1", "avx512", several) is None
    cuda = costs("CUDAExecutionProvider", "1.40.0", "avx512", several)
    assert cuda is not None
    assert cuda.onnxruntime == "1.40.0"
    assert not cuda.is_exact


def test_costs_add_up_where_all_are_known(several: Path) -> None:
    found = costs(CPU, "1.31.1", "avx512", several)
    assert found is not None
    assert found.words == "onnxruntime 1.31.1, avx512"
    assert found.of("Add") == 0.1
    assert found.of("Erf") is None
    assert found.sum_of(["Add", "Mul", "Add"]) == pytest.approx(0.45)
    assert found.sum_of(["Add", "Erf"]) is None
    assert found.sum_of([]) == 0


def test_by_default_this_machine_is_asked_for(tmp_path: Path) -> None:
    version = installed_version()
    assert version in {d.version for d in metadata.distributions() if d.name.startswith("onnxruntime")}
    path = written(tmp_path / "costs.json", table("1.0.0", instruction_set()), table(version, instruction_set()))
    found = costs(path=path)
    assert found is not None
    assert (found.onnxruntime, found.is_exact) == (version, True)


def test_choosing_does_not_load_the_runtime() -> None:
    code = "import sys; from ffn_export.fusion.costs import costs; costs(); assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_table_of_the_package_has_what_forms_are_made_of() -> None:
    check(json.loads(TABLES.read_text()), TABLES)
    for each in read_tables():
        lacking = [name for name in NEEDED if name not in each.ns_per_element]
        assert not lacking, f"{each.key} lacks {lacking}"
        # What is measured beside another form may cost less than it.
        kernels = {n: cost for n, cost in each.ns_per_element.items() if "Gemm" not in n and not n.endswith(":pieces")}
        assert min(kernels.values()) > 0
        assert each.command.startswith("python scripts/measure_kernels.py")
    assert costs(CPU) is not None
    by_processor = {(each.vendor, each.family): each.ns_per_element for each in read_tables()}
    zen4, zen5 = by_processor["AuthenticAMD", "25"], by_processor["AuthenticAMD", "26"]
    # Eight lines in a set of its first cache, and twelve.
    assert zen4["MatMul:padded"] < 0.97 * zen4["MatMul:aliased"]
    assert zen5["MatMul:padded"] > 0.97 * zen5["MatMul:aliased"]


def test_what_is_stored_is_read_again_sorted(several: Path, tmp_path: Path) -> None:
    tables = read_tables(several)
    path = tmp_path / "again.json"
    path.write_text(json.dumps(stored(reversed(tables))))
    again = read_tables(path)
    assert set(map(str, again)) == set(map(str, tables))
    assert [t.onnxruntime for t in again] == ["1.9.0", "1.23.0", "1.31.0", "1.31.1", "1.40.0"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (table("1.31.1", "avx512", threads="one"), "tables/1/threads: 'one' is not of type 'integer'"),
        (table("1.31.1", "avx512", threads=True), "tables/1/threads: True is not of type 'integer'"),
        (table("newest", "avx512"), "tables/1/onnxruntime: Invalid version: 'newest'"),
        (
            table("1.31.1", "avx512", ns_per_element={"Add": "fast"}),
            "tables/1/ns_per_element/Add: 'fast' is not of type",
        ),
        (table("1.31.1", "avx512", ns_per_element={"Add": float("nan")}), "NaN is no number"),
        (
            table("1.31.1", "avx512", unit="us"),
            "tables/1: Additional properties are not allowed",
        ),
        ({"onnxruntime": "1.31.1"}, "tables/1: 'instruction_set' is a required property"),
        ([], "tables/1: [] is not of type 'object'"),
        (table("1.23.0", "avx512"), "has two tables for CPUExecutionProvider 1.23.0 avx512"),
    ],
)
def test_a_malformed_table_is_refused_with_its_place(entry: object, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "costs.json", table("1.23.0", "avx512"), entry)
    with pytest.raises(UsageError) as refused:
        costs(CPU, "1.31.1", "avx512", path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2, "tables": []}', '{"format": 1}', '{"format": 1, "tables": 3}']
)
def test_what_holds_no_tables_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"no tables of costs"):
        read_tables(path)
    with pytest.raises(UsageError, match="no tables of costs"):
        read_tables(tmp_path / "gone.json")


def test_a_number_too_large_for_one_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "costs.json", table("1.31.1", "avx512", ns_per_element={"Add": 0.5}))
    path.write_text(path.read_text().replace("0.5", "1e999"))
    with pytest.raises(UsageError, match="1e999 is no number"):
        read_tables(path)


def test_a_version_that_is_none_is_refused(several: Path) -> None:
    with pytest.raises(UsageError, match="'newest' is no version"):
        costs(CPU, "newest", "avx512", several)
