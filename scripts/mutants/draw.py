"""Draws mutants: each is a file with one operator, number or condition changed."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

_WANT_ARGUMENTS = ("VariableReplacer", "VariableInserter")
_OPERATORS = {name: OperatorProvider()[name] for name in sorted(OperatorProvider()) if name not in _WANT_ARGUMENTS}

Position = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change of one file: an operator of cosmic-ray, and which of the places that it can change."""

    file: str
    line: int
    before: str
    after: str
    operator: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"

    def of(self, code: str) -> str:
        """Return the code of the file with the change."""
        return changed(code, self.operator, self.occurrence)


def drawn(places: Iterable[str], seed: int, root: Path) -> Iterator[Mutant]:
    """Draw mutants of files and folders: one of each place before any has a second."""
    chance = random.Random(seed)
    of_places = []
    for file in sorted({path for each in places for path in [root / each, *(root / each).rglob("*.py")]}):
        for changes in _changes(file.read_text()) if file.is_file() else ():
            chance.shuffle(changes)
            of_places.append([(file, *change) for change in changes])
    for turn in zip_longest(*of_places):
        candidates = [each for each in turn if each is not None]
        chance.shuffle(candidates)
        for file, operator, occurrence in candidates:
            yield from _mutant(file.relative_to(root), file.read_text(), operator, occurrence)


def changed(code: str, operator: str, occurrence: int) -> str:
    """Return code with one change."""
    result: str = mutate_code(code, _OPERATORS[operator](), occurrence)
    return result


def _changes(code: str) -> list[list[tuple[str, int]]]:
    """Return operators with the occurrence that they change, for each place but those in annotations."""
    nodes, annotations = list(ast_nodes(get_ast(code))), list(_annotations(code))
    found: dict[Position, list[tuple[str, int]]] = defaultdict(list)
    for name, operator in _OPERATORS.items():
        starts = (start for node in nodes for start, _ in operator().mutation_positions(node))
        for occurrence, start in enumerate(starts):
            if not any(first <= start < last for first, last in annotations):
                found[start].append((name, occurrence))
    return list(found.values())


def _annotations(code: str) -> Iterator[tuple[Position, Position]]:
    for node in ast.walk(ast.parse(code)):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if each is not None:
                yield (each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)


def _mutant(file: Path, code: str, operator: str, occurrence: int) -> Iterator[Mutant]:
    """Yield the mutant, unless it is no Python or the same program."""
    result = changed(code, operator, occurrence)
    try:
        same = ast.dump(ast.parse(result)) == ast.dump(ast.parse(code))
    except SyntaxError:
        return
    if not same:
        old, new = code.splitlines(), result.splitlines()
        line = next(number for number, pair in enumerate(zip(old, [*new, ""], strict=False)) if pair[0] != pair[1])
        after = new[line].strip() if len(new) == len(old) else "(removed)"
        yield Mutant(file.as_posix(), line + 1, old[line].strip(), after, operator, occurrence)
