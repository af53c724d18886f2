"""Greedy search of the tuning: change one thing at a time, and keep the change if it is faster.

The fastest of many candidates is partly the luckiest one. So the best is timed against the default again, on new
sessions and rounds that had no part in the search, and must lead by a margin.

Other session options and quantised weights change the outputs. These changes are taken only if they pass the
verification of the result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Progress, silent
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.fusion.forms.choice import in_use
from ffn_export.fusion.targets import NATIVE, Target, get_target
from ffn_export.latency.sizes import token_count, token_sizes
from ffn_export.parity.cases.case import given_cases, samples_of
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.runtimes import environment
from ffn_export.runtimes.default_session import default_session
from ffn_export.runtimes.ort_native import FLOAT32, of_lower_precision
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.tuning.candidates import Candidate, Candidates
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.contest import Contest, loader
from ffn_export.tuning.final_check import Gate, own_gate
from ffn_export.tuning.moves import Move, moves
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.result import Pair, Trial, TuningResult, lead, mean_ratio, unmeasured

# Largest ratio to the best so far at which a candidate is taken. The held-out timing decides about the default.
_STEP = 0.99
_HELD_OUT_SEED = 1


def search(
    model: ir.Model,
    target: str = "ort-cpu",
    options: TuneOptions | None = None,
    *,
    specs: Sequence[TensorSpec] | None = None,
    gate: Gate | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> TuningResult:
    """Choose the forms of a model and its session options by timing them on this machine.

    Args:
        model: The model as exported; it is not modified.
        target: ``ort-cpu``, ``ort-cuda`` or ``ort-native``.
        options: Options of the tuning; None means the defaults.
        specs: Inputs of the model, with bounds of axes and ranges of integers; None reads them from the graph.
        gate: Verification that the result must pass; None compares with the exported model.
        threads: Intra-op threads; None means the number of processors available to this process.
        progress: Called with a line for each trial.

    Raises:
        UsageError: If the target has nothing to choose, no number of tokens is given, or the model runs on none.
        RuntimeUnavailableError: If the target's runtime is not available here.
    """
    options = options or TuneOptions()
    chosen_target = check(target)
    threads = chosen_threads(threads)
    specs = graph_inputs(model) if specs is None else specs
    asked = [token_sizes(specs, count) for count in options.tokens]
    # Two lengths may be clamped to the same size by the bounds of an axis.
    sizes = [size for place, size in enumerate(asked) if size not in asked[:place]]
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        seed = 0 if gate is None else gate.seed
        drawn = drawn_inputs(specs, seed) if options.budget is not None else None
        samples = samples_of(given_cases(options.samples, specs))
        candidates = Candidates(model, target, Path(scratch), samples, drawn, threads)
        precision = FLOAT32.precision if target == NATIVE else None
        default = candidates.make(Choice(in_use(None, chosen_target), precision=precision))
        contest = Contest(specs, sizes, options.load or loader(target, threads), options.seconds)
        contest, refused = contest.without_refused(default)
        if not contest.sizes:
            raise UsageError(f"the model takes none of these numbers of tokens: {refused[0].reason}")
        if gate is None:
            exported = Path(scratch) / "own" / "exported.onnx"
            exported.parent.mkdir()
            onnx_file.save(model, exported)
            gate = own_gate(exported, options, threads)
        search = _Search(target, candidates, contest, options, gate, threads, progress, default, default, [*refused])
        for move in moves(
            chosen_target.optional,
            search.default.choice,
            [token_count(specs, size) for size in contest.sizes],
            threads,
            session=default_session(model) if target == "ort-cpu" else None,
            few_bits=options.budget is not None,
        ):
            search.attempt(move)
        return search.result()


def check(target: str) -> Target:
    """Return the target, after checking that it can be tuned.

    Raises:
        UsageError: If the target is unknown or has nothing to choose.
    """
    chosen = get_target(target)
    if not chosen.is_tunable:
        raise UsageError(
            f"{target} has one form of each site, so nothing to tune: take --target ort-cpu, {NATIVE} or ort-cuda"
        )
    return chosen


@dataclass
class _Search:
    """State of a search: the trials, and the best candidate so far."""

    target: str
    candidates: Candidates
    contest: Contest
    options: TuneOptions
    gate: Gate
    threads: int
    progress: Progress
    default: Candidate
    best: Candidate
    trials: list[Trial]

    def attempt(self, move: Move) -> None:
        """Apply a move to the best so far, and keep the result if it is faster."""
        try:
            candidate = self.candidates.make(move.apply(self.best.choice))
        except Exception as error:  # noqa: BLE001 - a candidate that cannot be made must not end the search
            expose_own(error)
            self.trials.append(Trial(move.name, "refused", _said(error)))
            return
        trial = self._entered(candidate, move.name)
        if trial.outcome == "refused" and trial.pairs:  # faster, and wrong by more than the budget
            self._attempt_raised(candidate.choice, move.name)

    def _attempt_raised(self, choice: Choice, name: str) -> None:
        """Apply a move that is over the budget to all nodes but some, which compute more precisely."""
        if self.gate.few_bits_budget is None:
            return
        name += ", some nodes more precise"
        try:
            found = self.candidates.raised(choice, self.gate.few_bits_budget, self.progress)
        except Exception as error:  # noqa: BLE001 - as above
            expose_own(error)
            self.trials.append(Trial(name, "refused", _said(error)))
            return
        if found is not None:
            candidate, kept = found
            self._entered(candidate, name, f"; {kept.told}")

    def _entered(self, candidate: Candidate, name: str, more: str = "") -> Trial:
        """Judge a candidate and make it the best if it is taken; `more` is added to the reason."""
        trial = self._judged(candidate, name)
        trial = replace(trial, reason=trial.reason + more)
        dropped = candidate
        if trial.outcome == "taken":
            self.best, dropped = candidate, self.best
        if dropped is not self.default:  # the best is timed against the default at the end
            dropped.discard()
        self.trials.append(trial)
        return trial

    def _judged(self, candidate: Candidate, name: str) -> Trial:
        """Time a candidate against the best so far, and verify it if it is faster."""
        if candidate.fingerprint == self.best.fingerprint:
            return Trial(name, "changes nothing", "the graph and the options stay as they are")
        try:
            self.progress(f"timing {name}")
            pairs = self.contest.between(candidate, self.best)
            mean = mean_ratio(pairs)
            if mean > _STEP or not _is_ahead(pairs):
                return Trial(name, "left", f"{mean:.3f} of the time of the best so far{_but(pairs)}", pairs)
            failure, words = self._failure(candidate)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises of a candidate
            expose_own(error)
            return Trial(name, "refused", _said(error))
        if failure is not None:
            return Trial(name, "refused", failure, pairs)
        return Trial(name, "taken", f"{mean:.3f} of the time of the best so far{words}", pairs)

    def _failure(self, candidate: Candidate) -> tuple[str | None, str]:
        """Return why a candidate fails the gate, or None; and its error, in words, if it has a budget.

        Forms alone are checked once, for the best (see `undone`).
        """
        old, new = self.best.choice, candidate.choice
        if (new.settings, new.quantization, new.precision) == (old.settings, old.quantization, old.precision):
            return None, ""
        lower = of_lower_precision(new.precision)
        runtime = self.target if lower is None else lower.name
        parity = self.gate.verify(candidate.path, new, runtimes=[runtime], threads=self.threads)
        failure = None if parity.passed else parity.failures[0]
        if parity.tolerances.relative_l2 is None:
            return failure, ""
        errors = [output.actual.relative_l2 for case in parity.cases for output in case.outputs]
        return failure, f", relative L2 error {max(errors, default=0):.1e}"

    def result(self) -> TuningResult:
        """Time the best against the default on held-out rounds, and choose."""
        held_out: tuple[Pair, ...] = ()
        chosen, reason = self.default.choice, "nothing that was tried was faster"
        if self.default.choice.precision is not None and self.options.budget is None:
            reason = "only float32 needs no budget; bfloat16 and 8-bit integers are tried within one"
        if self.best is not self.default:
            try:
                held_out = self._timed_again()
                leads, figures = lead(held_out)
                undone = self.candidates.undone(self.best) if leads else None
            except Exception as error:  # noqa: BLE001 - as for a candidate; keep the trials so far
                expose_own(error)
                leads, reason = False, f"the best could not be held against the default: {_said(error)}"
            else:
                reason = f"{'ahead of the default' if leads else 'the lead over the default is too small'}: {figures}"
                if undone is not None:
                    leads, reason = False, f"the best is wrong in one of its forms: {undone}"
            chosen = self.best.choice if leads else self.default.choice
        return TuningResult(
            self.target,
            self.target,
            tuple(self.options.tokens),
            self.default.choice,
            self.best.choice,
            chosen,
            reason,
            tuple(self.trials),
            held_out,
            environment.current(self.threads),
        )

    def _timed_again(self) -> tuple[Pair, ...]:
        """Return the best's times over the default's, on new sessions and rounds."""
        self.progress("timing the best against the default again")
        budget = 4 * self.options.seconds
        return self.contest.between(self.best, self.default, budget=budget, seed=_HELD_OUT_SEED)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, FfnExportError) else first_line(error)


def _but(pairs: Sequence[Pair]) -> str:
    """Return the sizes at which a candidate is slower or inconclusive, in words."""
    slower = [pair.label for pair in pairs if pair.ratio.verdict == "slower"]
    unsure = unmeasured(pairs)
    return (f", slower at {' and '.join(slower)}" if slower else "") + (f", {unsure}" if unsure else "")


def _is_ahead(pairs: Sequence[Pair]) -> bool:
    """Whether a candidate is faster at some sizes, and nowhere slower or inconclusive."""
    verdicts = {pair.ratio.verdict for pair in pairs}
    return "faster" in verdicts and not verdicts & {"slower", "inconclusive"}
