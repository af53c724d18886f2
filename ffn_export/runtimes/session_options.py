"""Session options of ONNX Runtime, in one place, so that a model runs as it was verified.

A session may rewrite its graph, and onnxruntime's fusions are slower on CPU than the nodes they replace
(SkipLayerNormalization above all). So a model is loaded at the BASIC level, which folds constants and
removes no-ops. The configuration entries also disable fusions of higher levels, for a program that
raises the level and keeps the entries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from ffn_export.errors import UsageError
from ffn_export.runtimes.threads import chosen_threads

if TYPE_CHECKING:
    import onnxruntime

Level = Literal["disable_all", "basic", "extended", "all"]

# Optimisation level, the lowest first -> its name in onnxruntime.
LEVELS: Mapping[Level, str] = {
    "disable_all": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

DISABLE_OPTIMIZERS = "optimization.disable_specified_optimizers"
STOP_REFUSING: Mapping[str, str] = {
    DISABLE_OPTIMIZERS: "SkipLayerNormFusion;BiasGeluFusion;FastGeluFusion;MatMulAddFusion"
}

_DISABLE_PREPACKING = "session.disable_prepacking"

# Configuration entries that this package writes -> allowed values. Other entries can write files, read files or load
# libraries, so they are refused when read from a file.
_WRITTEN_BY_US: Mapping[str, str] = {
    DISABLE_OPTIMIZERS: r"[A-Za-z0-9_;]*",
    _DISABLE_PREPACKING: "[01]",
    "session.dynamic_block_base": "[0-9]{1,4}",
    "session.intra_op.allow_spinning": "[01]",
}


@dataclass(frozen=True)
class SessionSettings:
    """The session options of a model, for any language binding.

    The thread count belongs to a measurement and is set when a session is made.

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
            UsageError: If it sets an entry or a value that this package never writes.
        """
        settings = cls(data["graph_optimization_level"], dict(data["config_entries"]))
        settings.check()
        return settings

    def check(self) -> None:
        """Check that this package writes such options.

        Raises:
            UsageError: If the level is unknown, or an entry or its value is one that this package never writes.
        """
        level = self.graph_optimization_level
        if level not in LEVELS:
            raise UsageError(f"session options ask for the optimisation level {level!r}: known are {', '.join(LEVELS)}")
        for key, value in self.config_entries.items():
            if key not in _WRITTEN_BY_US or not re.fullmatch(_WRITTEN_BY_US[key], value):
                raise UsageError(f"session options set {key!r} to {value!r}, which ffn-export never writes")

    def without_fusions(self) -> SessionSettings:
        """Return the options under which the runtime leaves the nodes that its fusions would make slower."""
        optimizers = [STOP_REFUSING[DISABLE_OPTIMIZERS], self.config_entries.get(DISABLE_OPTIMIZERS, "")]
        entries = {**self.config_entries, DISABLE_OPTIMIZERS: ";".join(filter(None, optimizers))}
        return replace(self, config_entries=entries)

    def without_packed_weights(self) -> SessionSettings:
        """Return the options under which products read weights in the pages of their file, which processes share."""
        return replace(self, config_entries={**self.config_entries, _DISABLE_PREPACKING: "1"})

    def without_arena(self) -> SessionSettings:
        """Return the options under which a session gives its memory back after each run."""
        return _WithoutArena(self.graph_optimization_level, self.config_entries)

    def words(self) -> str:
        """Return the options in one line, for messages."""
        entries = [f"{key}={value}" for key, value in self.config_entries.items()]
        return " ".join([f"graph_optimization_level={self.graph_optimization_level}", *entries])

    def session_options(self, threads: int | None = None) -> onnxruntime.SessionOptions:
        """Return onnxruntime's options with ``threads`` intra-op threads; by default all of this process."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        level = LEVELS[self.graph_optimization_level]
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        for key, value in self.config_entries.items():
            options.add_session_config_entry(key, value)
        # A session without optimiser checks a graph. It gives its memory back after each run.
        options.enable_cpu_mem_arena = self.graph_optimization_level != "disable_all"
        options.intra_op_num_threads = chosen_threads(threads)
        options.inter_op_num_threads = 1
        # Log only fatal messages: errors are raised and reported in one line, and the log would print names from the
        # model unescaped.
        options.log_severity_level = 4
        return options


class _WithoutArena(SessionSettings):
    def session_options(self, threads: int | None = None) -> onnxruntime.SessionOptions:
        options = super().session_options(threads)
        options.enable_cpu_mem_arena = False
        return options


ORT_DEFAULT = SessionSettings("all", {})
"""ONNX Runtime's own defaults: every optimisation."""

NO_OPTIMIZER = SessionSettings("disable_all", {})
"""Options that run the nodes exactly as written, for checks of a graph."""

UNPACKED = NO_OPTIMIZER.without_packed_weights()
"""``NO_OPTIMIZER`` without prepacking, for a session that runs a few times on a few rows: copies no weight."""
