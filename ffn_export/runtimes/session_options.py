"""ONNX Runtime session options, in one place: what is verified is what runs.

A session may rewrite the graph that it loads, and onnxruntime's own fusions are slower on CPU than
the nodes they replace (SkipLayerNormalization above all). So a model is loaded at the BASIC level,
which folds constants and drops no-ops, and the fusions of the higher levels are named as disabled
too, for a program that raises the level and keeps the entries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ffn_export.errors import UsageError
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

# The entries that this package writes, and what each may be. Others write files, read them, or load libraries: they are
# refused where a file names them.
_WRITTEN_BY_US: Mapping[str, str] = {
    "optimization.disable_specified_optimizers": r"[A-Za-z0-9_;]*",
    "session.disable_prepacking": "[01]",
    "session.dynamic_block_base": "[0-9]{1,4}",
    "session.intra_op.allow_spinning": "[01]",
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
        """Read what :meth:`to_dict` wrote.

        Raises:
            UsageError: If it sets anything that this package does not.
        """
        level, entries = data["graph_optimization_level"], dict(data["config_entries"])
        if level not in _LEVELS:
            raise UsageError(
                f"session options ask for the optimisation level {level!r}: known are {', '.join(_LEVELS)}"
            )
        for key, value in entries.items():
            if key not in _WRITTEN_BY_US or not re.fullmatch(_WRITTEN_BY_US[key], value):
                raise UsageError(f"session options set {key!r} to {value!r}, which ffn-export never writes")
        return cls(level, entries)

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
        # Fatal only: errors are raised, and reported in one line. The log would hold names from the model as they are.
        options.log_severity_level = 4
        return options


NO_OPTIMIZER = SessionSettings("disable_all", {})
"""For when our own graph is on trial: nothing but the nodes as written."""

UNPACKED = SessionSettings("disable_all", {"session.disable_prepacking": "1"})
"""The same, for a session that runs a few times on a few rows: no weight is copied into a kernel's own order."""
