"""The choice follows the clock: what is slow is left, what is fast is taken, and luck is no lead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import pytest
import torch

import ffn_export as fx
from ffn_export.core import onnx_file
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.fusion.builder import Builder
from ffn_export.fusion.forms.by_rows import row_chunks
from ffn_export.fusion.forms.by_rows.copy import write
from ffn_export.fusion.forms.by_rows.row_chunks import NAME as CHUNKS
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.latency.sessions import SESSIONS
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.tuning.candidates import Candidate
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.result import TuningResult
from ffn_export.tuning.search import search
from tests.fusion.feed_forwards import feed_forward
from tests.tuning.planted import FAST, SLOW, Clock, Delayed, loading

TOKENS = ROW_CHUNKS.least_tokens
Tuned = Callable[[Callable[[Choice], bool]], TuningResult]


@pytest.fixture(scope="module")
def exported() -> ir.Model:
    return fx.export("d2l-ffn")


@pytest.fixture
def tuned(exported: ir.Model, clock: Clock) -> Tuned:
    """Tune for inputs of two chunks, where the choices that are named take four times as long."""
    return lambda is_slow: with_load(exported, loading(is_slow, clock.sleep))


def with_load(model: ir.Model, load: Callable[[Candidate], Runner], budget: float | None = None) -> TuningResult:
    return search(model, options=TuneOptions((TOKENS,), 0.05, budget=budget, load=load), threads=1)


@pytest.mark.slow
def test_a_slow_default_is_left_for_what_is_faster(tuned: Tuned) -> None:
    result = tuned(lambda choice: CHUNKS not in choice.forms)
    assert result.chosen.forms == result.default.forms | {CHUNKS}
    assert result.leaves_default
    assert [trial.move for trial in result.trials if trial.outcome == "taken"] == [f"with {CHUNKS}"]
    assert result.held_out[0].ratio.value < 0.7
    assert result.reason.startswith("ahead of the default: 0.")


@pytest.mark.slow
def test_the_same_candidate_made_slow_is_left(tuned: Tuned) -> None:
    result = tuned(lambda choice: CHUNKS in choice.forms)
    assert result.chosen == result.default
    (trial,) = (each for each in result.trials if each.move == f"with {CHUNKS}")
    assert trial.outcome == "left"
    assert trial.pairs[0].ratio.value > 1.5


@pytest.mark.slow
def test_session_options_are_chosen_too(tuned: Tuned) -> None:
    result = tuned(lambda choice: choice.settings.graph_optimization_level == "basic")
    assert result.chosen.settings.graph_optimization_level == "all"
    assert result.default.settings.graph_optimization_level == "basic"


@pytest.mark.slow
def test_changes_are_put_together(exported: ir.Model, clock: Clock) -> None:
    """Each of both takes something off."""

    def load(candidate: Candidate) -> Runner:
        choice = candidate.choice
        left = (CHUNKS not in choice.forms) + (choice.settings.graph_optimization_level != "all")
        return Delayed(candidate, FAST * (1 + left), clock.sleep)

    result = with_load(exported, load)
    assert result.chosen.forms == result.default.forms | {CHUNKS}
    assert result.chosen.settings.graph_optimization_level == "all"


@pytest.mark.slow
def test_a_lead_that_does_not_last_is_none(exported: ir.Model, clock: Clock) -> None:
    """The best is timed again on new sessions; what was fast by chance is not fast there."""
    loaded: list[str] = []

    def load(candidate: Candidate) -> Runner:
        loaded.append(candidate.fingerprint)
        is_lucky = CHUNKS in candidate.choice.forms and loaded.count(candidate.fingerprint) <= SESSIONS
        return Delayed(candidate, FAST if is_lucky else SLOW, clock.sleep)

    result = with_load(exported, load)
    assert CHUNKS in result.best.forms
    assert result.chosen == result.default
    assert result.reason.startswith("the lead over the default is too small: ")


@pytest.mark.slow
def test_what_was_dropped_leaves_no_file(exported: ir.Model, clock: Clock) -> None:
    """There are the default, the best so far and what is held against it, whatever was taken, left or refused."""
    files: list[set[str]] = []

    def load(candidate: Candidate) -> Runner:
        files.append({path.name for path in candidate.path.parent.glob("*.onnx")})
        settings = candidate.choice.settings
        if settings.graph_optimization_level == "all" and settings.config_entries:
            raise RuntimeUnavailableError("not with these")
        left = (CHUNKS not in candidate.choice.forms) + (settings.graph_optimization_level != "all")
        return Delayed(candidate, FAST * (1 + left), clock.sleep)

    result = with_load(exported, load)
    assert [trial.outcome for trial in result.trials].count("taken") == 2
    assert {trial.reason for trial in result.trials if trial.outcome == "refused"} == {"not with these"}
    assert max(map(len, files)) == 3
    assert len(files[-1]) == 2  # at last the best is timed against the default


@pytest.mark.slow
def test_what_changes_nothing_is_not_timed(tuned: Tuned) -> None:
    result = tuned(lambda choice: False)
    assert "with padded-widths" in {t.move for t in result.trials if t.outcome == "changes nothing"}
    assert all(not trial.pairs for trial in result.trials if trial.outcome == "changes nothing")


@pytest.mark.slow
def test_8_bits_within_the_budget_only(clock: Clock) -> None:
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 64)).eval()
    module = fx.export(small, {"x": "float32[batch,seq,64]"})
    load = loading(lambda choice: choice.quantization is None, clock.sleep)
    within, beyond = (with_load(module, load, budget) for budget in (0.05, 1e-5))
    assert within.chosen.quantization is not None
    assert within.chosen.quantization.bits == 8
    (trial,) = (each for each in beyond.trials if each.move == "8-bit weights")
    assert trial.outcome == "refused"
    assert "relative L2" in trial.reason
    assert beyond.chosen == beyond.default


@pytest.mark.slow
def test_the_evidence_is_plain_data(tuned: Tuned) -> None:
    result = tuned(lambda choice: CHUNKS not in choice.forms)
    assert TuningResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
    assert result.environment is not None
    assert (result.environment.threads, result.tokens) == (1, (TOKENS,))


def test_what_leaves_nothing_to_choose(exported: ir.Model) -> None:
    with pytest.raises(UsageError, match="portable has one form of each site"):
        search(exported, "portable")
    with pytest.raises(UsageError, match="tokens are a list of lengths"):
        TuneOptions(())


def test_a_runtime_that_is_not_here(exported: ir.Model, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx_file.save(exported, path)
    if get_runtime("ort-cuda").unavailable(Artifact(path)) is None:
        pytest.skip("CUDA is available here")
    with pytest.raises(RuntimeUnavailableError):
        search(exported, "ort-cuda", TuneOptions((TOKENS,), 0.01))


@pytest.mark.slow
def test_a_length_that_the_model_refuses_is_left_out() -> None:
    """Its positions are four; a length of 1 fits them too."""
    body = "h = MatMul(x, w1) a = Add(h, b1) g = Gelu(a) o = MatMul(g, w2) y = Add(o, positions)"
    short = feed_forward(f"positions = Constant<value = float[4,1] {{1, 2, 3, 4}}>() {body}")
    result = search(short, options=TuneOptions((1, 4, 5), 0.001), threads=1)
    (refused,) = (trial for trial in result.trials if trial.move.startswith("inputs of "))
    assert (refused.move, refused.outcome) == ("inputs of batch=1,seq=5", "refused")
    assert {pair.label for trial in result.trials for pair in trial.pairs} == {"batch=1,seq=1", "batch=1,seq=4"}
    with pytest.raises(UsageError, match="takes none of these numbers of tokens"):
        search(short, options=TuneOptions((5, 7), 0.001), threads=1)


@pytest.mark.slow
def test_a_form_that_is_wrong_is_not_chosen_however_fast_it_is(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(op: Builder, x: ir.Value, *, reading: Reading) -> ir.Value:
        y = write(op, x, reading=reading)
        doubled = op.Add(y, y)
        doubled.type, doubled.shape = y.type, y.shape
        return doubled

    monkeypatch.setattr(row_chunks, "write", twice)
    result = tuned(lambda choice: CHUNKS not in choice.forms)
    assert CHUNKS in result.best.forms
    assert result.chosen == result.default
    assert result.reason.startswith("the best is wrong in one of its forms: ")


@pytest.mark.slow
def test_options_under_which_the_result_would_fail_are_not_taken_however_fast_they_are(clock: Clock) -> None:
    """ONNX Runtime's own optimiser puts the sum and the norm into one node, which is less accurate on some rows."""

    class Residual(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down, self.norm = (
                torch.nn.Linear(1024, 16),
                torch.nn.Linear(16, 1024),
                torch.nn.LayerNorm(1024),
            )
            torch.nn.init.zeros_(self.down.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.norm(x + self.down(torch.relu(self.up(x))))
            return y

    exported = fx.export(Residual().eval(), {"x": "float32[batch,seq,1024]"})
    result = with_load(
        exported, loading(lambda choice: choice.settings.graph_optimization_level == "basic", clock.sleep)
    )
    refused = next(trial for trial in result.trials if trial.move == "the runtime's own optimiser, all of it")
    assert refused.outcome == "refused"
    assert refused.pairs[0].ratio.value < 0.7
    assert "units in the last place" in refused.reason
    assert result.chosen.settings != SessionSettings("all", {})


def test_what_a_runtime_raises_at_last_keeps_the_default_and_the_evidence(exported: ir.Model, clock: Clock) -> None:
    said: list[str] = []

    def load(candidate: Candidate) -> Runner:
        if said and said[-1].startswith("timing the best"):
            raise MemoryError("no room for one more session")
        return Delayed(candidate, SLOW if CHUNKS not in candidate.choice.forms else FAST, clock.sleep)

    result = search(exported, options=TuneOptions((TOKENS,), 0.05, load=load), threads=1, progress=said.append)
    assert result.chosen == result.default != result.best
    assert result.reason == "the best could not be held against the default: MemoryError: no room for one more session"
    assert result.trials
