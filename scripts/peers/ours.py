"""What this package makes of a subject, one function a form. Each gives a file and how a session loads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ffn_export.exporter import onnx_file
from ffn_export.parity.after_fusing.check import fuse
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.quantization.quantize import quantize_some
from ffn_export.runtimes.session_options import SessionSettings
from peers.subject import Subject

# A file and how it is loaded, for so many threads.
Made = tuple[Path, SessionSettings]
Maker = Callable[[Subject, int], Made]

EIGHT_BITS = QuantizationOptions(bits=8, block=32, accuracy_level=4)


def fused(subject: Subject, threads: int) -> Made:
    """Fuse for ort-cpu, the default. The outputs are compared here, so fusing need not do it."""
    path = subject.file("ours")
    if not path.is_file():
        model, _ = fuse(subject.model(), "ort-cpu", check=False, threads=threads)
        onnx_file.save(model, path)
    return path, SessionSettings()


def quantized(subject: Subject, threads: int) -> Made:
    """Store the products of the fused model in 8 bits: blocks of 32, accuracy level 4."""
    path = subject.file("ours-8bit")
    if not path.is_file():
        model, _ = quantize_some(onnx_file.load(fused(subject, threads)[0]), EIGHT_BITS)
        onnx_file.save(model, path)
    return path, SessionSettings()


FORMS: Mapping[str, Maker] = {"ours": fused, "ours-8bit": quantized}
