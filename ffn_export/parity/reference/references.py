"""What a model is verified against: a PyTorch source, or another ONNX model."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import Dim, InputSpecs, TensorSpec, merge_dims, parse_inputs
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, UsageError, did_you_mean
from ffn_export.exporter.source import Source
from ffn_export.fusion_check.indices import MASK, value_range
from ffn_export.parity.cases.case import given
from ffn_export.parity.judging.inner_precision import inner_precisions
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.parity.reference.oracle import TorchOracle
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from ffn_export.runtimes.torch_eager import TorchRunner

_ORDINARY = 5  # of every axis, where its bounds allow it
_APART = 0.1  # relative L2 distance; rounding in half precision and quantised products stay below


class Reference(Protocol):
    """Truth and baseline for a set of inputs."""

    name: str
    inputs: Sequence[TensorSpec]
    source: Source | None
    example: Mapping[str, int]
    computed_in: Mapping[str, str]  # output name -> dtype, where what it is computed in is coarser than its own

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return output name -> (oracle in float64, baseline in the working dtype).

        Raises:
            Exception: Whatever the reference itself raises on inputs that it refuses.
        """
        ...

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run in the working dtype alone, anew each time."""
        ...

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Return output name -> the oracle's array; None where there is no oracle to ask.

        With a seed, parameters that it knows are moved by one rounding each, in directions drawn from that.
        """
        ...


class TorchReference:
    """A PyTorch module: oracle in float64, baseline in its own dtype."""

    def __init__(self, source: Source, threads: int) -> None:
        self.name = source.spec
        self.source: Source | None = source
        self.inputs: Sequence[TensorSpec] = source.inputs
        self.example = source.example
        self.computed_in: Mapping[str, str] = {}  # PyTorch rounds as it says: its own error tells
        self._oracle = TorchOracle(source)
        self._baseline = TorchRunner(source, threads)

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Run the module twice."""
        baseline = self._baseline.run(feeds)
        oracle = self._oracle.run(feeds)
        return {name: (truth, own) for truth, (name, own) in zip(oracle, baseline.items(), strict=True)}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the module as it is."""
        return self._baseline.run(feeds)

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array]:
        """Run the oracle alone."""
        arrays = self._oracle.run(feeds, rounding_seed)
        return dict(zip(self._baseline.output_names(feeds), arrays, strict=True))


