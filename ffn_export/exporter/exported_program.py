"""Load a ``.pt2`` file and read its inputs, whose dynamic axes were fixed when the program was exported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch.export.graph_signature import ArgumentSpec, ConstantArgument, InputKind, TensorArgument

from ffn_export.core.one_line import first_line
from ffn_export.core.quiet import quiet
from ffn_export.core.tensor_spec import Dim, TensorSpec
from ffn_export.errors import UsageError
from ffn_export.exporter.signature import SLOT, CallSignature
from ffn_export.exporter.traced import user_inputs


def load_program(path: Path) -> torch.export.ExportedProgram:
    """Read a program that ``torch.export.save`` wrote.

    Raises:
        UsageError: If the file is missing or is not an exported program.
    """
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    try:
        with quiet():
            program: torch.export.ExportedProgram = torch.export.load(path)
    except Exception as error:
        raise UsageError(f"{path} is no exported program of torch.export.save: {first_line(error)}") from error
    return program


def program_inputs(
    program: torch.export.ExportedProgram, inputs: tuple[TensorSpec, ...] | None
) -> tuple[tuple[TensorSpec, ...], CallSignature]:
    """Return the inputs of a program, under the user's names if given, and its call signature.

    Raises:
        UsageError: If the program has an input that a graph cannot have, or the given inputs do not fit it.
    """
    arguments = [s.arg for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    specs = _inputs(program, arguments)
    if inputs is not None:
        specs = _renamed(specs, inputs)
    leaves = tuple(a.value if isinstance(a, ConstantArgument) else SLOT for a in arguments)
    return specs, CallSignature(tuple(spec.name for spec in specs), structure=(program.call_spec.in_spec, leaves))


def _inputs(program: torch.export.ExportedProgram, arguments: Sequence[ArgumentSpec]) -> tuple[TensorSpec, ...]:
    """Read the inputs of an exported program, with their symbolic axes and bounds."""
    for argument in arguments:
        if not isinstance(argument, TensorArgument | ConstantArgument):
            raise UsageError(
                f"input {argument.name!r} of the exported program is neither a tensor nor a constant: export the "
                "program again with a tensor in its place"
            )
    names = [argument.name for argument in arguments if isinstance(argument, TensorArgument)]
    return tuple(
        TensorSpec(
            name, str(value.dtype).removeprefix("torch."), tuple(_dim(program, name, size) for size in value.shape)
        )
        for name, value in zip(names, user_inputs(program), strict=True)
    )


def _dim(program: torch.export.ExportedProgram, name: str, size: int | torch.SymInt) -> int | Dim:
    if isinstance(size, int):
        return size
    if not size.node.expr.is_Symbol:
        raise UsageError(
            f"input {name!r} of the exported program has an axis of size {size}: export the program again with an "
            "axis that may have any size"
        )
    bounds = program.range_constraints.get(size.node.expr)
    # torch records 2 as the lower bound of every axis that it traced with a size above 1.
    low = 0 if bounds is None or bounds.lower <= 2 else int(bounds.lower)
    # Infinity is one of two sympy objects, depending on whether the program went through a file.
    high = None if bounds is None or bounds.upper >= 2**31 else int(bounds.upper)
    return Dim(str(size), low, high)


def _renamed(traced: tuple[TensorSpec, ...], inputs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    """Return the inputs under the user's names of inputs and axes."""
    if len(traced) != len(inputs):
        listed = ", ".join(f"{spec.name}:{spec}" for spec in traced)
        raise UsageError(f"the exported program takes {len(traced)} inputs, {len(inputs)} were given: it has {listed}")
    by_name = {spec.name: spec for spec in inputs}
    ordered = [by_name[t.name] for t in traced] if all(t.name in by_name for t in traced) else list(inputs)
    for want, have in zip(ordered, traced, strict=True):
        if want.name != have.name and want.name in {spec.name for spec in traced}:
            raise UsageError(
                f"input {want.name!r} stands where the exported program has {have.name!r}: name all of "
                f"{', '.join(spec.name for spec in traced)}, or give them in this order"
            )
        fits = want.dtype == have.dtype and len(want.dims) == len(have.dims)
        fits = fits and all(
            isinstance(w, int) == isinstance(h, int) and (not isinstance(w, int) or w == h)
            for w, h in zip(want.dims, have.dims, strict=True)
        )
        if not fits:
            raise UsageError(
                f"input {want.name!r} was asked for as {want}, but the exported program has {have}: write that, or "
                "export the program again with these axes dynamic"
            )
    return tuple(ordered)
