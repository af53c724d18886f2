"""What came of one architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corpus.scorer import Score


@dataclass(frozen=True)
class Optimised:
    """What an optimiser made of a graph.

    Attributes:
        verdict: ``right``, or what is the matter.
        score: The sites, where there is a file to read.
        error: Worst error over the output's scale.
        seconds: How long the optimiser took.
    """

    verdict: str
    score: Score | None = None
    error: float | None = None
    seconds: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Optimised:
        """Read what ``asdict`` wrote."""
        score = None if data["score"] is None else Score.from_dict(data["score"])
        return cls(**{**data, "score": score})


@dataclass(frozen=True)
class Result:
    """An architecture's graph, and what each optimiser made of it.

    Attributes:
        name: Of the architecture.
        failure: Why there is no graph to fuse: the exporter is at fault.
        exported_error: Worst error of the graph before fusion, over the output's scale.
        ours: The fuser's.
        reasons: Its report on the sites that are not fused: reason -> how many.
        peers: Those of the others.
    """

    name: str
    failure: str | None = None
    exported_error: float | None = None
    ours: Optimised | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    peers: Mapping[str, Optimised] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read what :meth:`to_dict` wrote."""
        ours = None if data["ours"] is None else Optimised.from_dict(data["ours"])
        peers = {name: Optimised.from_dict(peer) for name, peer in data["peers"].items()}
        return cls(**{**data, "ours": ours, "peers": peers})
