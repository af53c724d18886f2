"""References that a model is verified against: a PyTorch source, another ONNX model, or test vectors."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from ffn_export.core import onnx_file
from ffn_export.core.drawing import draw_all, fit_sizes
from ffn_export.core.fills import scales
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import InputSpecs, TensorSpec, merge_dims, parse_inputs, symbolic_axis
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, UsageError, did_you_mean
from ffn_export.exporter.source import Source
from ffn_export.fusion_check.indices import MASK, is_index, value_range
from ffn_export.parity.cases.case import given
from ffn_export.parity.judging.inner_precision import inner_precisions
from ffn_export.parity.judging.metrics import relative_l2
from ffn_export.parity.reference.float64_graph import GraphOracle
from ffn_export.parity.reference.oracle import TorchOracle
from ffn_export.parity.reference.runtime_arithmetic import RuntimeArithmetic
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.in_place import load_in_place
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.reference import OnnxEvaluator
from ffn_export.runtimes.session_options import NO_OPTIMIZER
from ffn_export.runtimes.torch_eager import TorchRunner

_ORDINARY = 5  # size of every axis, if its bounds allow it
_APART = 0.1  # relative L2 distance; errors of half precision and quantised products are smaller


class Reference(ABC):
    """Source of oracle and baseline for a set of inputs."""

    def __init__(self, name: str, inputs: Sequence[TensorSpec], source: Source | None = None) -> None:
        self.name, self.inputs, self.source = name, inputs, source
        self.example: Mapping[str, int] = {} if source is None else source.example
        # Output name -> dtype that it is computed in, if coarser than the output's dtype.
        self.computed_in: Mapping[str, str] = {}

    @abstractmethod
    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return output name -> (oracle in float64, baseline in the working dtype).

        Raises:
            Exception: If the reference refuses the inputs; of any type.
        """

    @abstractmethod
    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run only in the working dtype, without a cache."""

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Return output name -> array of the oracle, or None without an oracle.

        With a seed, each parameter that the reference knows is moved by one rounding in a drawn direction.
        """
        return None

    def as_runtime(self, feeds: Mapping[str, Array]) -> Mapping[str, Array] | None:
        """Return the baseline in the arithmetic of ONNX Runtime, or None if it is the baseline itself."""
        return None


class TorchReference(Reference):
    """A PyTorch module: oracle in float64, baseline in its working dtype."""

    def __init__(self, source: Source, threads: int) -> None:
        super().__init__(source.spec, source.inputs, source)
        self._oracle = TorchOracle(source)
        self._baseline = TorchRunner(source, threads)
        self._as_runtime = RuntimeArithmetic(source)

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Run oracle and baseline."""
        baseline = self._baseline.run(feeds)
        oracle = self._oracle.run(feeds)
        return {name: (truth, own) for truth, (name, own) in zip(oracle, baseline.items(), strict=True)}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the module in its working dtype."""
        return self._baseline.run(feeds)

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array]:
        """Run only the oracle."""
        arrays = self._oracle.run(feeds, rounding_seed)
        return dict(zip(self._baseline.output_names(feeds), arrays, strict=True))

    def as_runtime(self, feeds: Mapping[str, Array]) -> Mapping[str, Array] | None:
        """Run the module in the arithmetic of ONNX Runtime."""
        arrays = self._as_runtime.run(feeds)
        return None if arrays is None else dict(zip(self._baseline.output_names(feeds), arrays, strict=True))


class OnnxReference(Reference):
    """Another ONNX model: oracle in float64 by ONNX's reference evaluator, baseline in the dtypes of the graph.

    The baseline runs in ONNX Runtime, or in the evaluator if ONNX Runtime has no kernel, as for bfloat16.

    Args:
        path: The model.
        threads: Intra-op threads of the baseline.
        inputs: Declared inputs.
        exact: Whether there is an oracle. A large declared budget does not need its precision, time and memory; the
            baseline then copies no weight either.
    """

    def __init__(self, path: Path, threads: int, inputs: InputSpecs | None = None, *, exact: bool = True) -> None:
        model = onnx_file.load(path)
        super().__init__(str(path), graph_inputs(model, inputs))
        self.computed_in = inner_precisions(model)
        artifact = Artifact(path, settings=NO_OPTIMIZER)
        try:
            load = OrtCpu().load
            self._baseline = load(artifact, threads) if exact else load_in_place(model, threads, ends=True)
        except RuntimeUnavailableError:
            self._baseline = OnnxEvaluator().load(artifact, threads)
        self._path = path
        self._declared = {str(value.name): value.shape for value in model.graph.outputs}
        self._exact = exact
        self._building = threading.Lock()

    @property
    def _oracle(self) -> GraphOracle | None:
        """The graph in float64, built on first use because it holds several copies of the weights."""
        with self._building:  # cases may run in several threads
            return self._built

    @cached_property
    def _built(self) -> GraphOracle | None:
        if not self._exact:
            return None
        try:
            oracle = GraphOracle(self._path)
        except NotImplementedError:
            return None  # no float64 evaluation: the baseline serves as the truth
        return oracle if self._is_of_this_graph(oracle) else None

    def _is_of_this_graph(self, oracle: GraphOracle) -> bool:
        """Whether the evaluator and the baseline agree on ordinary numbers.

        Both the evaluator and ONNX Runtime have wrong operators. A wrong oracle makes the baseline's error so large
        that any graph would pass. The baseline then serves as the truth.
        """
        dims = list(merge_dims(self.inputs).values())
        feeds = draw_all(self.inputs, fit_sizes(dims, {dim.name: _ORDINARY for dim in dims}), seed=0)
        try:
            baseline, truths = self._baseline.run(feeds), oracle.run(feeds)
        except Exception as error:  # noqa: BLE001 - the model may refuse these sizes; each case reports its own error
            expose_own(error)
            return True
        return all(
            truth.shape == own.shape and _distance(own, truth) <= _APART
            for truth, own in zip(truths, baseline.values(), strict=True)
            if truth.dtype.kind == "f"
        )

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Run oracle and baseline. Without an oracle the baseline counts as exact.

        Raises:
            ValueError: If an empty output has another rank or size than the graph declares: onnxruntime keeps an axis
                that is reduced by a negative index.
        """
        baseline = self._baseline.run(feeds)
        for name, array in baseline.items():
            if array.size == 0 and not _fits(array, self._declared[name]):
                raise ValueError(f"onnxruntime gives {name!r} the shape {list(array.shape)}")
        oracle = self._oracle.run(feeds) if self._oracle is not None else list(baseline.values())
        return {name: (truth, own) for truth, (name, own) in zip(oracle, baseline.items(), strict=True)}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run the graph in its dtypes."""
        return self._baseline.run(feeds)

    def oracle(self, feeds: Mapping[str, Array], rounding_seed: int | None = None) -> Mapping[str, Array] | None:
        """Run only the oracle, or return None without one. The seed is ignored, and initializers are not moved."""
        if self._oracle is None:
            return None
        return dict(zip(self._oracle.outputs, self._oracle.run(feeds), strict=True))


