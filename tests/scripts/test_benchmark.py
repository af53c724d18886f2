"""The comparison with peers: really run at tiny widths, read back, and judged."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import benchmark
import ffn_export as fx
from corpus.architectures import pretrained
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.latency.interleaving import Pace
from ffn_export.runtimes import openvino_cpu
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import SessionSettings
from peers import end_to_end, machine, operators, store
from peers.bare import bare
from peers.cells import Effort
from peers.competitors import COMPETITORS, Competitor
from peers.export_time import export_times
from peers.ours import Made
from peers.real_activations import accuracy
from peers.result import OURS, Accuracy, Cell, LayerError, Results
from peers.shapes import STRUCTURES, block
from peers.subject import Subject, block_subject
from peers.whole_models import MINILM, NOT_INSTALLED, WHOLE_MODELS, WholeModel
from tests.parity.faults.weights import scaled_weight

TINY = ("--widths", "32x64", "--threads", "1", "--budget", "0.02", "--patience", "0")
BLOCKS = ("--presets", "bert-ffn", "--tokens", "1", "4", "--no-end-to-end", *TINY)
TINY_BERT = WholeModel(
    "BertModel",
    "bert",
    2,
    {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2},
)


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the script in this process; its exit status and what it says on standard error."""
    errors = io.StringIO()
    files = ("--json", str(folder / "times.json"), "--markdown", str(folder / "times.md"))
    with contextlib.redirect_stderr(errors):
        try:
            status = benchmark.main([*arguments, *files])
        except SystemExit as stop:
            return int(str(stop.code)), errors.getvalue()
    return status, errors.getvalue()


