"""Resolve a SPEC to a source: a preset, ``package.module:factory``, a model directory, or an exported program.

Resolving a factory seeds every random generator, calls the factory, and puts the module into evaluation mode.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from ffn_export.core.checked_numbers import check_seed
from ffn_export.core.drawing import draw_all, trace_sizes
from ffn_export.core.one_line import first_line
from ffn_export.core.tensor_spec import InputSpecs, TensorSpec, parse_inputs
from ffn_export.core.types import Array
from ffn_export.errors import UsageError, did_you_mean
from ffn_export.exporter import trust as trusting
from ffn_export.exporter.exported_program import load_program, program_inputs
from ffn_export.exporter.hugging_face.model import PREFIX as HUGGING_FACE
from ffn_export.exporter.hugging_face.model import load_model
from ffn_export.exporter.integer_ranges import with_ranges
from ffn_export.exporter.samples import check_samples
from ffn_export.exporter.signature import CallSignature, bind, check_names
from ffn_export.exporter.torch_inputs import to_torch
from ffn_export.modules.presets import PRESETS, create, get_preset

Kind = Literal["preset", "factory", "hugging_face", "exported_program", "module"]


@dataclass(frozen=True)
class Source:
    """A module to export, with its inputs and its call signature.

    Attributes:
        spec: The SPEC; resolving it again with ``seed`` gives the same weights.
        name: Default name of the bundle.
        kind: Kind of the SPEC.
        module: The module, in evaluation mode.
        inputs: Graph inputs, in the order of ``forward``.
        call: Mapping of the inputs to the arguments of ``forward``.
        program: The exported program of a ``.pt2`` file, else None.
        outputs: Output names if the source fixes them (presets), else None.
        seed: Seed of the weights.
        reference: Origin of the module, for the manifest.
        example: Preferred sizes of symbolic dimensions for test vectors and latency.
        samples: The user's arrays by input name, used in the trace instead of drawn inputs.
        dtype: Precision that the module was converted to, or ``float32``.
        keep_io: Whether inputs and outputs stayed in float32.
        task: Task of a Hugging Face model.
        companions: Name -> path of files that belong beside the graph, such as a tokenizer's.
        load: Function that loads the module in another dtype, if its library keeps some parts in float32.
        least_traced: Least size of a symbolic dimension in the trace, if its bounds allow it.
    """

    spec: str
    name: str
    kind: Kind
    module: torch.nn.Module
    inputs: tuple[TensorSpec, ...]
    call: CallSignature
    program: torch.export.ExportedProgram | None = None
    outputs: tuple[str, ...] | None = None
    seed: int = 0
    reference: str = ""
    example: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Array] | None = None
    dtype: str = "float32"
    keep_io: bool = False
    task: str | None = None
    companions: Mapping[str, Path] = field(default_factory=dict)
    load: Callable[[torch.dtype], torch.nn.Module] | None = None
    least_traced: int = 2

    def traced_sizes(self) -> dict[str, int]:
        """Return the sizes of the symbolic dimensions to trace with."""
        if self.samples is None:
            return trace_sizes(self.inputs, self.least_traced)
        symbolic = ((s.name, axis, dim) for s in self.inputs for axis, dim in s.symbolic.items())
        return {dim.name: self.samples[name].shape[axis] for name, axis, dim in symbolic}

    def arguments(self, sizes: Mapping[str, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return new ``(args, kwargs)`` of these sizes: the samples if they have these sizes, else drawn inputs."""
        if self.samples is not None and dict(sizes) == self.traced_sizes():
            return self.call.arguments(to_torch(self.samples))
        return self.call.arguments(to_torch(draw_all(self.inputs, sizes, seed=0)))

    def by_parameter(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of the inputs by parameter of ``forward``, in torch.export's layout of ``dynamic_shapes``."""
        args, kwargs = self.call.arguments(values)
        return inspect.signature(self.module.forward).bind(*args, **kwargs).arguments


def knows_its_inputs(spec: str) -> bool:
    """Whether a SPEC determines its inputs; all kinds but a factory do."""
    return ":" not in spec or spec.startswith(HUGGING_FACE)


def resolve(
    spec: str,
    inputs: InputSpecs | None = None,
    seed: int | None = None,
    task: str | None = None,
    *,
    trust: bool = False,
    named_by: str | None = None,
) -> Source:
    """Resolve a SPEC from the command line.

    Args:
        spec: Preset name, ``package.module:factory``, ``hf:`` and a model directory, or path of a ``.pt2`` file.
        inputs: Input specs; required for a factory, optional otherwise.
        seed: Seed of the weights; None means the preset's default, else 0.
        task: Task of a model directory; None means the one in its configuration.
        trust: Whether the user trusts a ``.pt2`` file, or the file that names the SPEC.
        named_by: File that names the SPEC; None if the user does.

    Raises:
        UsageError: If the preset, file, module, factory or model directory does not exist, if it fails or
            returns no module, if the inputs do not fit ``forward``, or if it is not trusted.
    """
    trusting.check(spec, trust=trust, named_by=named_by)
    parsed = parse_inputs(inputs) if inputs else None
    if spec.startswith(HUGGING_FACE):
        return _from_hugging_face(spec, parsed, seed or 0, task)
    if task is not None:
        raise UsageError(f"a task is for hf:DIR, a model directory, and not for {spec!r}: leave it out")
    if spec in PRESETS:
        return _from_preset(spec, parsed, seed)
    if spec.endswith(trusting.EXPORTED_PROGRAM):
        return _from_program(Path(spec), parsed, seed or 0)
    if ":" in spec:
        return _from_factory(spec, parsed, seed or 0)
    if spec and Path(spec).is_dir():
        what = f": write {HUGGING_FACE}{spec} for the Hugging Face model in it"
        if not (Path(spec) / "config.json").is_file():
            what = " without a Hugging Face model: name a preset, package.module:factory, hf:DIR or a .pt2 file"
        raise UsageError(f"{spec!r} is a directory{what}")
    if spec.endswith(".onnx"):
        raise UsageError(f"{spec!r} is the name of an ONNX file: name the PyTorch source that it is made from")
    if spec.endswith(".py"):
        raise UsageError(f"{spec!r} is the name of a file: write {_dotted(spec) or 'package.module'}:factory")
    meant = did_you_mean(spec, PRESETS)
    if not meant and re.fullmatch(r"[\w.-]+(/[\w.-]+)?", spec) and re.search(r"[-/]", spec):
        meant = f" for a Hugging Face model download it and write {HUGGING_FACE}DIR, its directory;"
    raise UsageError(
        f"no preset is named {spec!r};{meant} run `ffn-export list` for all, "
        "or write package.module:factory, hf:DIR or a .pt2 file"
    )


def from_module(module: torch.nn.Module, inputs: InputSpecs, name: str | None = None) -> Source:
    """Make a source from a module object.

    Raises:
        UsageError: If the inputs do not parse or do not fit ``forward``.
    """
    if not isinstance(module, torch.nn.Module):
        raise UsageError(f"expected a torch.nn.Module, got {type(module).__name__}")
    specs, call = _bind(module, parse_inputs(inputs))
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    return Source(kind, name or type(module).__name__, "module", module, with_ranges(module, specs, call), call)


def with_samples(source: Source, samples: Mapping[str, Array]) -> Source:
    """Return the source with the user's arrays.

    Raises:
        UsageError: As :func:`check_samples`.
    """
    check_samples(source.inputs, samples)
    return replace(source, samples=dict(samples))


def _from_preset(name: str, inputs: tuple[TensorSpec, ...] | None, seed: int | None) -> Source:
    preset = get_preset(name)
    seed = preset.seed if seed is None else seed
    module = create(name, seed)
    check_names([spec.name for spec in inputs or ()], preset.inputs, name)
    specs, call = _bind(module, inputs or parse_inputs(preset.inputs))
    return Source(
        name,
        name,
        "preset",
        module,
        specs,
        call,
        outputs=preset.outputs,
        seed=seed,
        reference=preset.source,
        example=preset.example,
    )


def _from_factory(spec: str, inputs: tuple[TensorSpec, ...] | None, seed: int) -> Source:
    with _seeded(seed):
        target = _import_factory(spec)
    # Seed again: the import runs only once per process, and random numbers drawn in it must not change the weights.
    with _seeded(seed):
        module = _made(spec, target)
        if not isinstance(module, torch.nn.Module):
            raise UsageError(f"factory {spec!r} returned {type(module).__name__}, not a torch.nn.Module")
        module.eval()
        if inputs is None:
            raise UsageError(f"{spec!r} needs its inputs: add --input NAME:DTYPE[DIM,...] for each")
        specs, call = _bind(module, inputs)
        _materialise(module, specs, call)
    name = spec.rpartition(":")[2].rpartition(".")[2]
    return Source(spec, name, "factory", module, with_ranges(module, specs, call), call, seed=seed)


def _materialise(module: torch.nn.Module, specs: tuple[TensorSpec, ...], call: CallSignature) -> None:
    """Run a module with lazy layers once, so that they draw their weights."""
    if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        return
    args, kwargs = call.arguments(to_torch(draw_all(specs, trace_sizes(specs), seed=0)))
    # An error here occurs again in the export, which explains it.
    with contextlib.suppress(Exception), torch.no_grad():
        module(*args, **kwargs)


def _made(spec: str, target: Any) -> Any:
    """Return the result of a factory, or the target if it is a module."""
    if isinstance(target, torch.nn.Module):
        return target
    try:
        return target()
    except (Exception, SystemExit) as error:
        raise UsageError(f"factory {spec!r} raised {first_line(error)}") from error


def _dotted(path: str) -> str | None:
    """Return the name under which a file below the current directory is imported; None if it has none."""
    parts = path.strip().removesuffix(".py").removeprefix("./").split("/")
    return ".".join(parts) if all(part.isidentifier() for part in parts) else None


def _import_factory(spec: str) -> Any:
    module_name, _, attribute = spec.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")) or module_name.endswith(".py"):
        written = _dotted(module_name)
        meant = f"{written}:{attribute or 'factory'}" if written else "package.module:factory, without a path"
        raise UsageError(f"{module_name!r} in {spec!r} is no module: write {meant}")
    # Only here, not at program start: unless a SPEC names a module, no file of a downloaded directory is imported.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"cannot import {module_name!r} ({first_line(error)}); the current directory and PYTHONPATH are searched"
        ) from error
    for part in attribute.split("."):
        if not hasattr(target, part):
            public = [name for name in dir(target) if not name.startswith("_")]
            hint = did_you_mean(part, public) or " write package.module:factory"
            raise UsageError(f"{module_name!r} has no {attribute!r};{hint}")
        target = getattr(target, part)
    if not callable(target):
        raise UsageError(f"{spec!r} is not callable; name a function or class that returns a torch.nn.Module")
    return target