def _fits(array: Array, declared: ir.Shape | None) -> bool:
    """Whether an array has the rank and the fixed sizes of a declaration."""
    return declared is None or (
        array.ndim == len(declared)
        and all(size == dim or not isinstance(dim, int) for size, dim in zip(array.shape, declared, strict=True))
    )


def _distance(own: Array, truth: Array) -> float:
    """Return the relative L2 distance over the elements that are finite in both."""
    wide = own.astype(np.float64)
    finite = np.isfinite(wide)
    parts = ((at & finite, scale) for at, scale in scales(truth))  # fills apart, at whose size nothing else shows
    return max(relative_l2(wide[at], truth[at], scale) for at, scale in parts)


class VectorReference(Reference):
    """Test vectors of a bundle: the oracle's outputs for one set of inputs, rounded to the working dtype.

    Attributes:
        why_alone: Reason why the source is not used; None if the bundle names no source.
    """

    def __init__(
        self,
        name: str,
        tensors: Sequence[Mapping[str, Any]],
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        why_alone: str | None = None,
    ) -> None:
        typed = ((t["name"], f"{t['dtype']}[{','.join(map(str, _shape(t, inputs)))}]") for t in tensors)
        super().__init__(name, tuple(TensorSpec.parse_tensor(*each) for each in typed))
        self.why_alone = why_alone
        self._outputs = outputs
        self.case = given(inputs, self.inputs)

    def knows(self, feeds: Mapping[str, Array]) -> bool:
        """Whether the outputs are recorded for these inputs."""
        own = self.case.given or {}
        return own.keys() == feeds.keys() and all(np.array_equal(own[name], feeds[name]) for name in own)

    def evaluate(self, feeds: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return the recorded outputs. PyTorch's own error is not recorded and counts as 0."""
        return {name: (array, array) for name, array in self._outputs.items()}

    def baseline(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the recorded outputs."""
        return self._outputs


def graph_inputs(model: ir.Model, declared: InputSpecs | None = None) -> tuple[TensorSpec, ...]:
    """Read input specs from a graph. An unnamed axis gets a unique name, and integers get bounds from their use.

    Args:
        model: The graph.
        declared: Specs of some inputs from the caller, which replace those of the graph.

    Raises:
        UsageError: If an undeclared input has no dtype or rank, or a declared input does not exist.
    """
    known = {spec.name: spec for spec in parse_inputs(declared)} if declared else {}
    names = [str(value.name) for value in model.graph.inputs]
    for name in known.keys() - set(names):
        raise UsageError(f"the model has no input {name!r};{did_you_mean(name, names)} it has {', '.join(names)}")
    axes = {str(dim.value) for value in model.graph.inputs for dim in value.shape or () if not isinstance(dim, int)}
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
            dim
            if isinstance(dim, int)
            else symbolic_axis(str(dim.value) if dim.value else f"{value.name}_{axis}", axes)
            for axis, dim in enumerate(value.shape)
        )
        name, integer = str(value.name), value.dtype.is_integer()
        bounds = value_range(value) if integer else None
        is_mask = integer and bounds == MASK and "mask" in name.lower()
        is_guessed = integer and not is_mask and not is_index(value)
        specs.append(TensorSpec(name, value.dtype.numpy().name, dims, bounds, is_mask, is_guessed))
    return tuple(specs)


def _shape(tensor: Mapping[str, Any], inputs: Mapping[str, Array]) -> Sequence[int | str]:
    """Return the shape of an input in the manifest, or else that of the recorded array."""
    recorded = inputs.get(tensor["name"])
    shape: Sequence[int | str] | None = tensor["shape"]
    return shape or () if recorded is None or shape is not None else tuple(recorded.shape)
