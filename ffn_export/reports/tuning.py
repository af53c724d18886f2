"""A tuning result as table rows and sentences, for every report."""

from __future__ import annotations

from collections.abc import Iterable

from ffn_export.latency.result import Ratio
from ffn_export.tuning.result import Pair, TuningResult

CAPTION = "time over the best so far (ratio)"
HELD_OUT = "the best over the default, again"


def headers(result: TuningResult) -> tuple[str, ...]:
    """Return the timed sizes, which are the columns of numbers."""
    return tuple(dict.fromkeys(pair.label for trial in result.trials for pair in trial.pairs))


def rows(result: TuningResult) -> list[tuple[str, ...]]:
    """Return a row for each move: ratio at each size, outcome and reason; the held-out rounds are last."""
    shown = [
        (trial.move, *_cells(trial.pairs, headers(result)), trial.outcome, trial.reason)
        for trial in result.trials
        if trial.outcome != "changes nothing"
    ]
    if result.held_out:
        outcome = "chosen" if result.leaves_default else "left"
        shown.append((HELD_OUT, *_cells(result.held_out, headers(result)), outcome, result.reason))
    return shown


def same_words(result: TuningResult) -> str:
    """Return the moves that change nothing in this model, in one line; empty if none does."""
    same = [trial.move for trial in result.trials if trial.outcome == "changes nothing"]
    return f"changes nothing in this model: {', '.join(same)}" if same else ""


def chosen_words(result: TuningResult) -> str:
    """Return the choice and its reason in one line."""
    choice, default = result.chosen, result.default
    if not result.leaves_default:
        return f"chosen: the default; {result.reason}"
    parts = sorted(choice.forms - default.forms)
    parts += [f"without {name}" for name in sorted(default.forms - choice.forms)]
    if choice.quantization is not None:
        parts.append("8-bit integers" if choice.quantization.int8 else f"{choice.quantization.bits}-bit weights")
    if choice.precision is not None and choice.precision != default.precision:
        raised = f" but for {', '.join(choice.raised)}" if choice.raised else ""
        parts.append(f"precision {choice.precision}{raised}")
    if choice.settings != default.settings:
        parts.append(f"session options {choice.settings.words()}")
    return f"chosen: {', '.join(parts)}; {result.reason}"


def _cells(pairs: Iterable[Pair], labels: Iterable[str]) -> list[str]:
    ratios = {pair.label: _ratio_words(pair.ratio) for pair in pairs}
    return [ratios.get(label, "") for label in labels]


def _ratio_words(ratio: Ratio) -> str:
    if ratio.verdict == "inconclusive":
        return "inconclusive"
    return f"{ratio.value:.3f}{' (tie)' if ratio.is_tie else ''}"
