"""The search: one thing is changed at a time, what is faster is kept, and the best is timed again against the default.

What is found by picking the fastest of many is flattered by the noise that it was picked for. So the best is held
against the default once more, on new sessions and rounds that had no part in finding it, and has to lead by a margin.
What the runtime makes of a file under other session options, and weights in few bits, compute something else: such a
change is taken only if it passes what the result has to pass.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Progress, silent
from ffn_export.errors import FfnExportError, UsageError
from ffn_export.fusion.decisions import default_forms, open_names
from ffn_export.fusion.targets import Target, get_target
from ffn_export.latency.sizes import token_count, token_sizes
from ffn_export.parity.reference.references import graph_inputs
from ffn_export.runtimes import environment
from ffn_export.runtimes.threads import chosen_threads
from ffn_export.tuning.candidates import Candidate, Candidates
from ffn_export.tuning.choice import Choice
from ffn_export.tuning.contest import Contest, loader
from ffn_export.tuning.final_check import Gate, own_gate
from ffn_export.tuning.moves import Move, moves
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.result import Pair, Trial, TuningResult, lead, mean_ratio, unmeasured

# A candidate that is slower than this is nothing to go on from; what is faster has yet to prove it.
_STEP = 0.99
_HELD_OUT_SEED = 1


def search(
    model: ir.Model,
    target: str = "ort-cpu",
    options: TuneOptions | None = None,
    *,
    specs: Sequence[TensorSpec] | None = None,
    gate: Gate | None = None,
    outline: bool = False,
    threads: int | None = None,
    progress: Progress = silent,
) -> TuningResult:
    """Choose the forms of a model and its session options by measuring them here.

    Args:
        model: The model as it was exported; it is left unchanged.
        target: ``ort-cpu`` or ``ort-cuda``.
        options: How; None means the defaults.
        specs: Its inputs, with bounds of axes and ranges of integers; None reads them off the graph.
        gate: What the result has to pass; None means the model's own outputs as it was exported.
        outline: Whether each feed-forward of the result will be one node, which has no pieces.
        threads: Intra-op threads; None means the processors that this process may run on.
        progress: Called with a line for each thing that is tried.

    Raises:
        UsageError: If the target leaves nothing open, no number of tokens is given, or the model takes none of them.
        RuntimeUnavailableError: If the target's runtime is not available here.
    """
    options = options or TuneOptions()
    chosen_target = check(target, options)
    threads = chosen_threads(threads)
    specs = graph_inputs(model) if specs is None else specs
    asked = [token_sizes(specs, count) for count in options.tokens]
    # Bounds of an axis may make the same of two lengths.
    sizes = [size for place, size in enumerate(asked) if size not in asked[:place]]
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as scratch:
        candidates = Candidates(model, target, Path(scratch))
        start = Choice(default_forms(chosen_target))
        default = candidates.make(start.whole() if outline else start)
        contest = Contest(specs, sizes, options.load or loader(target, threads), options.seconds)
        contest, refused = contest.without_refused(default)
        if not contest.sizes:
            raise UsageError(f"the model takes none of these numbers of tokens: {refused[0].reason}")
        if gate is None:
            exported = Path(scratch) / "own" / "exported.onnx"
            exported.parent.mkdir()
            onnx_file.save(model, exported)
            gate = own_gate(exported, options, threads)
        search = _Search(target, candidates, contest, options, gate, threads, progress, default, refused)
        for move in moves(
            chosen_target,
            search.default.choice,
            [token_count(specs, size) for size in contest.sizes],
            threads,
            on_cpu=target == "ort-cpu",
            few_bits=options.budget is not None,
            outline=outline,
        ):
            search.attempt(move)
        return search.result()


def check(target: str, options: TuneOptions) -> Target:
    """Return the target, if it leaves something to choose.

    Raises:
        UsageError: If it does not, there is none of this name, or no number of tokens is given.
    """
    chosen = get_target(target)
    if not open_names(chosen):
        raise UsageError(f"{target} has one form of each site, so nothing to tune: take --target ort-cpu or ort-cuda")
    if not options.tokens:
        raise UsageError("name the numbers of tokens to tune for")
    return chosen


class _Search:
    """What was tried, and the best so far."""

    def __init__(
        self,
        target: str,
        candidates: Candidates,
        contest: Contest,
        options: TuneOptions,
        gate: Gate,
        threads: int,
        progress: Progress,
        default: Candidate,
        trials: Sequence[Trial],
    ) -> None:
        self._target, self._candidates, self._contest = target, candidates, contest
        self._options, self._gate = options, gate
        self._threads, self._progress = threads, progress
        self.default = self._best = default
        self._trials = list(trials)

    def attempt(self, move: Move) -> None:
        """Change one thing of the best so far, and keep the change where that is faster."""
        try:
            candidate = self._candidates.make(move.apply(self._best.choice))
        except Exception as error:  # noqa: BLE001 - what cannot be made must not end the search
            expose_own(error)
            self._trials.append(Trial(move.name, "refused", _said(error)))
            return
        trial = self._judged(candidate, move)
        dropped = candidate
        if trial.outcome == "taken":
            self._best, dropped = candidate, self._best
        if dropped is not self.default:  # which the best is timed against at last
            dropped.discard()
        self._trials.append(trial)

    def _judged(self, candidate: Candidate, move: Move) -> Trial:
        """Hold a candidate against the best so far."""
        if candidate.fingerprint == self._best.fingerprint:
            return Trial(move.name, "changes nothing", "the graph and the options stay as they are")
        try:
            self._progress(f"timing {move.name}")
            pairs = self._contest.between(candidate, self._best)
            mean = mean_ratio(pairs)
            if mean > _STEP or not _is_ahead(pairs):
                return Trial(move.name, "left", f"{mean:.3f} of the time of the best so far{_but(pairs)}", pairs)
            failure = self._failure(candidate)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises of a candidate
            expose_own(error)
            return Trial(move.name, "refused", _said(error))
        if failure is not None:
            return Trial(move.name, "refused", failure, pairs)
        return Trial(move.name, "taken", f"{mean:.3f} of the time of the best so far", pairs)

    def _failure(self, candidate: Candidate) -> str | None:
        """Return why a candidate fails the gate, or None. Forms alone are compared once, of the best (see `undone`)."""
        old, new = self._best.choice, candidate.choice
        if (new.settings, new.quantization) == (old.settings, old.quantization):
            return None
        parity = self._gate.verify(candidate.path, new, runtimes=[self._target], threads=self._threads)
        return None if parity.passed else parity.failures[0]

    def result(self) -> TuningResult:
        """Hold the best against the default on rounds of their own, and choose."""
        held_out: tuple[Pair, ...] = ()
        chosen, reason = self.default.choice, "nothing that was tried was faster"
        if self._best is not self.default:
            try:
                held_out = self._timed_again()
                leads, figures = lead(held_out)
                undone = self._candidates.undone(self._best) if leads else None
            except Exception as error:  # noqa: BLE001 - as of a candidate: what was found until then is kept
                expose_own(error)
                leads, reason = False, f"the best could not be held against the default: {_said(error)}"
            else:
                reason = f"{'ahead of the default' if leads else 'the lead over the default is too small'}: {figures}"
                if undone is not None:
                    leads, reason = False, f"the best is wrong in one of its forms: {undone}"
            chosen = self._best.choice if leads else self.default.choice
        return TuningResult(
            self._target,
            self._target,
            tuple(self._options.tokens),
            self.default.choice,
            self._best.choice,
            chosen,
            reason,
            tuple(self._trials),
            held_out,
            environment.current(self._threads),
        )

    def _timed_again(self) -> tuple[Pair, ...]:
        """Return the best over the default, on new sessions and rounds."""
        self._progress("timing the best against the default again")
        budget = 4 * self._options.seconds
        return self._contest.between(self._best, self.default, budget=budget, seed=_HELD_OUT_SEED)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, FfnExportError) else first_line(error)


def _but(pairs: Sequence[Pair]) -> str:
    """Name where a candidate is slower beyond the noise, and where nothing was learnt."""
    slower = [pair.label for pair in pairs if pair.ratio.verdict == "slower"]
    unsure = unmeasured(pairs)
    return (f", slower at {' and '.join(slower)}" if slower else "") + (f", {unsure}" if unsure else "")


def _is_ahead(pairs: Sequence[Pair]) -> bool:
    """Whether a candidate is faster somewhere beyond the noise of its rounds, and slower or inconclusive nowhere."""
    verdicts = {pair.ratio.verdict for pair in pairs}
    return "faster" in verdicts and not verdicts & {"slower", "inconclusive"}
