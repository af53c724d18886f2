"""What was tried to make a model faster, and what was chosen."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ffn_export.reports.tables.environment import environment_line
from ffn_export.reports.tables.layout import GOOD, QUIET, UNSURE, add_row, new_table
from ffn_export.tuning.result import Pair, Trial, TuningResult

_STYLES = {"taken": GOOD, "refused": UNSURE}


def tuning_table(result: TuningResult) -> RenderableType:
    """Return one row for each thing that was tried, the lead on held-out rounds, and the choice.

    Each ratio is the time over the best so far at that point; below 1 is faster.
    """
    labels = list(dict.fromkeys(pair.label for trial in result.trials for pair in trial.pairs))
    table = new_table("tried", *labels, "outcome", numbers=labels)
    for trial in result.trials:
        if trial.outcome != "changes nothing":
            add_row(table, trial.move, *_cells(trial.pairs, labels), _outcome(trial))
    if result.held_out:
        add_row(table, "the best over the default, again", *_cells(result.held_out, labels), result.reason)
    same = [trial.move for trial in result.trials if trial.outcome == "changes nothing"]
    notes = [Text(f"changes nothing in this model: {', '.join(same)}", QUIET)] if same else []
    return Group(
        Text(f"tuning for {result.target}: time over the best so far (ratio)"),
        table,
        *notes,
        Text(f"chosen: {chosen_words(result)}", GOOD if result.leaves_default else ""),
        environment_line(result.environment),
    )


def chosen_words(result: TuningResult) -> str:
    """Return the choice and its reason in one line."""
    choice = result.chosen
    if not result.leaves_default:
        return f"the default; {result.reason}"
    parts = [*sorted(choice.forms.rules)]
    if choice.forms.chunk is not None:
        parts.append(f"chunks of {choice.forms.chunk} tokens")
    if choice.quantization is not None:
        parts.append(f"{choice.quantization.bits}-bit weights")
    if choice.settings != result.default.settings:
        entries = [f"{key}={value}" for key, value in choice.settings.config_entries.items()]
        parts.append(f"optimisation level {choice.settings.graph_optimization_level} {' '.join(entries)}".rstrip())
    return f"{', '.join(parts) or 'plain nodes'}; {result.reason}"


def _cells(pairs: tuple[Pair, ...], labels: list[str]) -> list[str]:
    ratios = {pair.label: f"{pair.ratio.value:.3f}{' (tie)' if pair.ratio.is_tie else ''}" for pair in pairs}
    return [ratios.get(label, "") for label in labels]


def _outcome(trial: Trial) -> Text:
    words = f"refused: {trial.reason}" if trial.outcome == "refused" else trial.outcome
    return Text(words, _STYLES.get(trial.outcome, ""))