class OnnxReference:
    """Another ONNX model: oracle by ONNX's reference evaluator in float64, baseline as written.

    The baseline runs in ONNX Runtime, or in the evaluator where that has no kernel, as for bfloat16.
    """

    def __init__(self, path: Path, threads: int, inputs: InputSpecs | None = None) -> None:
        self.name = str(path)
        self.source: Source | None = None
        model = onnx_file.load(path)
        self.inputs: Sequence[TensorSpec] = graph_inputs(model, inputs)
        self.example: Mapping[str, int] = {}
        self.computed_in = inner_precisions(model)
        artifact = Artifact(path, settings=NO_OPTIMIZER)
        try:
            self._baseline = OrtCpu().load(artifact, threads)
        except RuntimeUnavailableError:
            self._baseline = OnnxEvaluator().load(artifact, threads)
        self._path = path
        self._building = threading.Lock()

    @property
    def _oracle(self) -> GraphOracle | None:
        """The graph in float64, from the first time that it is asked: it holds the weights several times."""
        with self._building:  # cases may be judged in several threads
            return self._built

    @cached_property
    def _built(self) -> GraphOracle | None:
        try:
            oracle = GraphOracle(self._path)
        except NotImplementedError:
            return None  # an operator without a formula: the model as written is all the truth there is
        return oracle if self._is_of_this_graph(oracle) else None

    def _is_of_this_graph(self, oracle: GraphOracle) -> bool:
        """Whether the evaluator and ONNX Runtime compute the same function, on ordinary numbers.

        Either has operators that it gets wrong. An oracle that is no truth makes the baseline's error so large that any
        graph would pass beside it; then the model as written is the truth too.
        """
        dims = list(merge_dims(self.inputs).values())
        feeds = draw_all(self.inputs, fit_sizes(dims, {dim.name: _ORDINARY for dim in dims}), seed=0)
        try:
            baseline, truths = self._baseline.run(feeds), oracle.run(feeds)
        except Exception as error:  # noqa: BLE001 - sizes that the model refuses: each case says so of itself
            expose_own(error)
            return True
        return all(
            truth.shape == own.shape and _distance(own, truth) <= _APART
            for truth, own in zip(truths, baseline.values(), strict=True)
            if truth.dtype.kind == "f"
        )

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Run both evaluations; without an oracle the baseline counts as exact."""
        baseline = self._baseline.run(feeds)
        oracle = self._oracle.run(feeds) if self._oracle is not None else list(baseline.values())
        return {name: (truth, own) for truth, (name, own) in zip(oracle, baseline.items(), strict=True)}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the graph as it is written."""
        return self._baseline.run(feeds)

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Run the oracle alone, where there is one; its initialisers stay as they are."""
        del rounding_seed
        if self._oracle is None:
            return None
        return dict(zip(self._oracle.outputs, self._oracle.run(feeds), strict=True))


def _distance(own: Array, truth: Array) -> float:
    """Return the relative L2 distance over what is finite in both."""
    wide = own.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(truth)
    return relative_l2(wide[finite], truth[finite])


class VectorReference:
    """A bundle's test vectors: the oracle's values for one set of inputs, rounded to the working dtype.

    Attributes:
        why_alone: Why the source itself is not asked; None where the bundle names none.
    """

    def __init__(
        self,
        name: str,
        tensors: Sequence[Mapping[str, Any]],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        why_alone: str | None = None,
    ) -> None:
        self.name = name
        self.why_alone = why_alone
        self.source: Source | None = None
        self.example: Mapping[str, int] = {}
        self.computed_in: Mapping[str, str] = {}
        self.inputs: Sequence[TensorSpec] = tuple(
            TensorSpec.parse_tensor(t["name"], f"{t['dtype']}[{','.join(map(str, _shape(t, inputs)))}]")
            for t in tensors
        )
        self._outputs = outputs
        self.case = given(inputs, self.inputs)

    def knows(self, feeds: Mapping[str, Array]) -> bool:
        """Whether these are the inputs that the outputs are recorded of."""
        own = self.case.given or {}
        return own.keys() == feeds.keys() and all(np.array_equal(own[name], feeds[name]) for name in own)

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return the recorded outputs; PyTorch's own error was not recorded and counts as none."""
        del feeds
        return {name: (array, array) for name, array in self._outputs.items()}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the recorded outputs."""
        del feeds
        return self._outputs

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> None:
        """There is none: it was asked once, when the vectors were written."""
        del feeds, rounding_seed


def graph_inputs(model: ir.Model, declared: InputSpecs | None = None) -> tuple[TensorSpec, ...]:
    """Read input specs off a graph; an axis without a name gets one of its own, integers the bounds of what they index.

    Args:
        model: The graph.
        declared: What the caller says of some of them, which is taken in place of what the graph says.

    Raises:
        UsageError: If an input has no known dtype or rank and is not declared, or one is declared that there is not.
    """
    known = {spec.name: spec for spec in parse_inputs(declared)} if declared else {}
    names = [str(value.name) for value in model.graph.inputs]
    for name in known.keys() - set(names):
        raise UsageError(f"the model has no input {name!r};{did_you_mean(name, names)} it has {', '.join(names)}")
    specs = []
    for value in model.graph.inputs:
        if value.name in known:
            specs.append(known[value.name])
            continue
        if value.name in model.graph.initializers:
            continue  # has a default
        if value.dtype is None or value.shape is None:
            raise UsageError(
                f"input {value.name!r} of the model has no dtype or no rank: export it with both, or name it to verify "
                f"with --input '{value.name}:DTYPE[DIM,...]'"
            )
        dims = tuple(
            dim if isinstance(dim, int) else Dim(str(dim.value) if dim.value else f"{value.name}_{axis}")
            for axis, dim in enumerate(value.shape)
        )
        name, integer = str(value.name), value.dtype.is_integer()
        bounds = value_range(value) if integer else None
        is_mask = integer and bounds == MASK and "mask" in name.lower()
        specs.append(TensorSpec(name, value.dtype.numpy().name, dims, bounds, is_mask=is_mask))
    return tuple(specs)


def _shape(tensor: Mapping[str, Any], inputs: Mapping[str, Array]) -> Sequence[int | str]:
    """Return the shape that a manifest gives an input; where it gives none, that of the recorded one."""
    recorded = inputs.get(tensor["name"])
    shape: Sequence[int | str] | None = tensor["shape"]
    return shape or () if recorded is None or shape is not None else tuple(recorded.shape)