def written(folder: Path) -> dict[str, bytes]:
    """The page and the plots."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.*")) if path.is_file()}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    status, errors = run(folder, *BLOCKS, "--peers", "ort", "onnxscript", "ort-transformers", "ours-8bit", "bare")
    assert status == 0, errors
    assert "[2/2] bert-ffn 32/64, 1 thread, 4 tokens: ours 0." in errors
    return folder


@pytest.mark.slow
def test_every_competitor_of_every_cell_is_compared_and_timed(measured: Path) -> None:
    cells = store.read(measured / "times.json").cells
    assert [(cell.name, cell.tokens, cell.threads) for cell in cells] == [
        ("bert-ffn 32/64", 1, 1),
        ("bert-ffn 32/64", 4, 1),
    ]
    names = ["torch", "ort", "onnxscript", "ort-transformers", "ours", "ours-8bit", "bare"]
    for cell in cells:
        assert [timing.runtime for timing in cell.timings] == names
        assert [ratio.baseline for ratio in cell.ratios] == [name for name in names if name != OURS]
        assert all(error <= 1e-6 for name, error in cell.errors.items() if name != "ours-8bit")
        assert 1e-4 < cell.errors["ours-8bit"] < 0.02
        assert cell.refused == {}
        assert cell.limit is not None
        assert 0 < cell.limit < min(timing.median for timing in cell.timings)


@pytest.mark.slow
def test_the_page_is_made_again_from_the_json_alone(measured: Path) -> None:
    before = written(measured)
    assert set(before) == {
        "times.json",
        "times.md",
        "times-tables.md",
        "times/summary.svg",
        "times/bert-ffn-1-thread.svg",
    }
    for name in set(before) - {"times.json"}:
        (measured / name).unlink()
    assert run(measured, "--only-pages") == (0, "")
    assert written(measured) == before
    page = before["times-tables.md"].decode()
    assert "![latency over tokens](times/bert-ffn-1-thread.svg)" in page
    assert "`python scripts/benchmark.py --presets bert-ffn" in page


@pytest.mark.slow
def test_resuming_measures_what_is_missing_and_nothing_else(measured: Path, tmp_path: Path) -> None:
    before = store.read(measured / "times.json")
    store.write(replace(before, cells=before.cells[1:]), tmp_path / "times.json")
    status, errors = run(tmp_path, *BLOCKS, "--resume", "--peers", "ort")
    assert status == 0, errors
    after = store.read(tmp_path / "times.json")
    assert errors.startswith("[1/1] bert-ffn 32/64, 1 thread, 1 token: ")
    again, kept = after.cells  # by tokens, whenever they were measured
    assert kept == before.cells[1]
    assert (again.tokens, [timing.runtime for timing in again.timings]) == (1, ["torch", "ort", "ours"])
    assert len(after.commands) == 2


def test_the_commit_that_was_measured_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{7,}(, changed)?|version \S+", machine.revision())
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert machine.revision() == f"version {fx.__version__}"


@pytest.mark.parametrize(
    ("processor", "instructions", "reason"),
    [
        ("a 6502", machine.instruction_sets(), "processor a 6502 -> "),
        (machine.current(1).processor, "of an older one", "instruction sets of an older one -> "),
    ],
)
def test_results_of_another_place_are_not_gone_on_with(
    processor: str, instructions: str, reason: str, tmp_path: Path
) -> None:
    elsewhere = replace(machine.current(1), processor=processor)
    store.write(Results("2026-01-01 00:00", ("a command",), elsewhere, instructions), tmp_path / "times.json")
    status, errors = run(tmp_path, *BLOCKS, "--resume")
    assert status == 2
    assert f"was measured elsewhere ({reason}" in errors


@pytest.mark.slow
def test_without_pytorch_nothing_is_known_to_be_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(subject: Subject, threads: int) -> Made:
        raise UsageError("no memory for that")

    monkeypatch.setitem(COMPETITORS, "torch", Competitor("torch", refusing))
    status, errors = run(tmp_path, *BLOCKS[:2], "--tokens", "4", "--no-end-to-end", *TINY, "--peers", "ort")
    assert status == 0, errors
    (cell,) = store.read(tmp_path / "times.json").cells
    assert (cell.timings, cell.ratios) == ((), ())
    assert cell.refused["torch"] == "no memory for that"
    assert {cell.refused[name] for name in ("ort", OURS)} == {"there is no output of PyTorch's to compare with"}


@pytest.mark.slow
def test_what_is_made_halfway_is_made_again(tmp_path: Path) -> None:
    subject = block_subject("bert-ffn", (32, 64), (4,), tmp_path)

    def halfway(path: Path) -> None:
        path.write_bytes(b"half a model")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        subject.file("mine", halfway)
    path = subject.file("mine", lambda path: path.write_bytes(b"a model"))
    assert path.read_bytes() == b"a model"
    assert subject.file("mine", halfway) == path


@pytest.mark.slow
def test_a_wrong_competitor_is_shown_as_wrong_and_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_a_fault(subject: Subject, threads: int) -> Made:
        model = subject.model()
        scaled_weight(3.0)(model)
        return subject.file("faulty", partial(onnx_file.save, model)), SessionSettings()

    monkeypatch.setitem(COMPETITORS, "faulty", Competitor("ort-cpu", with_a_fault))
    status, errors = run(tmp_path, *BLOCKS[:2], "--tokens", "4", "--no-end-to-end", *TINY, "--peers", "faulty")
    assert status == 0, errors
    (cell,) = store.read(tmp_path / "times.json").cells
    assert cell.refused["faulty"].startswith("wrong: relative L2 error ")
    assert cell.timing("faulty") is None
    assert "| bert-ffn 32/64 | faulty | 1 | wrong: relative L2 error " in (tmp_path / "times-tables.md").read_text()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_whole_model_is_added_to_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WHOLE_MODELS, "tiny BERT", TINY_BERT)
    known = Accuracy("a model", 2, 20, (LayerError(0, 0.004, 0.009),), 0.004, 0.009, 0.02, 0.999, 1.0)
    cell = Cell("bert-ffn", (768, 3072), 64, 1, (), ())
    there = Results(
        "2026-01-01 00:00", ("before",), machine.current(1), machine.instruction_sets(), (cell,), accuracy=known
    )
    store.write(there, tmp_path / "times.json")
    status, errors = run(
        tmp_path,
        "--resume",
        "--presets",
        "bert-ffn",
        "--tokens",
        "64",
        "--widths",
        "768x3072",
        "--threads",
        "1",
        "--budget",
        "0.02",
        "--peers",
        "ort",
        "ours-8bit",
        "bare",
        "--models",
        "tiny BERT",
        "--whole-tokens",
        "5",
        "--export-runs",
        "0",
        "--no-tune-time",
    )
    assert status == 0, errors
    results = store.read(tmp_path / "times.json")
    assert len(results.cells) == 1
    assert results.accuracy == known
    (whole,) = results.whole
    assert [timing.runtime for timing in whole.timings] == ["torch", "ort", "ours", "ours-8bit"]
    assert whole.errors["ours"] < 1e-5
    assert "tiny BERT, medians in milliseconds:" in (tmp_path / "times-tables.md").read_text()


def test_what_fails_is_named_and_what_was_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Accuracy("a model", 2, 20, (LayerError(0, 0.004, 0.009),), 0.004, 0.009, 0.02, 0.999, 1.0)

    def failing() -> float:
        assert store.read(tmp_path / "times.json").accuracy == known  # written before the next thing begins
        raise OSError("no space left")

    monkeypatch.setattr(end_to_end, "accuracy", lambda *_: known)
    monkeypatch.setattr(pretrained, "installed", lambda: True)
    monkeypatch.setattr(end_to_end, "tune_seconds", failing)
    cell, whole = Cell("bert-ffn", (32, 64), 1, 1, (), ()), Cell(MINILM, (384, 1536), 5, 1, (), ())
    before = Results(
        "2026-01-01 00:00",
        ("before",),
        machine.current(1),
        machine.instruction_sets(),
        (cell,),
        (whole,),
        missing={"x": "gone"},
    )
    store.write(before, tmp_path / "times.json")
    status, errors = run(
        tmp_path,
        *BLOCKS[:2],
        "--tokens",
        "1",
        *TINY,
        "--resume",
        "--models",
        MINILM,
        "--whole-tokens",
        "5",
        "--export-runs",
        "0",
    )
    assert status == 0, errors
    after = store.read(tmp_path / "times.json")
    assert after.accuracy == known
    assert after.missing == {"x": "gone", "the time of ffn-export tune bert-ffn": "OSError: no space left"}
    page = (tmp_path / "times-tables.md").read_text()
    assert "Not measured: the time of ffn-export tune bert-ffn: OSError: no space left" in page
    assert "Not measured with 2 threads: bert-ffn 512/2048, " in page


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(not pretrained.installed(), reason=NOT_INSTALLED)
def test_8_bits_are_measured_on_what_goes_into_each_feed_forward(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, vocab_size=30522
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(pretrained.directory() / file, tmp_path)
    found = accuracy("a tiny BERT", tmp_path, lambda line: None)
    assert found.sentences == 36
    assert found.tokens > 10 * found.sentences
    assert [layer.layer for layer in found.layers] == [0, 1]
    assert all(1e-4 < error < 0.03 for layer in found.layers for error in (layer.products, layer.block))
    for overall in ("products", "block"):
        assert min(getattr(layer, overall) for layer in found.layers) <= getattr(found, overall)
        assert getattr(found, overall) <= max(getattr(layer, overall) for layer in found.layers)
    assert 0.99 < found.cosine < 1


@pytest.mark.exhaustive
def test_both_exports_are_timed_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WHOLE_MODELS, "tiny BERT", TINY_BERT)
    times = export_times("tiny BERT", 1, 1, lambda line: None)
    for seconds in (times.torch, times.export, times.fuse, times.checked_fuse):
        assert len(seconds) == 1
        assert seconds[0] > 0


def test_long_runs_are_warmed_up_three_times_and_timed_one_by_one() -> None:
    effort = Effort(budget=1.0, rounds=5)
    assert effort.pace(0.001, several_sessions=True).warm_up > 1
    assert effort.pace(0.1, several_sessions=False) == Pace(2, 10, 10, block=1, untimed=0)
    assert effort.pace(0.5, several_sessions=True) == Pace(1, 5, 5, block=1, untimed=0)


@pytest.mark.parametrize("preset", STRUCTURES)
def test_at_its_own_widths_a_block_is_the_preset(preset: str) -> None:
    own = fx.create(preset)
    up = next(module for module in own.modules() if isinstance(module, torch.nn.Linear))
    made = block(preset, up.in_features, up.out_features)
    assert repr(made) == repr(own)
    assert all(torch.equal(made.state_dict()[name], value) for name, value in own.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "outputs"), [("gpt2-ffn", 1), ("llama-ffn", 2)])
def test_bare_is_the_products_and_nothing_else(preset: str, outputs: int, tmp_path: Path) -> None:
    subject = block_subject(preset, (32, 64), (4,), tmp_path)
    path, settings = bare(subject, 1)
    assert {node.op_type for node in onnx_file.load(path).graph} == {"MatMul"}
    feeds = subject.feeds(4)
    results = list(get_runtime("ort-cpu").load(Artifact(path, None, settings), 1).run(feeds).values())
    assert len(results) == outputs
    weights = [p.detach().numpy() for name, p in subject.source.module.named_parameters() if p.dim() == 2]
    np.testing.assert_allclose(results[0], feeds["x"] @ weights[0].T @ weights[-1].T, rtol=1e-4, atol=1e-5)
    if outputs == 2:
        np.testing.assert_allclose(results[1], feeds["x"] @ weights[1].T, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_time_of_a_run_is_taken_apart_by_operators(tmp_path: Path) -> None:
    subject = block_subject("bert-ffn", (32, 64), (64,), tmp_path)
    artifact = Artifact(subject.path, None, SessionSettings("disable_all", {}))
    feeds = subject.feeds(64)
    ours = operators.taken_apart({"ours": operators.ort_profile(artifact, 1, feeds)})["ours"]
    assert {"MatMul", "Gelu", "LayerNormalization", "Add"} <= set(ours)
    assert all(seconds >= 0 for seconds in ours.values())
    assert list(ours.values()) == sorted(ours.values(), reverse=True)
    reason = openvino_cpu.FLOAT32.unavailable(artifact)
    if reason is not None:
        pytest.skip(reason)
    profiles = {"ort": operators.ort_profile, "openvino": operators.openvino_profile}
    both = operators.taken_apart({name: make(artifact, 1, feeds) for name, make in profiles.items()})
    assert set(both["ort"]) == set(ours)
    assert "FullyConnected" in both["openvino"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--peers", "ortt"), "unknown competitor 'ortt'; did you mean 'ort'?"),
        (("--widths", "768"), "'768' is no pair of widths: write D_MODELxD_FF, such as 768x3072"),
        (("--tokens", "0"), "'0' is no whole number of 1 or more"),
        (("--presets", "bert"), "invalid choice: 'bert'"),
        (("--only-pages",), "run the benchmark first"),
    ],
)
def test_bad_usage_is_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    status, errors = run(tmp_path, *arguments)
    assert status == 2
    assert message in errors.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_json_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "times.json").write_text('{"schema": "another/1"}')
    status, errors = run(tmp_path, "--only-pages")
    assert status == 2
    assert "holds no results of this script" in errors
