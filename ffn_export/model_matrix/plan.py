"""Plan a matrix: its cells, those of one model and target as a step, those of one export as a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from ffn_export.bundle.manifest import read_manifest
from ffn_export.core.matrix_cell import Cell, Verdict
from ffn_export.core.processor import Kind
from ffn_export.errors import IntegrityError, UsageError
from ffn_export.model_matrix.entries import TIMED, Entry
from ffn_export.model_matrix.fingerprint import cell_key, content, digest, made, source_key

DEFAULT = "default"
JOIN = "join"


@dataclass(frozen=True)
class Step:
    """The cells of one model, target and precision, whose runtimes judge together.

    Attributes:
        entry: The model with its options.
        target: Fusion target.
        dtype: Precision; None means the model's own.
        processor: Kind of node of a cluster; None means any machine.
        name: Name of what is written, unique in the matrix.
        keys: Runtime, or None for the default -> key of its cell.
        is_made: Whether the bundle is there already, so that it is only judged by the runtimes of this step.
        parts: Names of the bundles, one for each kind of processor, that this step joins; empty for another step.
    """

    entry: Entry
    target: str
    dtype: str | None
    processor: str | None
    name: str
    keys: tuple[tuple[str | None, str], ...]
    is_made: bool = False
    parts: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """What it does."""
        return JOIN if self.parts else self.entry.action

    @property
    def runtimes(self) -> tuple[str, ...] | None:
        """The named runtimes; None for the default."""
        return tuple(name for name, _ in self.keys if name is not None) or None

    def only(self, runtimes: Iterable[str | None]) -> Step:
        """Return the step for some of its runtimes."""
        kept = set(runtimes)
        return replace(self, keys=tuple(each for each in self.keys if each[0] in kept))

    def cells(self, verdict: Verdict, message: str, seconds: float = 0.0) -> tuple[Cell, ...]:
        """Return a cell with one verdict for each runtime."""
        return tuple(
            Cell(
                self.entry.called,
                self.target,
                name or DEFAULT,
                verdict,
                self.dtype or "",
                self.action,
                seconds,
                message,
                processor=self.processor or "",
                key=key,
            )
            for name, key in self.keys
        )


Group = tuple[Step, ...]
"""The steps that share one export and one kind of node, in order; all of them time something, or none."""


def all_steps(entries: Sequence[Entry], threads: Callable[[Entry, str | None], int]) -> list[Step]:
    """Return every step of a matrix.

    ``threads`` gives the intra-op threads of the cells of a model on a kind of node.

    Raises:
        UsageError: If two steps have one name.
    """
    steps: dict[str, Step] = {}
    for entry in entries:
        files = content(entry)
        kinds, dtypes, runtimes = map(_once, (entry.processors, entry.dtypes, entry.runtimes))
        for kind, dtype, target in product(kinds, dtypes, _targets(entry)):
            name = step_name(entry.called, target, dtype, kind)
            if name in steps:
                raise UsageError(f"two models of the matrix are called {entry.called!r}: give one another name")
            keys = tuple(
                (runtime, cell_key(entry, files, dtype, target, runtime, kind, threads(entry, kind)))
                for runtime in runtimes
            )
            steps[name] = Step(entry, target, dtype, kind, name, keys)
    return list(steps.values())


def joining(steps: Sequence[Step], directory: Path) -> list[Step]:
    """Return the steps that join the bundles of several kinds of processor, for bundles that are all there.

    Of bundles that turn out to be for one kind of processor, the first is taken; one alone is not joined.

    Raises:
        UsageError: If another step has the name of a joined bundle.
    """
    alike: dict[str, list[Step]] = {}
    for step in steps:
        if len(step.entry.processors) > 1 and step.action in ("build", "tune") and not step.entry.is_file:
            alike.setdefault(step_name(step.entry.called, step.target, step.dtype, None), []).append(step)
    for name in (name for name in alike if name in {step.name for step in steps}):
        raise UsageError(f"{name} is the name of a model, and of one joined of several: give one another name")
    found = []
    for name, parts in alike.items():
        kinds = {_kind(directory / step.name): step for step in reversed(parts)}
        if None not in kinds and len(kinds) > 1:
            chosen = [step for step in parts if step in kinds.values()]
            key = digest([[step.keys, made(directory / step.name)] for step in chosen])
            names = tuple(step.name for step in chosen)
            found.append(Step(parts[0].entry, parts[0].target, parts[0].dtype, None, name, ((None, key),), parts=names))
    return found


def _kind(bundle: Path) -> Kind | None:
    """Return the kind of processor that a bundle was built on; None if there is no bundle."""
    try:
        return read_manifest(bundle).processor
    except IntegrityError:
        return None


def step_name(model: str, target: str, dtype: str | None, processor: str | None) -> str:
    """Return the name of a step, and of what it writes."""
    return "-".join(filter(None, (model, target, dtype, processor)))


def _once(names: Sequence[str]) -> Sequence[str | None]:
    """Return each name once; without any, None."""
    return tuple(dict.fromkeys(names)) or (None,)


def _targets(entry: Entry) -> tuple[str, ...]:
    if entry.is_bundle and entry.action != "build":  # it is taken as it is
        with suppress(IntegrityError):  # a damaged one fails as a cell
            return (read_manifest(Path(entry.spec)).target,)
        return entry.targets[:1]
    return tuple(dict.fromkeys(entry.targets))


def is_done(cell: Cell, directory: Path) -> bool:
    """Whether a stored cell needs no more work: it was judged, and what it wrote is there, unchanged."""
    if cell.verdict in ("error", "unavailable"):
        return False
    return cell.path is None or made(directory / cell.path) == cell.sha256


def missing(steps: Sequence[Step], done: Sequence[Cell], directory: Path) -> list[Group]:
    """Return what is left to do, in groups that share an export."""
    keys = {cell.key for cell in done}
    written = {cell.path for cell in done if cell.path is not None}
    groups: dict[tuple[str, str | None, bool], list[Step]] = {}
    for step in steps:
        left = step.only(name for name, key in step.keys if key not in keys)
        if left.keys:
            there = step.name in written and (directory / step.name).is_dir()
            left = replace(left, is_made=there and len(left.keys) < len(step.keys))
            key = (source_key(step.entry, step.dtype), step.processor, step.entry.action in TIMED)
            groups.setdefault(key, []).append(left)
    return list(map(tuple, groups.values()))
