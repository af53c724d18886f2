"""``build``: exports, fuses, verifies and times a module, and writes a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from ffn_export.bundle.build import Build, build_bundle
from ffn_export.bundle.build_options import BuildOptions, GivenBuildOptions
from ffn_export.bundle.publish import place
from ffn_export.bundle.triton import write_repository
from ffn_export.core.source_options import SourceOptions
from ffn_export.core.types import Progress, silent
from ffn_export.errors import GateError
from ffn_export.exporter.examples import Inputs
from ffn_export.exporter.hugging_face.texts import Texts
from ffn_export.verbs.source_spec import SourceSpec, Subject, check_keywords, evaluating


class _Given(SourceOptions, GivenBuildOptions, total=False):
    """Keywords of :func:`build`: how the source is loaded, and how the bundle is made."""


def build(
    module: Subject,
    inputs: Inputs | None = None,
    *,
    samples: Mapping[str, Any] | Texts | None = None,
    directory: Path | str = "exported",
    name: str | None = None,
    triton: Path | str | None = None,
    progress: Progress = silent,
    **options: Unpack[_Given],
) -> Build:
    """Export, fuse, verify, time, and write a bundle to ``directory/name``.

    Args:
        module: A ``torch.nn.Module`` or a SPEC.
        inputs: As for :func:`export`.
        samples: Input name -> array, to trace with, and to verify on in addition to the drawn inputs; or
            ``fx.Texts``, for the tokenizer of an ``hf:`` directory.
        directory: Directory of the bundles.
        name: Name of the bundle; None means the name of the preset, factory, directory or class.
        triton: Model repository for Triton Inference Server that the bundle is written into as well.
        progress: Called with a line for each step.
        options: How the module is loaded (:class:`~ffn_export.core.source_options.SourceOptions`) and how the bundle is
            made (:class:`~ffn_export.bundle.build_options.BuildOptions`).

    Raises:
        GateError: If a quality gate fails: fusion, parity or latency. An earlier bundle stays in place.
        ExportError: If the module cannot be exported as requested.
        UsageError: If the destination cannot be written, or a named thing does not exist.

    Examples:
        >>> built = fx.build("d2l-ffn", directory="bundles", fast=True)
        >>> built.passed
        True
        >>> (built.directory / "manifest.json").is_file()
        True
    """
    given: dict[str, Any] = dict(options)
    check_keywords(build, given, (*SourceOptions.__annotations__, *GivenBuildOptions.__annotations__))
    loading = {key: value for key, value in given.items() if key in SourceOptions.__annotations__}
    making = {key: value for key, value in given.items() if key not in loading}
    source = SourceSpec(module, inputs, **loading).source(samples, name=name)
    destination = place(Path(directory), source.name if name is None else name)
    with evaluating(source):
        result = build_bundle(source, destination, BuildOptions(seed=given.get("seed") or 0, **making), progress)
    if not result.passed:
        raise GateError(f"{source.name} was not built: {result.failures[0]}", result)
    if triton is not None:
        write_repository(result.directory, Path(triton))
    return result
