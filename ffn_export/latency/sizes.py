"""Choose the sizes at which a model is timed, and count their tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ffn_export.core.checked_numbers import check_tokens
from ffn_export.core.drawing import fit_sizes
from ffn_export.core.tensor_spec import TensorSpec, merge_dims, token_inputs
from ffn_export.errors import UsageError

_EXAMPLE = (8, 128)
_ALONE = (1, 128, 1024)


def asked_sizes(
    specs: Sequence[TensorSpec],
    sizes: Sequence[Mapping[str, int]] | None,
    tokens: Sequence[int] | None,
    example: Mapping[str, int] | None = None,
) -> Sequence[Mapping[str, int]]:
    """Return the given sizes, or sizes for the given token counts, or by default three typical ones.

    Raises:
        UsageError: If both are given, a number of tokens is below 1, or tokens are given and no axis is symbolic.
    """
    if sizes is not None and tokens is not None:
        raise UsageError("sizes and tokens both say what is timed: give one of them")
    if tokens is None:
        return sizes if sizes is not None else default_sizes(specs, example)
    check_tokens(tokens)
    if not merge_dims(specs):
        raise UsageError("no axis of the inputs is symbolic, so there is one size: leave the tokens out")
    return [token_sizes(specs, count) for count in tokens]


def example_sizes(specs: Sequence[TensorSpec], example: Mapping[str, int] | None) -> dict[str, int]:
    """Return one typical set of sizes: the source's example, else 8 for the first axis and 128 for the others."""
    dims = list(merge_dims(specs).values())
    wanted = {dim.name: _EXAMPLE[min(index, 1)] for index, dim in enumerate(dims)}
    return fit_sizes(dims, {**wanted, **(example or {})})


def default_sizes(specs: Sequence[TensorSpec], example: Mapping[str, int] | None = None) -> list[dict[str, int]]:
    """Return three sets of sizes: a single token, one sequence, and the example.

    For a single symbolic axis without an example, return three lengths.
    """
    typical = example_sizes(specs, example)
    names = list(typical)
    if len(names) == 1 and not example:
        return [{names[0]: size} for size in _ALONE]
    single = dict.fromkeys(names, 1)
    one_sequence = {**typical, **dict.fromkeys(names[:1], 1)}
    return [single, one_sequence, typical]


def token_sizes(specs: Sequence[TensorSpec], tokens: int) -> dict[str, int]:
    """Return the sizes of one sequence of ``tokens`` tokens, moved into the axes' bounds.

    The sequence axis is the last symbolic axis of each input that has several: ``seq`` and ``decoder_seq`` of
    ``[batch,seq]`` and ``[batch,decoder_seq]``, not the ``past`` of a cache. If no input has several, it is the last
    symbolic axis of all inputs. Every other axis has size 1.
    """
    dims = list(merge_dims(specs).values())
    several = [list(spec.symbolic.values()) for spec in token_inputs(specs) if len(spec.symbolic) > 1]
    sequences = {axes[-1].name for axes in several} or {dim.name for dim in dims[-1:]}
    return fit_sizes(dims, {dim.name: tokens if dim.name in sequences else 1 for dim in dims})


def token_count(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Return the number of tokens of a run: the largest of all inputs, or 1 without inputs.

    Each element of an integer input is a token, and each row of a floating-point input. If an input has more than two
    token axes, such as an image or a mask over heads, its tokens are the product of its symbolic axes. The tokens of a
    cache do not count, since they are not computed again.
    """
    return max((_tokens(spec, sizes) for spec in token_inputs(specs)), default=1)


def _tokens(spec: TensorSpec, sizes: Mapping[str, int]) -> int:
    axes = spec.dims[:-1] if spec.is_floating else spec.dims
    if len(axes) > 2:
        return math.prod(sizes[name] for name in {dim.name for dim in spec.symbolic.values()})
    return math.prod(spec.shape(sizes)[: len(axes)])
