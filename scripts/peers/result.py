"""What a comparison measured. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ffn_export.latency.result import Ratio, Timing
from ffn_export.runtimes.environment import Environment

SCHEMA = "ffn-export-benchmark/1"
OURS = "ours"
TORCH = "torch"
BARE = "bare"
# The files of others that run in the same ONNX Runtime.
ORT_PEERS = ("ort", "onnxscript", "ort-transformers")
# Everybody else who computes the same in float32.
FLOAT32_PEERS = (TORCH, "torch.compile", *ORT_PEERS, "openvino")
OTHER_PRECISIONS = {
    "openvino-bf16": "bfloat16",
    "ours-8bit": "8-bit weights",
    "quantize-dynamic": "8-bit integers",
    "ours-int8": "8-bit integers",
    "ours-native-bf16": "bfloat16",
    "ours-native-int8": "8-bit integers",
}


@dataclass(frozen=True)
class Cell:
    """All competitors on one model, number of tokens and number of threads.

    Attributes:
        model: Name of the preset or of the whole model.
        widths: ``d_model`` and ``d_ff`` of a block; None for a whole model.
        tokens: Length of the one sequence.
        threads: Intra-op threads of every competitor.
        timings: One a competitor that was timed.
        ratios: Ours over each other competitor, from runs in turn; further forms of ours over the float32 peers too.
        errors: Competitor -> relative L2 distance of its output from PyTorch's.
        refused: Competitor -> why it was not timed.
        limit: Seconds that the machine needs for the products or the bytes; None where that is not known.
        operators: Runtime -> operator -> seconds of one run, where its time was taken apart.
        stolen: Share of the processors' time that the host gave to others meanwhile; None where nobody looked.
    """

    model: str
    widths: tuple[int, int] | None
    tokens: int
    threads: int
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]
    errors: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    limit: float | None = None
    operators: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    stolen: float | None = None

    @property
    def name(self) -> str:
        """The model in one word, with the widths of a block."""
        return self.model if self.widths is None else f"{self.model} {self.widths[0]}/{self.widths[1]}"

    @property
    def tokens_text(self) -> str:
        """The number of tokens in words."""
        return "1 token" if self.tokens == 1 else f"{self.tokens} tokens"

    def timing(self, competitor: str) -> Timing | None:
        """Return the times of a competitor, or None where it was not timed."""
        return next((timing for timing in self.timings if timing.runtime == competitor), None)

    def ratio(self, baseline: str, competitor: str = OURS) -> Ratio | None:
        """Return the time of a form of ours over that of another competitor, or None where not both were timed."""
        return next((r for r in self.ratios if (r.runtime, r.baseline) == (competitor, baseline)), None)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cell:
        """Read what ``asdict`` wrote."""
        return cls(
            **{
                **data,
                "widths": None if data["widths"] is None else tuple(data["widths"]),
                "timings": tuple(Timing(**timing) for timing in data["timings"]),
                "ratios": tuple(Ratio(**ratio) for ratio in data["ratios"]),
            }
        )


@dataclass(frozen=True)
class LayerError:
    """What 8 bits change in one feed-forward, relative L2.

    Attributes:
        layer: Its number.
        products: Of the feed-forward alone: both products and the activation.
        block: With the residual and the norm after it, which is what the next layer reads.
    """

    layer: int
    products: float
    block: float


@dataclass(frozen=True)
class Accuracy:
    """What 8 bits change on a real model's own activations.

    Attributes:
        model: Its name.
        sentences: How many were read.
        tokens: How many tokens these are, without padding.
        layers: One a feed-forward.
        products: Relative L2 over all layers, of the feed-forwards alone.
        block: The same with residual and norm.
        embedding: Relative L2 of the sentence embeddings, from whole models.
        cosine: The smallest cosine between an embedding and its own in float32.
        same_nearest: Share of the sentences whose nearest other sentence stays the same.
    """

    model: str
    sentences: int
    tokens: int
    layers: tuple[LayerError, ...]
    products: float
    block: float
    embedding: float
    cosine: float
    same_nearest: float

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Accuracy:
        """Read what ``asdict`` wrote."""
        return cls(**{**data, "layers": tuple(LayerError(**layer) for layer in data["layers"])})


@dataclass(frozen=True)
class ExportTimes:
    """Seconds of making a model's graph, each in a process of its own.

    Attributes:
        model: What was exported.
        torch: ``torch.onnx.export(dynamo=True)`` alone, one number a process.
        export: Ours, with its checks.
        fuse: Fusing what it gave, without running both graphs.
        checked_fuse: Fusing it with that, which is the default.
    """

    model: str
    torch: tuple[float, ...]
    export: tuple[float, ...]
    fuse: tuple[float, ...]
    checked_fuse: tuple[float, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExportTimes:
        """Read what ``asdict`` wrote."""
        seconds = {name: tuple(data[name]) for name in ("torch", "export", "fuse", "checked_fuse")}
        return cls(data["model"], **seconds)


@dataclass(frozen=True)
class Results:
    """A whole comparison.

    Attributes:
        date: When it began.
        commands: The command that measured it, and those that went on with it.
        environment: Where; ``threads`` is the largest number that was asked for.
        instruction_sets: What the processor has for products, and what PyTorch uses of it.
        cells: Of the blocks.
        whole: Of the whole models.
        accuracy: Of 8 bits on real activations; None where it was not measured.
        export_times: None where they were not measured.
        tune_seconds: What ``ffn-export tune bert-ffn`` takes; None where it was not measured.
        missing: What was asked for and could not be measured -> why.
    """

    date: str
    commands: tuple[str, ...]
    environment: Environment
    instruction_sets: str
    cells: tuple[Cell, ...] = ()
    whole: tuple[Cell, ...] = ()
    accuracy: Accuracy | None = None
    export_times: ExportTimes | None = None
    tune_seconds: float | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    def with_cells(self, cells: Iterable[Cell]) -> Results:
        """Return the results with more cells of blocks, in order: an earlier command may have left out some."""
        together = (*self.cells, *cells)
        models = list(dict.fromkeys(cell.model for cell in together))
        ordered = sorted(together, key=lambda c: (models.index(c.model), c.widths or (), c.threads, c.tokens))
        return replace(self, cells=tuple(ordered))

    def with_whole(self, cells: Iterable[Cell]) -> Results:
        """Return the results with more cells of whole models."""
        return replace(self, whole=(*self.whole, *cells))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Results:
        """Read what :meth:`to_dict` wrote."""
        accuracy, times = data["accuracy"], data["export_times"]
        return cls(
            data["date"],
            tuple(data["commands"]),
            Environment.from_dict(data["environment"]),
            data["instruction_sets"],
            tuple(map(Cell.from_dict, data["cells"])),
            tuple(map(Cell.from_dict, data["whole"])),
            None if accuracy is None else Accuracy.from_dict(accuracy),
            None if times is None else ExportTimes.from_dict(times),
            data.get("tune_seconds"),
            dict(data["missing"]),
        )
