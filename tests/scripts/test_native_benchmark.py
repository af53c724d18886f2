"""The page of the native kernels prints what is stored, and no more."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import native_benchmark

ROOT = Path(__file__).parents[2]


def test_the_page_holds_the_stored_results() -> None:
    runs = json.loads((ROOT / "docs" / "native.json").read_text())
    page = (ROOT / "docs" / "native.md").read_text()
    for run in runs:
        assert native_benchmark.table(run) in page
        assert {row["contender"] for row in run["rows"]} >= {"ONNX Runtime", "native f32"}


def test_without_the_provider_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["native_benchmark.py"])
    with pytest.raises(SystemExit) as ended:
        native_benchmark.main()
    assert ended.value.code == "onnxruntime-ep-ffn is not installed: native/README.md says how to build it"


def test_a_processor_has_one_run_with_the_same_kernels() -> None:
    def run(processor: str, kernel: str, row: str) -> dict[str, Any]:
        return {"environment": {"processor": processor, "kernels": [kernel]}, "rows": [row]}

    old, masked, other = run("A", "AMX", "old"), run("A", "AVX-512", "masked"), run("B", "AMX", "other")
    assert native_benchmark.with_run([old], other) == [old, other]
    assert native_benchmark.with_run([old], masked) == [old, masked]
    new = run("A", "AMX", "later")
    assert native_benchmark.with_run([old, masked, other], new) == [new, masked, other]


def test_readme_has_the_ratios_that_are_stored() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    figures = []
    for run in json.loads((ROOT / "docs" / "native.json").read_text()):
        ratios = {row["contender"]: row["ratio"] for row in run["rows"] if _is_bert_at_128(row)}
        timed = [precision for precision in ("bf16", "int8") if f"native {precision}" in ratios]
        figures.append([f"{ratios[f'native {precision}']:.2f}" for precision in timed])
    (amd_bf16, amd_int8), (intel_bf16, intel_int8), (amx_bf16,), (_, avx2_int8) = figures
    assert f"takes {amd_bf16} in bfloat16 and {amd_int8} in 8-bit integers on an AMD EPYC" in readme
    assert f"{intel_bf16} and {intel_int8} on an Intel Xeon without AMX" in readme
    assert (
        f"{amx_bf16} in bfloat16 on one with AMX, and {avx2_int8} in 8-bit integers on an AMD EPYC with AVX2 alone"
        in readme
    )


def _is_bert_at_128(row: dict[str, object]) -> bool:
    return (row["module"], row["tokens"]) == ("BERT-base", 128)


def test_a_table_is_replaced_in_its_place(tmp_path: Path) -> None:
    row = {
        "module": "d2l-ffn",
        "tokens": 3,
        "contender": "ONNX Runtime",
        "milliseconds": 0.25,
        "ratio": 1.0,
        "quartiles": [0.9, 1.25],
        "error": 1e-7,
    }
    on = {
        "processor": "Some CPU",
        "kernels": ["float32 by AVX2"],
        "threads": 2,
        "load": 0.5,
        "versions": {"onnxruntime": "1.31.1"},
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{native_benchmark.BEGIN}old\n{native_benchmark.END}\nafter\n")
    native_benchmark.write_page([{"environment": on, "rows": [row]}], page)
    text = page.read_text()
    assert "| d2l-ffn | 3 | ONNX Runtime | 0.250 | 1.00 | 0.90 to 1.25 | 1.0e-07 |\n" in text
    assert "Some CPU, 2 threads, onnxruntime 1.31.1. Load before the run: 0.5.\nKernels: float32 by AVX2.\n" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
