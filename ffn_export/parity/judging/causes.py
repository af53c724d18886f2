"""Known causes of failing cases: empty tensors that a runtime mishandles, and mask rows without any key.

Runtimes often violate the ONNX specification on an axis of size 0. ONNX's reference evaluator decides whether the
graph or the runtime is wrong: if the evaluator agrees with the oracle, the graph is right and the case is warned. A
graph that the evaluator rejects, too, has failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.types import Array
from ffn_export.errors import FfnExportError
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.evidence import Evaluated
from ffn_export.parity.judging.metrics import compare
from ffn_export.parity.judging.result import CaseResult
from ffn_export.parity.judging.runtime_quirks import EMPTY_TENSORS
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.base import Artifact, Runner
from ffn_export.runtimes.reference import OnnxEvaluator


class Causes:
    """Finds causes of one model's failures."""

    def __init__(self, artifact: Artifact, tolerances: Tolerances) -> None:
        self._artifact = artifact
        self._tolerances = tolerances

    def named(self, evaluated: Evaluated, specs: Sequence[TensorSpec]) -> tuple[CaseResult, ...]:
        """Return the results of a case, adding the cause to each failed one."""
        return tuple(
            self._named(result, evaluated, specs)
            if result.skipped is None and result.failure(self._tolerances) is not None
            else result
            for result in evaluated.results
        )

    def _named(self, result: CaseResult, evaluated: Evaluated, specs: Sequence[TensorSpec]) -> CaseResult:
        if any(array.size == 0 for array in evaluated.feeds.values()):
            is_right = result.runtime != OnnxEvaluator.name and self._is_right(evaluated)
            return replace(result, caveats=(*result.caveats, EMPTY_TENSORS)) if is_right else result
        return replace(result, hint=_unseen(result, evaluated.feeds, specs))

    def _is_right(self, evaluated: Evaluated) -> bool:
        """Whether the graph agrees with the oracle on ONNX's reference evaluator."""
        if self._evaluator is None:
            return False
        try:
            gave = self._evaluator.run(evaluated.feeds)
        except Exception as error:  # noqa: BLE001 - the evaluator raises whatever it meets
            expose_own(error)
            return False
        return all(
            verdict.output_failure(
                compare(name, gave.get(name), truth, truth.astype(gave[name].dtype) if name in gave else truth),
                self._tolerances,
            )
            is None
            for name, truth in evaluated.truths.items()
        )

    @cached_property
    def _evaluator(self) -> Runner | None:
        try:
            return OnnxEvaluator().load(self._artifact, 1)
        except FfnExportError:
            return None


def _unseen(result: CaseResult, feeds: Mapping[str, Array], specs: Sequence[TensorSpec]) -> str | None:
    """Return a hint if an output is wrong in a row that a mask hides completely."""
    wrong = [
        index
        for output in result.outputs
        for index in (output.unexpected_index, output.actual.worst_index, output.settled_index)
    ]
    for spec in specs:
        array = feeds[spec.name]
        if not _may_be_mask(spec) or array.ndim < 2:
            continue
        for row in np.argwhere(~array.astype(bool).any(axis=-1)).tolist():
            if any(list(index[:1]) == row[:1] for index in wrong):
                place = row[0] if len(row) == 1 else row
                dims = ",".join(map(str, spec.dims))
                advice = f"declare {spec.name}:{spec.dtype}[{dims}]{{mask}}"
                return f"row {place} of {spec.name} sees no key: where no caller gives that, {advice}"
    return None


def _may_be_mask(spec: TensorSpec) -> bool:
    """Whether an input may be a mask, without being declared as one that shows a key in each row."""
    is_of_bits = spec.dtype == "bool" or (not spec.is_floating and spec.value_range in (None, (0, 1)))
    return is_of_bits and not spec.is_mask and "pad" not in spec.name.lower()
