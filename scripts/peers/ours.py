"""What this package makes of a subject, one function a form. Each gives a file and how a session loads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ffn_export.calibration.node_smoothing import smoothed
from ffn_export.calibration.statistics import drawn_inputs
from ffn_export.core import onnx_file
from ffn_export.errors import UsageError
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.forms.choice import default_forms, for_few_bits
from ffn_export.fusion.targets import get_target
from ffn_export.fusion_check.check import fuse_checked
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize_some
from ffn_export.runtimes import ort_native
from ffn_export.runtimes.session_options import SessionSettings
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.search import search
from peers.subject import Subject

# A file and how it is loaded, for so many threads.
Made = tuple[Path, SessionSettings]
Maker = Callable[[Subject, int], Made]

TARGET, NATIVE = "ort-cpu", "ort-native"
_TUNED_WIDTHS, _TUNED_TOKENS = (768, 3072), (16, 128, 512)
EIGHT_BITS = QuantizationOptions(bits=8, block=32, accuracy_level=4)
INTEGERS = QuantizationOptions(all_products=True, int8=True)


def fused(subject: Subject, threads: int) -> Made:
    """Fuse for ort-cpu, the default."""
    return _in_form(subject, "ours", default_forms(get_target(TARGET)), threads), SessionSettings()


def again(subject: Subject, threads: int) -> Made:
    """Load what :func:`fused` made a second time: how far apart two sessions of one file are is the noise of a cell."""
    return fused(subject, threads)


def in_chunks(subject: Subject, threads: int) -> Made:
    """Fuse with feed-forwards in a loop over row chunks."""
    forms = default_forms(get_target(TARGET)) | {ROW_CHUNKS.name}
    return _in_form(subject, "ours-chunked", forms, threads), SessionSettings()


def tuned(subject: Subject, threads: int) -> Made:
    """Choose form and session options by measuring, for lengths in the middle of the table.

    Raises:
        UsageError: For other widths than those of BERT-base, to save the time that tuning takes.
    """
    if subject.widths != _TUNED_WIDTHS:
        raise UsageError(f"it is tuned at {_TUNED_WIDTHS[0]} x {_TUNED_WIDTHS[1]} alone, to save time")
    options = TuneOptions(_TUNED_TOKENS, seconds=0.2)
    result = search(subject.model(), TARGET, options, specs=subject.source.inputs, threads=threads)
    return _in_form(subject, f"ours-tuned-{threads}", result.chosen.forms, threads), result.chosen.settings


def quantized(subject: Subject, threads: int) -> Made:
    """Store the products of the fused model in 8 bits: blocks of 32, accuracy level 4."""
    forms = for_few_bits(default_forms(get_target(TARGET)))

    def make(path: Path) -> None:
        whole = _in_form(subject, "ours-whole", forms, threads)
        model, _ = quantize_some(onnx_file.load(whole), EIGHT_BITS)
        onnx_file.save(model, path)

    return subject.file("ours-8bit", make), SessionSettings()


def in_integers(subject: Subject, threads: int) -> Made:
    """Compute all products of the fused model in 8-bit integers, without samples: nothing is smoothed."""
    forms = for_few_bits(default_forms(get_target(TARGET)))

    def make(path: Path) -> None:
        whole = _in_form(subject, "ours-whole", forms, threads)
        model, _ = quantize_some(onnx_file.load(whole), INTEGERS)
        onnx_file.save(model, path)

    return subject.file("ours-int8", make), SessionSettings()


def in_nodes(subject: Subject, threads: int) -> Made:
    """Fuse into the nodes that the native provider computes."""
    return _in_form(subject, "ours-native", default_forms(get_target(NATIVE)), threads, NATIVE), SessionSettings()


def in_smoothed_nodes(subject: Subject, threads: int) -> Made:
    """Write the factors into these nodes that a build for 8-bit integers finds without samples."""

    def make(path: Path) -> None:
        nodes = onnx_file.load(in_nodes(subject, threads)[0])
        onnx_file.save(smoothed(nodes, drawn_inputs(subject.source.inputs), threads), path)

    return subject.file("ours-native-int8", make), SessionSettings()


def _in_form(subject: Subject, name: str, forms: Forms, threads: int, target: str = TARGET) -> Path:
    """Fuse in some form. The outputs are compared beside the others', so fusing need not do it."""

    def make(path: Path) -> None:
        model, _ = fuse_checked(subject.model(), target, check=False, forms=forms, threads=threads)
        onnx_file.save(model, path)

    return subject.file(name, make)


# Form -> the runtime that it runs on, and what makes it.
FORMS: Mapping[str, tuple[str, Maker]] = {
    "ours": (TARGET, fused),
    "ours-again": (TARGET, again),
    "ours-chunked": (TARGET, in_chunks),
    "ours-tuned": (TARGET, tuned),
    "ours-8bit": (TARGET, quantized),
    "ours-int8": (TARGET, in_integers),
    "ours-native": (ort_native.FLOAT32.name, in_nodes),
    "ours-native-bf16": (ort_native.BFLOAT16.name, in_nodes),
    "ours-native-int8": (ort_native.INT8.name, in_smoothed_nodes),
}
