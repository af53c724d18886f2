"""A decoder with its cache as inputs and outputs, in Optimum's layout.

A layer ``N`` reads the keys and values of earlier tokens from ``past_key_values.N.key`` and ``.value``, of shape
``[batch, heads, past, size]``, and returns those of all tokens as ``present.N.key`` and ``.value``. The attention mask
covers both, ``[batch, past+seq]``. A prefill has a past of size 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ffn_export.core.one_line import first_line
from ffn_export.core.quiet import silent
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, Sum, TensorSpec
from ffn_export.errors import UsageError
from ffn_export.exporter.hugging_face.library import transformers

EXAMPLE = {"batch": 1, "seq": 1, "past": 128}
"""A step of generation, for test vectors and timing."""

_KINDS = ("key", "value")
# A layer of a sliding window masks what is outside of it, so it may be given all earlier tokens.
_LAYERS = ("DynamicLayer", "DynamicSlidingWindowLayer")
_SHAPE = 4


class WithPast(torch.nn.Module):
    """A decoder that takes and returns its cache as tensors.

    Args:
        model: The decoder.
        names: Names of the inputs, in the order of the arguments of ``forward``.
    """

    def __init__(self, model: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(self, *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the logits of the new tokens, and the cache with the new tokens in it."""
        named = dict(zip(self.names, inputs, strict=True))
        cache = transformers().DynamicCache()
        for layer in range(sum(map(_is_past, self.names)) // len(_KINDS)):
            keys, values = (named.pop(_past(layer, kind)) for kind in _KINDS)
            cache.update(keys, values, layer)
        result = self.model(**named, past_key_values=cache, use_cache=True)
        layers = enumerate(cache.layers)
        present = {f"present.{n}.{kind}": getattr(each, f"{kind}s") for n, each in layers for kind in _KINDS}
        return {"logits": result["logits"], **present}


def inputs(module: torch.nn.Module, specs: Iterable[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs of a decoder with its cache, from those without.

    Raises:
        UsageError: If the decoder keeps anything but the keys and values of each layer.
    """
    specs = tuple(specs)
    batch, seq = specs[0].dims
    assert isinstance(seq, Dim)
    past = replace(seq, name="past")
    both = Sum((past.name, seq.name))
    tokens = (replace(spec, dims=(batch, both)) if spec.is_mask else spec for spec in specs)
    cache = (
        TensorSpec(_past(layer, kind), "float32", (batch, heads, past, size))
        for layer, sizes in enumerate(_cached(module))
        for kind, (heads, size) in sizes.items()
    )
    return (*tokens, *cache)


def check_whole(given: Iterable[TensorSpec], conventional: Iterable[TensorSpec]) -> None:
    """Check that the user's inputs hold the whole cache.

    Raises:
        UsageError: If an input of the cache is missing.
    """
    names = {spec.name for spec in given}
    missing = next((spec for spec in conventional if _is_past(spec.name) and spec.name not in names), None)
    if missing is not None:
        raise UsageError(f"input {missing.name!r} of the cache is missing: add --input '{missing.name}:{missing}'")


def _past(layer: int, kind: str) -> str:
    return f"past_key_values.{layer}.{kind}"


def _is_past(name: str) -> bool:
    return name.startswith("past_key_values.")


def _cached(module: torch.nn.Module) -> list[Mapping[str, tuple[int, int]]]:
    """Return the heads and the sizes of keys and values in each layer, from a run on one token."""
    what = type(module).__name__
    try:
        with silent(), torch.no_grad():
            result = module(input_ids=torch.zeros((1, 1), dtype=torch.int64), use_cache=True)
    except Exception as error:
        expose_own(error)
        raise UsageError(f"{what} does not run with a cache: {first_line(error)}") from error
    cache = result.get("past_key_values")
    if cache is None:
        raise _no_layout(what, "returns no past_key_values")
    kept = [type(layer).__name__ for layer in getattr(cache, "layers", ())] or [type(cache).__name__]
    other = next((name for name in kept if name not in _LAYERS), None)
    if other is not None:
        raise _no_layout(what, f"keeps earlier tokens in {other}")
    return [dict(_sizes(what, index, layer)) for index, layer in enumerate(cache.layers)]


def _sizes(what: str, index: int, layer: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    for kind in _KINDS:
        tensor = getattr(layer, f"{kind}s")
        if tensor is None or tensor.ndim != _SHAPE:
            raise _no_layout(what, f"keeps no {kind}s of its own in layer {index}")
        yield kind, (tensor.shape[1], tensor.shape[3])


def _no_layout(what: str, why: str) -> UsageError:
    return UsageError(
        f"{what} {why}, and a cache holds the keys and values of each layer: use --task text-generation, which "
        "computes every token anew"
    )
