"""The page of the native kernels prints what is stored, and no more."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import native_benchmark
from ffn_export.parity.judging.metrics import relative_l2
from peers.competitors import Loaded
from peers.subject import block_subject
from tests.native.provider import needs_provider

ROOT = Path(__file__).parents[2]
NATIVE = ("ours-native", "ours-native-bf16", "ours-native-int8")


def test_the_page_holds_the_stored_results() -> None:
    runs = json.loads((ROOT / "docs" / "native.json").read_text())
    page = (ROOT / "docs" / "native.md").read_text()
    for run in runs:
        assert native_benchmark.summary(run) in page
        assert {row["contender"] for row in run["rows"]} >= {"ONNX Runtime", "native f32"}


def test_without_the_provider_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["native_benchmark.py"])
    with pytest.raises(SystemExit) as ended:
        native_benchmark.main()
    assert ended.value.code == "onnxruntime-ep-ffn is not installed: native/README.md says how to build it"


def test_a_processor_has_one_run_with_the_same_kernels() -> None:
    def run(processor: str, kernel: str, row: str, threads: int = 1, weights: str = "warm") -> dict[str, Any]:
        on = {"processor": processor, "kernels": [kernel], "threads": threads, "weights": weights}
        return {"environment": on, "rows": [row]}

    old, masked, other = run("A", "AMX", "old"), run("A", "AVX-512", "masked"), run("B", "AMX", "other")
    others = [masked, other, run("A", "AMX", "two", threads=2), run("A", "AMX", "cold", weights="cold")]
    for each in others:
        assert native_benchmark.with_run([old], each) == [old, each]
    new = run("A", "AMX", "later")
    assert native_benchmark.with_run([old, *others], new) == [new, *others]


def test_cold_weights_are_pushed_out_before_a_call_and_warm_ones_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_benchmark, "_MORE_THAN_CACHES", 8)
    calls: list[str] = []
    for weights, runs in (("warm", 2), ("cold", 1)):
        calls.clear()
        times = native_benchmark.in_turn({"it": lambda: calls.append("it")}, 0, weights=weights)
        assert len(calls) == runs * len(times["it"])


def test_a_warm_up_repeats_a_call_before_it_is_timed() -> None:
    ticks = iter(range(1000))
    calls: list[int] = []
    times = native_benchmark.in_turn({"it": lambda: calls.append(0)}, 0, lambda: next(ticks), warm_up=3)
    assert len(calls) == 4 * len(times["it"])  # at 0, 1 and 2, and the timed one


@needs_provider
def test_the_blocks_that_are_compared_run_on_native_kernels_too(tmp_path: Path) -> None:
    block = block_subject("bert-ffn", (32, 64), (4,), tmp_path)
    loaded = Loaded(block, ["ours", *NATIVE], 1)
    assert (loaded.names, loaded.refused) == (["ours", *NATIVE], {})
    feeds = block.feeds(4)
    wanted, *others = (loaded.runners[name][0].run(feeds)["y"] for name in loaded.names)
    errors = dict(zip(NATIVE, (relative_l2(each, wanted) for each in others), strict=True))
    assert errors["ours-native"] < 1e-6 < errors["ours-native-bf16"] < errors["ours-native-int8"] < 2e-2


def test_without_the_provider_the_comparison_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ffn_export.runtimes.ort_native.PACKAGE", "no_such_package")
    loaded = Loaded(block_subject("bert-ffn", (32, 64), (4,), tmp_path), ["ours", *NATIVE], 1)
    assert loaded.names == ["ours"]
    assert set(loaded.refused) == set(NATIVE)
    assert all("onnxruntime-ep-ffn is not installed" in why for why in loaded.refused.values())


def test_readme_has_the_ratios_that_are_stored() -> None:
    """Each processor's run on one thread with its weights in the caches."""
    stored = []
    for run in json.loads((ROOT / "docs" / "native.json").read_text()):
        if (run["environment"]["threads"], run["environment"]["weights"]) == (1, "warm"):
            ratios = {row["contender"]: f"{row['ratio']:.2f}" for row in run["rows"] if _is_bert_at_128(row)}
            stored.append(tuple(ratios.get(f"native {each}", "not timed") for each in ("f32", "bf16", "int8")))
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^  \| (?:AMD|Intel).* \| (\S+) \| (\S+) \| (.+) \|$", readme, re.MULTILINE) == stored


def _is_bert_at_128(row: dict[str, object]) -> bool:
    return (row["module"], row["tokens"]) == ("BERT-base", 128)


def test_a_table_is_replaced_in_its_place(tmp_path: Path) -> None:
    row = {
        "module": "d2l-ffn",
        "tokens": 3,
        "contender": "ONNX Runtime",
        "milliseconds": 0.25,
        "ratio": 1.0,
        "quartiles": [1.0, 1.0],
        "error": 1e-7,
    }
    native = {**row, "contender": "native f32", "ratio": 0.8, "quartiles": [0.7, 1.0], "error": 2e-7}
    on = {
        "processor": "Some CPU",
        "kernels": ["float32 by AVX2"],
        "threads": 2,
        "weights": "cold",
        "load": 0.5,
        "versions": {"onnxruntime": "1.31.1"},
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{native_benchmark.BEGIN}old\n{native_benchmark.END}\nafter\n")
    native_benchmark.write_page([{"environment": on, "rows": [row, native, {**native, "tokens": 9}]}], page)
    text = page.read_text()
    assert "| module | | 3 tokens | 9 tokens | error |\n" in text
    assert (
        "| d2l-ffn | ONNX Runtime | 0.25 ms |  | 1.0e-07 |\n| d2l-ffn | native f32 | 0.80 | 0.80 | 2.0e-07 |\n" in text
    )
    assert "Some CPU, 2 threads, weights out of the caches, onnxruntime 1.31.1.\n" in text
    assert "\nLoad before the run: 0.5. Kernels: float32 by AVX2.\n" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
