"""Resolve the reference of a model: a PyTorch source, another ONNX file, or a bundle's test vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ffn_export.core import onnx_file, vectors
from ffn_export.errors import UsageError
from ffn_export.exporter.precision import convert
from ffn_export.exporter.source import Source, knows_its_inputs, resolve
from ffn_export.parity.reference.references import (
    OnnxReference,
    Reference,
    TorchReference,
    VectorReference,
    graph_inputs,
)
from ffn_export.verbs.open_model import OpenModel
from ffn_export.verbs.source_spec import SourceSpec


def known_source(file: OpenModel, asked: SourceSpec) -> tuple[Source | None, str | None]:
    """Return the source of a model, or None and the reason.

    The source of a bundle may be missing, for example where the bundle is served. Without ``subject`` and ``inputs``
    this is not an error.

    Raises:
        UsageError: If a named source does not resolve, or options say how to load one and none is named.
    """
    if asked.subject is None:
        _check_nothing_to_load(asked, "name one with --against; that of a bundle is loaded as its manifest says")
    try:
        return source_of(file, asked), None
    except UsageError as error:
        if asked.subject is not None or asked.inputs is not None or file.directory is None:
            raise
        return None, str(error)


def reference_of(file: OpenModel, asked: SourceSpec, threads: int) -> Reference:
    """Resolve the reference of a model; a bundle whose source is not available falls back to its test vectors.

    Raises:
        UsageError: If a named reference does not resolve, or none is named and the model is no bundle.
    """
    subject = asked.subject
    if isinstance(subject, Path) or (isinstance(subject, str) and subject.endswith(".onnx")):
        _check_nothing_to_load(asked, f"{Path(subject).name} is none")
        return OnnxReference(Path(subject), threads, asked.declared)
    source, why = known_source(file, asked)
    if source is not None:
        return TorchReference(source, threads)
    if file.directory is None or file.manifest is None:
        raise UsageError(
            "name what to verify against with --against: a preset, package.module:factory, hf:DIR or other.onnx"
        )
    expected = vectors.read(file.directory)
    return VectorReference(f"{file.directory.name}'s test vectors", file.manifest.inputs, *expected, why_alone=why)


def source_of(file: OpenModel, asked: SourceSpec) -> Source | None:
    """Resolve the named source, or the source recorded in a bundle's manifest; None if neither is given.

    Raises:
        UsageError: If the named source is no PyTorch source or does not resolve.
    """
    subject, inputs = asked.subject, asked.inputs
    if subject is None:
        if file.manifest is None or file.manifest.source["kind"] == "module":
            if inputs is not None:
                raise UsageError("--input declares an input of the PyTorch source: name the source too, with --against")
            return None
        recorded = file.manifest.source
        # The seed is the manifest's, since it gives the bundle's weights. The manifest records the inputs as they
        # were before a conversion to another precision.
        source = resolve(
            recorded["spec"],
            asked.declared or recorded["inputs"],
            recorded["seed"],
            recorded.get("task"),
            trust=asked.trust,
            named_by=f"the manifest of {file.path.parent.name}",
        )
        return convert(source, recorded["dtype"], keep_io=recorded["keep_io"])
    if isinstance(subject, Path):
        raise UsageError(f"{subject} is no PyTorch source")
    if inputs is None and not (isinstance(subject, str) and knows_its_inputs(subject)):
        inputs = graph_inputs(onnx_file.load(file.path))
    return replace(asked, inputs=inputs).source()


def _check_nothing_to_load(asked: SourceSpec, why: str) -> None:
    """Check that no option says how a PyTorch source is loaded, where the caller names none."""
    given = {"--dtype": asked.dtype, "--keep-io": asked.keep_io or None, "--task": asked.task}
    for option in (each for each, value in given.items() if value is not None):
        raise UsageError(f"{option} says how a PyTorch source is loaded: {why}")
