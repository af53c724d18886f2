"""ONNX's reference evaluator: slow, and the standard's definition of what a graph computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
from onnx_ir.external_data import load_to_model

from ffn_export.core import onnx_file
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.errors import RuntimeUnavailableError
from ffn_export.fusion.functions import bodies, inline, portable
from ffn_export.runtimes.base import Artifact, Runner, Runtime
from ffn_export.runtimes.precision import described, graph_dtypes

if TYPE_CHECKING:
    from ffn_export.runtimes.evaluator import Evaluator


class OnnxEvaluator(Runtime):
    """The runtime ``reference``."""

    name = "reference"
    by_default = False  # takes minutes where other runtimes take seconds
    last_resort = True

    def unavailable(self, artifact: Artifact) -> str | None:
        """Return why the model is missing or has an unknown vendor operator, or None."""
        if artifact.model_path is None:
            return "there is no ONNX model to run"
        return unknown_operator(onnx_file.load(artifact.model_path))

    def load(self, artifact: Artifact, threads: int) -> Runner:
        """Make an evaluator; NumPy chooses its threads."""
        del threads
        return EvaluatorRunner(self.model_of(artifact))


class EvaluatorRunner:
    """An evaluator that takes and gives arrays by name.

    Raises:
        RuntimeUnavailableError: If the evaluator cannot run one of the operators.
    """

    def __init__(self, path: Path) -> None:
        model = load_to_model(onnx_file.load(path))
        self._nodes = len(model.graph)
        self._dtypes = graph_dtypes(model)
        try:
            self._evaluator = evaluator_of(_with_bodies(model))
        except Exception as error:  # raises NotImplementedError, RuntimeError, KeyError and others
            expose_own(error)
            raise RuntimeUnavailableError(f"ONNX's reference evaluator: {first_line(error)}") from error

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run once."""
        return dict(zip(self._evaluator.output_names, self.prepare(feeds)(), strict=True))

    def prepare(self, feeds: Mapping[str, Array]) -> Callable[[], Any]:
        """Return a call of the evaluator."""
        inputs = dict(feeds)

        def call() -> Any:
            with np.errstate(all="ignore"):  # an overflow shows in the numbers
                return self._evaluator.run(None, inputs)

        return call

    def placement(self) -> dict[str, int]:
        """Return the number of nodes; all run in NumPy."""
        return {"numpy": self._nodes}

    def precision(self) -> str:
        """Return the dtypes of the graph, and how half precision is summed."""
        wide = not self._dtypes.isdisjoint({"float16", "bfloat16"})
        return described(self._dtypes) + (", half precision summed in float32" if wide else "")


def evaluator_of(model: ir.Model) -> Evaluator:
    """Return ONNX's reference evaluator of a model, with the operators of this package; unused outputs get a name.

    Raises:
        Exception: If it cannot run one of the operators: ``NotImplementedError``, ``RuntimeError``, ``KeyError`` …
    """
    from ffn_export.runtimes.evaluator import Evaluator

    name_unused_outputs(model)
    return Evaluator(ir.serde.serialize_model(model))


def _with_bodies(model: ir.Model) -> ir.Model:
    """Inline vendor operators with a function body, and outlined feed-forwards."""
    return inline.written_out(portable.add(model))


def unknown_operator(model: ir.Model) -> str | None:
    """Return a reason that names the first operator that is not standard and has no definition here, or None."""
    from ffn_export.runtimes import contrib_operators

    for node in model.graph.all_nodes():
        if node.domain in ("", "ai.onnx", "ai.onnx.ml") or node.op_identifier() in model.functions:
            continue
        is_known = node.domain == contrib_operators.DOMAIN and node.op_type in contrib_operators.OPERATORS
        if not is_known and bodies.of(node) is None:
            return f"it has no operator {node.domain}::{node.op_type}"
    return None


def name_unused_outputs(model: ir.Model) -> None:
    """Name the omitted outputs of all nodes.

    The evaluator stores an omitted output under the empty name, which also stands for an omitted input. A
    later node would take that output as its input.
    """
    for index, node in enumerate(model.graph.all_nodes()):
        for position, output in enumerate(node.outputs):
            if not output.name:
                output.name = f"unused_{index}_{position}"
