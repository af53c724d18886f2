"""tract, the inference engine in Rust, on one thread of the CPU and in float32."""

from __future__ import annotations

import json
import re
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

_NO_ARITHMETIC = frozenset({"Const", "Source"})
_DTYPES = {"F16": "float16", "F32": "float32", "F64": "float64"}
_ARITHMETIC = re.compile(r"(?:FMA|Div)\((\w+)\)")  # an entry of a node's cost, with its dtype


class Tract(Runtime):
    """The runtime ``tract``."""

    name = "tract"
    by_default = False  # an optional package: the default runtimes are the same on all machines

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the package or model is missing, or None; operators and dtypes are checked in loading."""
        try:
            import tract  # noqa: F401
        except ImportError as error:
            return f"tract is not installed ({error}): run `pip install 'ffn-export[tract]'`"
        return "there is no ONNX model to run" if artifact.model_path is None else None

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Load the model; ``threads`` is ignored, since tract's Python package computes on one thread."""
        del threads
        path = self.model_of(artifact)
        model = onnx_file.load(path)
        others = graph_dtypes(model) - {"float32"}
        if others:
            raise RuntimeUnavailableError(f"tract is asked for float32 alone, and the graph has {described(others)}")
        names = [str(value.name) for value in model.graph.outputs]
        return TractRunner(*_load(path), names)


class TractRunner:
    """A model of tract that takes and gives arrays by name.

    Args:
        runnable: A ``tract.Runnable``.
        inputs: Names of its inputs, in tract's order.
        outputs: Names of the graph's outputs, in the order of the graph, which is also tract's.

    Raises:
        RuntimeUnavailableError: If a node computes in a dtype other than float32.
    """

    def __init__(self, runnable: Any, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._runnable = runnable
        self._inputs = inputs
        self._outputs = outputs
        nodes = json.loads(runnable.profile_json(None))["nodes"]
        self._nodes = sum(node["op_name"] not in _NO_ARITHMETIC for node in nodes)
        costs = (_ARITHMETIC.match(cost) for node in nodes for cost in node.get("cost", ()))
        self._dtypes = {_DTYPES[cost[1]] for cost in costs if cost is not None and cost[1] in _DTYPES}
        if self._dtypes - {"float32"}:
            raise RuntimeUnavailableError(f"tract computes in {described(self._dtypes)}, not in float32 alone")

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once.

        Raises:
            UsageError: If tract refuses the inputs.
        """
        try:
            results = self.prepare(feeds)()
        except Exception as error:
            raise UsageError(f"tract: {_first_line(error)}") from error
        return {name: tensor.to_numpy() for name, tensor in zip(self._outputs, results, strict=True)}

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call on inputs that are already tract's tensors."""
        import tract

        tensors = [tract.Tensor.from_numpy(np.asarray(feeds[name], order="C")) for name in self._inputs]
        return lambda: self._runnable.run(tensors)

    def placement(self) -> dict[str, int]:
        """Return the number of nodes; all are on the CPU, which is tract's default runtime."""
        return {"CPU, one thread": self._nodes}

    def precision(self) -> str:
        """Return the dtypes of the multiplications and divisions in tract's profile."""
        return described(self._dtypes)


def _load(path: Path) -> tuple[Any, list[str]]:
    """Return a ``tract.Runnable`` and the names of its inputs.

    Raises:
        RuntimeUnavailableError: If tract refuses the model, for an operator, a dtype, or an axis that it cannot infer.
    """
    import tract

    try:
        with captured_stderr():
            model = tract.onnx().load(path).into_model()
            names = [model.input_name(index) for index in range(model.input_count())]
            return model.into_runnable(), names
    except Exception as error:
        raise RuntimeUnavailableError(f"tract does not load the model: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return tract's message in one line, without its backtrace."""
    said, _, _ = str(error).partition("Stack backtrace:")
    return " ".join(said.split())
