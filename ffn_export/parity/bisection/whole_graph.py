"""Run the model file on one case, with the session options of the verification and with lower optimisation levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path

from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.types import Array
from ffn_export.parity.bisection.judged_errors import own_error
from ffn_export.parity.bisection.result import Error
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.base import Artifact, Runtime
from ffn_export.runtimes.captured_stderr import captured_stderr
from ffn_export.runtimes.session_options import LEVELS, NO_OPTIMIZER, SessionSettings


@dataclass(frozen=True)
class WholeGraph:
    """A model file on one case.

    Attributes:
        path: The ONNX file.
        runtime: Runtime that runs it.
        threads: Intra-op threads of the runtime.
        feeds: Inputs by the model's names.
        wanted: Output -> truth in float64 and baseline in the working dtype, matched by name or else by position.
        moved: Output -> change of its truth under one rounding of the inputs, on ill-conditioned rows.
        tolerances: Allowed errors.
        excused: Whether to allow errors that an imprecise operator explains.
        caveats: Output of the model -> caveats that may explain its error.
    """

    path: Path
    runtime: Runtime
    threads: int
    feeds: Mapping[str, Array]
    wanted: Mapping[str, tuple[Array, Array]]
    moved: Mapping[str, float]
    tolerances: Tolerances
    excused: bool
    caveats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def worst(self, settings: SessionSettings) -> tuple[int, Error]:
        """Return the place and error of the worst output. An exception of the runtime counts as an error."""
        try:
            with captured_stderr():
                runner = self.runtime.load(Artifact(self.path, settings=settings), self.threads)
                actual = runner.run(self.feeds)
        except Exception as error:  # noqa: BLE001 - onnxruntime's own exceptions derive from Exception alone
            expose_own(error)
            return 0, _refused(f"the runtime failed: {first_line(error)}")
        found = []
        for place, (name, (truth, own)) in enumerate(self.wanted.items()):
            own_name = name if name in actual else next(islice(actual, place, None), None)
            if own_name is None:
                return place, _refused("the runtime has no such output")
            array, moved, caveats = actual[own_name], self.moved.get(name, 0.0), self.caveats.get(own_name, ())
            found.append(
                own_error(name, array, truth, own, self.tolerances, moved, excused=self.excused, caveats=caveats)
            )
        place = max(range(len(found)), key=lambda i: (found[i].over, found[i].factor))
        return place, found[place]

    def lowest_level(self, settings: SessionSettings) -> SessionSettings | None:
        """Return settings at the lowest optimisation level that fails, or None if they pass or fail at every level."""
        if not self.worst(settings)[1].over or self.worst(NO_OPTIMIZER)[1].over:
            return None
        lower = takewhile(lambda level: level != settings.graph_optimization_level, LEVELS)
        tried = (replace(settings, graph_optimization_level=level) for level in lower)
        return next((each for each in tried if self.worst(each)[1].over), settings)


def _refused(problem: str) -> Error:
    return Error(problem=problem, factor=math.inf)
