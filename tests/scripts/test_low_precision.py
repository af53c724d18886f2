"""Whole models in low precision: a tiny one really measured, and pages that hold what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import low_precision
from low_precision_pages import typical, write
from peers.whole_models import MINILM, WHOLE_MODELS, WholeModel, lengths

DOCS = Path(__file__).parents[2] / "docs"
TINY_BERT = WholeModel(
    "BertModel",
    "bert",
    2,
    {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2},
)


def test_the_pages_hold_the_stored_results(tmp_path: Path) -> None:
    results = json.loads((DOCS / "results-low-precision.json").read_text())
    write(results, tmp_path)
    for name in ("results-low-precision.md", "results-low-precision-tables.md", "results-low-precision/summary.svg"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()


def test_readme_has_the_figures_that_are_stored() -> None:
    results = json.loads((DOCS / "results-low-precision.json").read_text())
    rows = {each["contender"]: each for each in results["rows"] if (each["module"], each["tokens"]) == (MINILM, 128)}
    ours, other = "ours int8", "quantize_dynamic per channel"
    times = {name: f"{rows[name]['ratio']:.2f}" for name in (ours, other)}
    errors = {name: f"{100 * results['embeddings'][name]['error']:.1f} %" for name in (ours, other)}
    readme = " ".join((DOCS.parent / "README.md").read_text().split())
    assert f"MiniLM in 8-bit integers takes {times[ours]} of its float32's time" in readme
    assert f"change by {errors[ours]}; with `quantize_dynamic` {times[other]} and {errors[other]}" in readme


def test_rows_of_each_model_at_the_length_nearest_to_128() -> None:
    rows = [{"module": "a", "tokens": n} for n in (16, 120, 512)] + [{"module": "b", "tokens": 197}]
    assert [(row["module"], row["tokens"]) for row in typical(rows)] == [("a", 120), ("b", 197)]


def test_a_model_of_one_length_is_timed_at_it() -> None:
    assert lengths("ViT-base", (1, 16)) == {197: 1}
    assert lengths("BERT-base", (1, 16)) == {1: 1, 16: 16}


def test_a_sentence_model_needs_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        low_precision.main([MINILM, "--folder", str(tmp_path)])
    assert ended.value.code == 2
    assert "embeds texts: give --texts FILE" in capsys.readouterr().err


def test_a_folder_that_is_missing_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        low_precision.main(["BERT-base", "--folder", str(tmp_path / "missing")])
    assert ended.value.code == 2
    assert "missing is no folder; make it first" in capsys.readouterr().err


@pytest.mark.integration  # OpenVINO and the quantiser of ONNX Runtime take most of its time
def test_a_model_is_measured_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WHOLE_MODELS, "tiny BERT", TINY_BERT)
    asked = ["tiny BERT", "--tokens", "5", "--seconds", "0.01", "--folder", str(tmp_path)]
    assert low_precision.main(asked) == 0
    rows = json.loads((tmp_path / "results-low-precision.json").read_text())["rows"]
    errors = {row["contender"]: row["error"] for row in rows}
    assert errors.keys() >= {"ONNX Runtime", "quantize_dynamic per channel", "ours int8", "ours int8, by samples"}
    assert max(errors[name] for name in ("ONNX Runtime", "ours f32")) < 1e-5
    assert 1e-5 < errors["ours int8"] < 0.1
    assert "| ours int8 | " in (tmp_path / "results-low-precision.md").read_text()
