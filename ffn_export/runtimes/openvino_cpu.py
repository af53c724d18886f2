"""OpenVINO on its CPU device, with the precision read from the compiled nodes.

By default, OpenVINO silently computes a float32 model in bfloat16 if the processor supports it, else in float32. So
this module defines two runtimes: ``openvino`` requests float32; ``openvino-bf16`` keeps the default and is unavailable
if the processor has no bfloat16.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ffn_export.core import onnx_file
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError, UsageError
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.captured_stderr import captured_stderr
from ffn_export.runtimes.precision import described, graph_dtypes

DEVICE = "CPU"
_DTYPES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
# Nodes of a compiled model without arithmetic: they hold, move or convert data.
_NO_ARITHMETIC = frozenset({"Const", "Convert", "Input", "MemoryInput", "MemoryOutput", "Output", "Reorder"})
_UNKNOWN_OPERATORS = "No conversion rule found for operations: "
_IN_FLOAT32 = {
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",  # otherwise the inputs of a product with 8-bit weights become 8-bit too
}


class OpenVino(Runtime):
    """A runtime of OpenVINO.

    Args:
        name: Name on the command line.
        precision: Required dtype of the products.
        options: Properties for compiling a model, besides the number of threads.
    """

    by_default = False  # an optional package: the default runtimes are the same on all machines

    def __init__(self, name: str, precision: str, options: Mapping[str, str]) -> None:
        self.name = name
        self.precision = precision
        self.options = options

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why a package, model or bfloat16 is missing, or None; unknown operators show only in loading."""
        try:
            import openvino
        except ImportError as error:
            return f"OpenVINO is not installed ({error}): run `pip install 'ffn-export[openvino]'`"
        if artifact.model_path is None:
            return "there is no ONNX model to run"
        if self.precision == "bfloat16" and "BF16" not in openvino.Core().get_property(
            DEVICE, "OPTIMIZATION_CAPABILITIES"
        ):
            return "this processor has no bfloat16, so OpenVINO computes in float32 here: that is the runtime openvino"
        return None

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Compile the model and check the device and precision of its nodes."""
        path = self.model_of(artifact)
        model = onnx_file.load(path)
        dtypes = {value.dtype.name.lower() for value in (*model.graph.inputs, *model.graph.outputs) if value.dtype}
        if "bfloat16" in dtypes:
            raise RuntimeUnavailableError("its Python interface takes and gives no arrays in bfloat16")
        if "float64" in graph_dtypes(model):
            raise RuntimeUnavailableError("OpenVINO computes in float32 at most, and the graph is in float64")
        compiled = _compile(path, {**self.options, "INFERENCE_NUM_THREADS": threads})
        reason = self.misplaced(compiled)
        if reason is not None:
            raise RuntimeUnavailableError(reason)
        return OpenVinoRunner(compiled, [str(value.name) for value in model.graph.outputs])

    def misplaced(self, compiled: Any) -> str | None:
        """Return why a compiled model does not run on this device in this precision, or None if it does."""
        devices = list(compiled.get_property("EXECUTION_DEVICES"))
        if devices != [DEVICE]:
            return f"it runs on {', '.join(devices)}, not on {DEVICE}"
        found = computed_in(compiled)
        if self.precision == "bfloat16":
            return None if found["bfloat16"] else "OpenVINO computes no node of this model in bfloat16"
        others = sorted(found.keys() - {self.precision})
        if others:
            return f"OpenVINO computes {found[others[0]]} nodes of this model in {others[0]}, not in {self.precision}"
        return None


FLOAT32 = OpenVino("openvino", "float32", _IN_FLOAT32)
BFLOAT16 = OpenVino("openvino-bf16", "bfloat16", {})


class OpenVinoRunner:
    """A compiled model that takes and gives arrays by name.

    Args:
        compiled: An ``openvino.CompiledModel``.
        outputs: Names of the graph's outputs.
    """

    def __init__(self, compiled: Any, outputs: Sequence[str]) -> None:
        self._compiled = compiled
        self._outputs = outputs

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        Raises:
            UsageError: If OpenVINO refuses the inputs.
        """
        try:
            result = self.prepare(feeds)()
        except RuntimeError as error:
            raise UsageError(f"OpenVINO: {_reason(error)}") from error
        return {name: np.array(result[self._compiled.output(name)]) for name in self._outputs}

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of an inference request that reads the arrays in place."""
        import openvino

        request = self._compiled.create_infer_request()
        for name, array in feeds.items():
            request.set_tensor(name, openvino.Tensor(np.asarray(array, order="C"), shared_memory=True))
        return lambda: request.infer(share_outputs=True)

    def placement(self) -> dict[str, int]:
        """Return the device and its number of nodes with arithmetic."""
        return {DEVICE: sum(1 for _ in _computing(self._compiled))}

    def precision(self) -> str:
        """Return the dtypes that the compiled model records for its nodes."""
        return described(set(computed_in(self._compiled)))


def computed_in(compiled: Any) -> Counter[str]:
    """Return floating-point dtype -> number of nodes of a compiled model that compute in it."""
    return Counter(_DTYPES[precision] for precision in _computing(compiled) if precision in _DTYPES)


def _computing(compiled: Any) -> list[str]:
    """Return the precision of each node with arithmetic, by OpenVINO's name."""
    infos = [node.get_rt_info() for node in compiled.get_runtime_model().get_ops()]
    return [
        info["runtimePrecision"].astype(str) for info in infos if info["layerType"].astype(str) not in _NO_ARITHMETIC
    ]


def _compile(path: Path, options: Mapping[str, Any]) -> Any:
    """Read and compile a model.

    Raises:
        RuntimeUnavailableError: If OpenVINO lacks an operator of the model.
        UsageError: If OpenVINO refuses the model for another reason.
    """
    import openvino

    core = openvino.Core()
    try:
        with captured_stderr():
            return core.compile_model(core.read_model(path), DEVICE, {"NUM_STREAMS": 1, **options})
    except Exception as error:
        _, unknown, operators = str(error).partition(_UNKNOWN_OPERATORS)
        if unknown:
            raise RuntimeUnavailableError(f"OpenVINO has no operator {operators.strip()}") from error
        raise UsageError(f"OpenVINO does not load {path.name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return OpenVINO's reason: the line about a node, else the last line. Other lines name its source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("While validating node")), lines[-1] if lines else "")
