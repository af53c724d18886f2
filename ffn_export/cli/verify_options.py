"""Options of ``verify``: tolerances, and the inputs and outputs that are kept and replayed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffn_export.cli.options import PATH, Positive, Whole, read_npz, several
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.parity.judging.tolerances import Closeness, Tolerances
from ffn_export.reports.commands import verify_command
from ffn_export.reports.formats import FORMATS

if TYPE_CHECKING:
    from ffn_export.parity.judging.result import ParityResult

_REJUDGE = "--rejudge"
# Options that a replay leaves out: it names its own inputs, and writes no report.
_NOT_REPLAYED = (
    _REJUDGE,
    "--samples",
    "--load-inputs",
    "--save-outputs",
    "--failures",
    "--jobs",
    "--baseline",
    *(f"--{each.name}" for each in FORMATS),
)


tolerance_options = several(  # `tolerances_of` parses them
    click.option(
        "--atol",
        multiple=True,
        metavar="[OUTPUT=]NUMBER",
        help="Allow this absolute error, in place of the bound in units of the last place.",
    ),
    click.option(
        "--rtol",
        multiple=True,
        metavar="[OUTPUT=]NUMBER",
        help="Allow this share of the oracle's magnitude, beside --atol or alone.",
    ),
    click.option(
        "--budget",
        type=Positive(),
        metavar="SHARE",
        help="Declared relative L2 error of a model that is meant to differ (quantised), such as 0.01.",
    ),
)
evidence_options = several(
    click.option(
        "--load-inputs",
        type=PATH,
        metavar="PATH",
        help="Verify on these inputs alone: an .npz file, or a directory of ONNX test vectors.",
    ),
    click.option("--input-seed", type=Whole(0, 2**31 - 1), metavar="N", help="Seed of the drawn inputs.  [default: 0]"),
    click.option(
        "--save-outputs",
        type=PATH,
        metavar="DIR",
        help="Keep every case's inputs, oracle and outputs here, as .npz files.",
    ),
    click.option(
        "--failures",
        type=PATH,
        metavar="DIR",
        default=Path("ffn-export-failures"),
        show_default=True,
        help="Keep the inputs of failing cases here, as ONNX test vectors.",
    ),
)


def tolerances_of(atol: Sequence[str], rtol: Sequence[str], budget: float | None) -> Tolerances | None:
    """Return the declared tolerances, or None without any; ``atol`` or ``rtol`` is 0 if only the other is given.

    Raises:
        UsageError: If a number does not parse or is negative.
    """
    tests: dict[str, dict[str, float]] = {}
    for name, given in (("atol", atol), ("rtol", rtol)):
        for written in given:
            output, equals, number = written.rpartition("=")
            tests.setdefault(output if equals else "*", {})[name] = _number(f"--{name} {written}", number)
    if budget is None and not tests:
        return None
    return Tolerances(relative_l2=budget, closeness={output: Closeness(**test) for output, test in tests.items()})


def read_inputs(path: Path) -> dict[str, Any]:
    """Read the arrays of ``--load-inputs``.

    Raises:
        UsageError: If the path holds no inputs.
    """
    from ffn_export.core import vectors

    if not path.is_dir():
        arrays = read_npz(path)
        assert arrays is not None
        return arrays
    try:
        return vectors.read_inputs(path)
    except IntegrityError as error:
        raise UsageError(f"--load-inputs {path}: {error}") from error


def replay_lines(result: ParityResult, arguments: Sequence[str]) -> Iterator[str]:
    """Yield, for each case whose inputs were kept, the command that runs it again.

    Args:
        result: The failed verification.
        arguments: Arguments of the command line. With ``--rejudge`` they name no model, so it is taken from the result.
    """
    verb, *others = _replayed(arguments)
    if _REJUDGE in {argument.partition("=")[0] for argument in arguments}:
        others = [*shlex.split(verify_command(result))[2:], *others]
    names = {case.saved: case.case for case in result.cases if case.saved is not None}
    for saved, name in names.items():
        # The first option, since the others may end with a bare --.
        yield f"replay {name}: {shlex.join(['ffn-export', verb, '--load-inputs', str(saved), *others])}"


def _replayed(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments without the options in ``_NOT_REPLAYED`` and their values."""
    given = iter(arguments)
    for argument in given:
        name, equals, _ = argument.partition("=")
        if name not in _NOT_REPLAYED:
            yield argument
        elif not equals:
            next(given, None)


def _number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"{option}: write a number that is not negative, as in 1e-4 or y=1e-4")
    return number
