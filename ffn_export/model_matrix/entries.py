"""Read the file of a matrix, such as ``zoo.toml``: its models with their options, checked before any work."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from ffn_export.bundle.build_options import BuildOptions, GivenBuildOptions
from ffn_export.bundle.manifest import MANIFEST
from ffn_export.bundle.publish import place
from ffn_export.core import plain_file
from ffn_export.core.checked_numbers import check_tokens
from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import ExportError, FfnExportError, UsageError, did_you_mean, for_the_shell
from ffn_export.exporter.capture import DEFAULT_OPSET
from ffn_export.exporter.hugging_face.model import PREFIX as HUGGING_FACE
from ffn_export.exporter.precision import PRECISIONS
from ffn_export.exporter.trust import EXPORTED_PROGRAM
from ffn_export.fusion.forms.choice import in_use
from ffn_export.fusion.targets import get_target
from ffn_export.modules.presets import PRESETS
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.registry import get_runtimes
from ffn_export.tuning.options import TuneOptions

Action = Literal["build", "verify", "bench", "tune"]
TIMED: tuple[Action, ...] = ("bench", "tune")
"""Actions that need the processors for themselves."""

_MOST_BYTES = 2**24
_MODELS = "model"


@dataclass(frozen=True)
class Entry:
    """A model of the matrix with its options. Every key but ``spec`` and ``name`` may stand above all models.

    Attributes:
        spec: A SPEC, an ``.onnx`` file, or a bundle.
        name: Name in the results; None means the name of the preset, factory, file or directory.
        action: What a cell does: ``build`` writes a bundle, of an ``.onnx`` file a fused file; ``verify`` and ``bench``
            write none and take a bundle as it is; ``tune`` chooses the forms by timing and builds.
        targets: Fusion targets.
        dtypes: Precisions of a PyTorch source; without any, its own.
        runtimes: Runtimes that must judge, a cell each; without any, those that can by default.
        processors: Kinds of nodes of a Ray cluster, a cell each; each names a custom resource of such nodes.
        against: SPEC or ``.onnx`` file that an ``.onnx`` file is compared with; None means the file itself.
        inputs: Inputs of a factory, as for ``--input``, or name -> specification.
        samples: ``.npz`` file of arrays to trace with and to verify on.
        tokens: Lengths that ``bench`` times.
        seed: As in :class:`~ffn_export.core.source_options.SourceOptions`, like ``keep_io``, ``task`` and ``trust``.
        opset: As in :class:`~ffn_export.bundle.build_options.BuildOptions`, like the remaining keys. A build times
            nothing unless ``bench_budget`` is given.
    """

    spec: str
    name: str | None = None
    action: Action = "build"
    targets: tuple[str, ...] = ("ort-cpu",)
    dtypes: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    processors: tuple[str, ...] = ()
    against: str | None = None
    inputs: tuple[str, ...] | Mapping[str, str] = ()
    samples: str | None = None
    tokens: tuple[int, ...] = ()
    seed: int | None = None
    keep_io: bool = False
    task: str | None = None
    trust: bool = False
    opset: int = DEFAULT_OPSET
    max_ratio: float | None = None
    require_fusion: Mapping[Literal["feed_forward", "norm", "residual_norm"], int] = field(default_factory=dict)
    bench_budget: float | None = None
    check: bool = True
    portable_functions: bool = False
    quantization: QuantizationOptions | None = None
    precision: str | None = None
    budget: float | None = None
    forms: tuple[str, ...] | None = None
    tuning: Mapping[str, Any] = field(default_factory=dict)
    share_weights: bool = False
    fast: bool = False

    @property
    def is_file(self) -> bool:
        """Whether the model is an ONNX file, which has no PyTorch source of its own."""
        return self.spec.endswith(".onnx")

    @property
    def is_bundle(self) -> bool:
        """Whether the model is a bundle."""
        return (Path(self.spec) / MANIFEST).is_file()

    @property
    def called(self) -> str:
        """Its name in the results."""
        is_path = self.is_file or self.is_bundle or self.spec.endswith(EXPORTED_PROGRAM)
        is_path = is_path or self.spec.startswith(HUGGING_FACE)
        last = Path(self.spec.removeprefix(HUGGING_FACE)).resolve().name if is_path else self.spec
        if ":" in last:
            return self.name or last.rpartition(":")[2].rpartition(".")[2]
        return self.name or last.removesuffix(".onnx").removesuffix(EXPORTED_PROGRAM)

    @property
    def tune_options(self) -> TuneOptions | None:
        """Options of the tuning; None for another action."""
        return self._tuning if self.action == "tune" else None

    @property
    def _tuning(self) -> TuneOptions:
        try:
            return TuneOptions(**self.tuning)
        except UsageError as error:
            raise UsageError(f"tuning: {error}") from error

    def build_options(self, target: str, runtimes: Sequence[str] | None, threads: int) -> BuildOptions:
        """Return the options of a build for one target."""
        own = {each.name for each in fields(self)} & GivenBuildOptions.__annotations__.keys()
        given = {name: getattr(self, name) for name in own - {"tuning", "bench_budget", "runtimes", "forms"}}
        tuning = self.tune_options
        budget = self.bench_budget if self.bench_budget is not None else tuning.bench_budget if tuning else 0.0
        return BuildOptions(
            target,
            runtimes=runtimes,
            threads=threads,
            seed=self.seed or 0,
            bench_budget=budget,
            tuning=tuning,
            forms=None if self.forms is None else frozenset(self.forms),
            **given,
        )

    def validate(self) -> None:
        """Check names, paths and options, as far as that takes no import of the model.

        Raises:
            UsageError: On the first that is wrong.
        """
        for dtype in (dtype for dtype in self.dtypes if dtype not in PRECISIONS):
            names = ", ".join(PRECISIONS)
            raise UsageError(f"unknown dtype {dtype!r};{did_you_mean(dtype, PRECISIONS)} known are {names}")
        if not self.targets:
            raise UsageError("targets are empty: name one, or leave the key out")
        get_runtimes(self.runtimes)
        _ = self._tuning  # checked for every action, since it may stand above models of another
        if self.tokens:
            check_tokens(self.tokens)
        parse_inputs(self.given_inputs or ())
        for target in self.targets:
            in_use(self.forms, get_target(target))
            self.build_options(target, self.runtimes or None, 1).check_asked()
        for name in ("", *self.processors):
            place(Path(), f"{self.called}{name}")
        _check_spec(self.spec)
        if self.against is not None:
            _check_spec(self.against)
        if self.dtypes and (self.is_file or self.is_bundle):
            raise UsageError("dtypes are for a PyTorch source: leave them out for a file or a bundle")
        if self.samples is not None:
            _check_file(Path(self.samples))

    @property
    def given_inputs(self) -> Any:
        """The inputs as the verbs take them, or None."""
        return dict(self.inputs) if isinstance(self.inputs, Mapping) else self.inputs or None


def _check_spec(spec: str) -> None:
    path = Path(spec.removeprefix(HUGGING_FACE))
    if spec.startswith(HUGGING_FACE):
        if not path.is_dir():
            raise UsageError(f"no such directory: {path}")
    elif spec.endswith((".onnx", EXPORTED_PROGRAM)):
        _check_file(path)
    elif not ((path / MANIFEST).is_file() or spec in PRESETS or ":" in spec):
        raise UsageError(
            f"no preset, file or bundle is named {spec!r};{did_you_mean(spec, PRESETS)} write a preset, "
            "package.module:factory, hf:DIR, a .pt2 or .onnx file, or the directory of a bundle"
        )


def _check_file(path: Path) -> None:
    if (problem := plain_file.problem(path)) is not None:
        raise UsageError(f"{path} {problem}")


KEYS = tuple(each.name for each in fields(Entry))


def read_matrix(matrix: Path | str | Mapping[str, Any]) -> list[Entry]:
    """Read and check the models of a matrix.

    Args:
        matrix: A TOML file, whose paths are relative to it or to the current directory; or its content.

    Raises:
        UsageError: If it does not parse, a key is unknown, a value has another type, or there are no models.
    """
    if isinstance(matrix, Mapping):
        return _entries("the matrix", matrix, Path())
    path = Path(matrix)
    try:
        content = tomllib.loads(plain_file.read_bytes(path, _MOST_BYTES).decode("utf-8-sig"))
    except ValueError as error:
        if isinstance(error, FfnExportError):
            raise
        raise UsageError(f"{path} is no TOML: {error}") from error
    return _entries(str(path), content, path.parent)


def _entries(where: str, content: Mapping[str, Any], folder: Path) -> list[Entry]:
    common = {key: value for key, value in content.items() if key != _MODELS}
    _check_keys(where, common, [key for key in KEYS if key not in ("spec", "name")], also=(_MODELS,))
    models = content.get(_MODELS, ())
    if not isinstance(models, Sequence) or isinstance(models, str) or not models:
        raise UsageError(f'{where} has no models: add [[{_MODELS}]] with spec = "bert-ffn" for each')
    entries = []
    for number, model in enumerate(models, 1):
        here = f"{where}: model {number}"
        if not isinstance(model, Mapping):
            raise UsageError(f"{here} is no table: write [[{_MODELS}]] above its keys")
        _check_keys(here, model, KEYS)
        if "spec" not in model:
            raise UsageError(f'{here} has no spec: add spec = "bert-ffn"')
        if isinstance(model["spec"], str):
            here += f", {model['spec']}"
        try:
            _check_tables(here, {**common, **model})
            with for_the_shell(is_shell=False):
                entry = _located(msgspec.convert({**common, **model}, Entry), folder)
                entry.validate()
        except msgspec.ValidationError as error:
            raise UsageError(f"{here}: {error}".replace(" - at `$.", ": `").replace("`$.", "`")) from error
        except (UsageError, ExportError) as error:
            raise UsageError(f"{here}: {error}") from error
        entries.append(entry)
    return entries


def _check_tables(where: str, given: Mapping[str, Any]) -> None:
    """Check the keys of tables that stand for options of Python, which conversion would ignore."""
    for table, options in (("tuning", TuneOptions), ("quantization", QuantizationOptions)):
        if isinstance(given.get(table), Mapping):
            _check_keys(f"{where}: {table}", given[table], [each.name for each in fields(options)])


def _check_keys(where: str, given: Collection[str], known: Collection[str], also: Collection[str] = ()) -> None:
    for key in (key for key in given if key not in known):
        names = [*also, *known]
        raise UsageError(f"{where}: unknown key {key!r};{did_you_mean(key, names)} known are {', '.join(names)}")


def _located(entry: Entry, folder: Path) -> Entry:
    """Return an entry whose relative paths are found from the folder of the TOML file, else from here."""

    def found(path: str) -> str:
        beside = folder / path
        return str(beside) if beside.exists() else path

    prefix = HUGGING_FACE if entry.spec.startswith(HUGGING_FACE) else ""
    spec = entry.spec.removeprefix(prefix)
    is_name = not prefix and (spec in PRESETS or ":" in spec)
    against = entry.against
    return replace(
        entry,
        spec=entry.spec if is_name else prefix + found(spec),
        samples=None if entry.samples is None else found(entry.samples),
        against=found(against) if against is not None and against.endswith(".onnx") else against,
    )
