"""What an architecture of the corpus is: a module, its inputs, and how it becomes a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.generic]
Sizes = Mapping[str, int]

# "fx": `ffn_export.export`. "dynamo", "torchscript": torch's own two exporters.
Exporter = Literal["fx", "dynamo", "torchscript"]

EXAMPLE: Sizes = {"batch": 2, "seq": 7, "target": 5, "samples": 800, "frames": 24}
CHECKED: tuple[Sizes, ...] = (
    {"batch": 3, "seq": 11, "target": 4, "samples": 1100, "frames": 40},
    {"batch": 1, "seq": 5, "target": 9, "samples": 650, "frames": 16},
)


@dataclass(frozen=True)
class Input:
    """One tensor of the graph.

    Attributes:
        shape: A size, or the name of an axis of any size.
        below: Integers are drawn in 0 ..< below; None draws normal floats.
        is_mask: Ones, with the last position of the last row masked.
    """

    shape: tuple[int | str, ...]
    below: int | None = None
    is_mask: bool = False

    def draw(self, sizes: Sizes, generator: np.random.Generator, dtype: torch.dtype) -> Array:
        """Draw values for the sizes of the axes."""
        shape = tuple(axis if isinstance(axis, int) else sizes[axis] for axis in self.shape)
        if self.is_mask:
            mask = np.ones(shape, np.int64)
            mask[-1, -1] = 0
            return mask
        if self.below is not None:
            return generator.integers(1, self.below, shape)
        return generator.standard_normal(shape).astype(np.float16 if dtype == torch.float16 else np.float32)

    @property
    def axes(self) -> dict[int, str]:
        """Return position -> name of the axes that are of any size."""
        return {position: axis for position, axis in enumerate(self.shape) if isinstance(axis, str)}


@dataclass(frozen=True)
class Architecture:
    """One entry of the corpus.

    Attributes:
        name: Unique, in the words of ``transformers``.
        tags: What it stands for: ``post-norm``, ``gated``, ``audio`` …
        build: Makes the module; its weights are drawn again afterwards.
        inputs: By parameter of ``forward``, in its order.
        exporter: Who makes the graph.
        opset: Version of the default operator set.
        dtype: Precision of the module.
        peer_type: Name of the architecture's optimiser in onnxruntime.transformers.
        heads: Attention heads, which that optimiser asks for.
        redraw: Draw the weights again; False for one with real weights.
        quick: Whether `make test` runs it.
        skipped: Why it is not run: no exporter can do it.
    """

    name: str
    tags: tuple[str, ...]
    build: Callable[[], torch.nn.Module]
    inputs: Mapping[str, Input]
    exporter: Exporter = "fx"
    opset: int = 20
    dtype: torch.dtype = torch.float32
    peer_type: str = "bert"
    heads: int = 4
    redraw: bool = True
    quick: bool = False
    skipped: str | None = None
    axes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = {axis for given in self.inputs.values() for axis in given.axes.values()}
        object.__setattr__(self, "axes", frozenset(names))

    def module(self) -> torch.nn.Module:
        """Build the module in evaluation mode, with the same weights each time."""
        torch.manual_seed(0)
        module = self.build().eval()
        if self.redraw:
            draw_weights(module)
        return module.to(self.dtype)

    def feeds(self, sizes: Sizes) -> dict[str, Array]:
        """Draw the inputs for the sizes."""
        generator = np.random.default_rng(sum(sizes.values()))
        return {name: given.draw(sizes, generator, self.dtype) for name, given in self.inputs.items()}


def draw_weights(module: torch.nn.Module) -> None:
    """Draw weights that matter: transformers' own (0.02) hide a wrong layer, and its equal norms one another."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0, (parameter.numel() / parameter.shape[0]) ** -0.5)
            elif parameter.dtype.is_floating_point:
                parameter.add_(0.1 * torch.randn_like(parameter))
