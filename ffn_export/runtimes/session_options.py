"""ONNX Runtime session options, in one place: what is verified is what runs.

A session may rewrite the graph that it loads, and onnxruntime's own fusions are slower on CPU than
the nodes they replace (SkipLayerNormalization above all). So a model is loaded at the BASIC level,
which folds constants and drops no-ops, and the fusions of the higher levels are named as disabled
too, for a program that raises the level and keeps the entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ffn_export.runtimes.threads import chosen_threads

if TYPE_CHECKING:
    import onnxruntime

Level = Literal["disable_all", "basic", "extended", "all"]

_LEVELS: Mapping[str, str] = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

STOP_REFUSING: Mapping[str, str] = {
    "optimization.disable_specified_optimizers": "SkipLayerNormFusion;BiasGeluFusion;FastGeluFusion;MatMulAddFusion"
}


@dataclass(frozen=True)
class SessionSettings:
    """The session options that belong to a model, in any language binding.

    The thread count belongs to a measurement and is given when a session is made.

    Attributes:
        graph_optimization_level: ``disable_all``, ``basic``, ``extended`` or ``all``.
        config_entries: Session configuration entries, key -> value.
    """

    graph_optimization_level: Level = "basic"
    config_entries: Mapping[str, str] = field(default_factory=lambda: dict(STOP_REFUSING))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a manifest."""
        return {
            "graph_optimization_level": self.graph_optimization_level,
            "config_entries": dict(self.config_entries),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionSettings:
        """Read what :meth:`to_dict` wrote."""
        return cls(data["graph_optimization_level"], dict(data["config_entries"]))

    def words(self) -> str:
        """Return them in one line, for somebody who has to set them."""
        entries = [f"{key}={value}" for key, value in self.config_entries.items()]
        return " ".join([f"graph_optimization_level={self.graph_optimization_level}", *entries])

    def session_options(self, threads: int | None = None) -> onnxruntime.SessionOptions:
        """Return them for Python, with ``threads`` intra-op threads; by default all that this process has."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        level = _LEVELS[self.graph_optimization_level]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        for key, value in self.config_entries.items():
            options.add_session_config_entry(key, value)
        options.intra_op_num_threads = chosen_threads(threads)
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors only: they are raised, and reported in one line
        return options


NO_OPTIMIZER = SessionSettings("disable_all", {})
"""For when our own graph is on trial: nothing but the nodes as written."""

UNPACKED = SessionSettings("disable_all", {"session.disable_prepacking": "1"})
"""The same, for a session that runs a few times on a few rows: no weight is copied into a kernel's own order."""
