"""Change one operator, number or condition of the package at a time, and run the tests of its file: one should fail.

Mutants are drawn by a seed, first the place and then the change; a larger draw begins with the smaller one. The tests
of a file are those of the usual run that lie in the folder of the same path or the nearest above it, import its module,
also by way of helpers, or are named after a module of the same part of the package that uses it. They run once without
a mutant, traced, slow ones as well. A mutant then meets those that ran its statement or started a process; one of a
statement that runs on import meets all. If they pass, the mutant survived; so did a mutant of a file without tests.
Results are appended to a file of JSON lines, and a later run with that file does only what it lacks.
Exit status: 0 all mutants ran, whatever survived; 2 bad usage, or the unchanged tests fail; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

from command_line import count, say
from mutants.draw import Mutant, drawn
from mutants.tests_of import tests_of
from mutants.trial import ROOT, TestsFailedError, outcomes

PLACES = ("ffn_export/fusion/rules", "ffn_export/parity/judging", "ffn_export/exporter/checks.py")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    mutants = list(islice(drawn(options.only, options.seed, ROOT), options.number))
    found = dict(_stored(options.results, mutants))
    missing = [mutant for mutant in mutants if mutant not in found]
    tests = {file: sorted({*tests_of(file, ROOT), *options.also}) for file in {each.file for each in missing}}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for mutant, outcome, met, seconds in outcomes(missing, tests, Path(folder), options.jobs, options.quick):
                found[mutant] = outcome
                result = {**asdict(mutant), "outcome": outcome, "tests": met, "seconds": seconds}
                with options.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                say(f"[{len(found)}/{len(mutants)}] {outcome}: {mutant}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except TestsFailedError as error:
        print(f"mutation: tests fail without a mutant:\n{error}", file=sys.stderr)
        return 2
    print(*(mutant for mutant in mutants if found[mutant] == "survived"), sep="\n")
    say(", ".join(f"{number} {outcome}" for outcome, number in sorted(Counter(found.values()).items())))
    return 0


def _stored(results: Path, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    for line in results.read_text().splitlines() if results.exists() else ():
        result = json.loads(line)
        mutant = Mutant(**{name: result[name] for name in Mutant.__dataclass_fields__})
        if mutant in mutants:
            yield mutant, result["outcome"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/mutation.py --only ffn_export/fusion/rules --number 20",
    )
    parser.add_argument("--only", nargs="+", default=PLACES, metavar="PLACE", help=f"files and folders {PLACES}")
    parser.add_argument("--also", nargs="+", default=(), metavar="FILE", help="test files that run for every mutant")
    parser.add_argument("--quick", action="store_true", help="leave slow tests out, as `make quick` does")
    parser.add_argument("--number", type=count, default=300, metavar="N", help="mutants [300]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draw [0]")
    parser.add_argument("--jobs", type=count, default=1, metavar="N", help="mutants at the same time [1]")
    parser.add_argument(
        "--results", type=Path, default=Path("mutation.jsonl"), metavar="FILE", help="results [mutation.jsonl]"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