def _from_hugging_face(spec: str, inputs: tuple[TensorSpec, ...] | None, seed: int, task: str | None) -> Source:
    directory = spec.removeprefix(HUGGING_FACE)
    model = load_model(directory, task, inputs)
    check_names([s.name for s in model.inputs], model.takes, spec)
    specs, call = _bind(model.module, model.inputs)
    return Source(
        spec,
        model.name,
        "hugging_face",
        model.module,
        with_ranges(model.module, specs, call),
        call,
        seed=seed,
        reference=model.reference,
        example=model.example,
        task=model.task,
        companions=model.companions,
        load=lambda dtype: load_model(directory, task, inputs, dtype).module,
    )


def _from_program(path: Path, inputs: tuple[TensorSpec, ...] | None, seed: int) -> Source:
    program = load_program(path)
    specs, call = program_inputs(program, inputs)
    module = program.module()
    specs = with_ranges(module, specs, call)
    return Source(str(path), path.stem, "exported_program", module, specs, call, program=program, seed=seed)


def _bind(module: torch.nn.Module, specs: tuple[TensorSpec, ...]) -> tuple[tuple[TensorSpec, ...], CallSignature]:
    """Bind the inputs to ``forward`` and return them in its order."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UsageError("torch.export takes no TorchScript: give the torch.nn.Module that it was made from")
    call = bind(module.forward, [spec.name for spec in specs])
    by_name = {spec.name: spec for spec in specs}
    return tuple(by_name[name] for name in call.input_order), call


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's global generators for a factory, and restore them afterwards.

    Raises:
        UsageError: If the seed is no whole number from 0 to 2**63 - 1.
    """
    check_seed(seed)
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - factories draw from the global generator
    # Before CUDA is initialised, torch only records the seed, so nothing needs to be restored.
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    with torch.random.fork_rng(range(torch.cuda.device_count()) if in_use else []):
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - as above
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002 - as above
