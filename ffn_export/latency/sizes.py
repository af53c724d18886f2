"""At which sizes a model is timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ffn_export.errors import UsageError
from ffn_export.exporter.drawing import fit_sizes
from ffn_export.exporter.tensor_spec import TensorSpec, merge_dims

_EXAMPLE = (8, 128)


def example_sizes(specs: Sequence[TensorSpec], example: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return one typical set of sizes: the source's example, else 8 for the first axis and 128 for others."""
    dims = list(merge_dims(specs).values())
    wanted = {dim.name: _EXAMPLE[min(index, 1)] for index, dim in enumerate(dims)}
    return fit_sizes(dims, {**wanted, **(example or {})})


def asked_sizes(
    specs: Sequence[TensorSpec],
    sizes: Sequence[Mapping[str, int]] | None,
    tokens: Sequence[int] | None,
    example: Mapping[str, int] | None = None,
) -> Sequence[Mapping[str, int]]:
    """Return the sizes that are given, or those of so many tokens each; where neither is, three typical ones.

    Raises:
        UsageError: If both are given.
    """
    if sizes is not None and tokens is not None:
        raise UsageError("sizes and tokens both say what is timed: give one of them")
    if tokens is not None:
        return [token_sizes(specs, count) for count in tokens]
    return sizes if sizes is not None else default_sizes(specs, example)


def default_sizes(specs: Sequence[TensorSpec], example: Mapping[str, int] | None = None) -> list[dict[str, int]]:
    """Return three sets: a single token, one sequence, and the example."""
    typical = example_sizes(specs, example)
    names = list(typical)
    single = dict.fromkeys(names, 1)
    one_sequence = {**typical, **dict.fromkeys(names[:1], 1)}
    return [single, one_sequence, typical]


def token_sizes(specs: Sequence[TensorSpec], tokens: int) -> dict[str, int]:
    """Return the sizes of one sequence of so many tokens, moved into the axes' bounds.

    The last symbolic axis is the sequence, and every other has one element; a single one is the sequence.
    """
    dims = list(merge_dims(specs).values())
    wanted = {**dict.fromkeys((dim.name for dim in dims), 1), **{dim.name: tokens for dim in dims[-1:]}}
    return fit_sizes(dims, wanted)
