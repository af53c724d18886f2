"""``ffn-export build``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ffn_export.cli.built import make
from ffn_export.cli.help import Command
from ffn_export.cli.options import (
    PATH,
    check_option,
    common,
    fast_option,
    input_option,
    max_ratio_option,
    opset_option,
    portable_functions_option,
    require_fusion_option,
    runtime_option,
    source_options,
    target_option,
    threads_option,
)
from ffn_export.cli.quantization_options import quantization_options
from ffn_export.cli.report_files import json_option
from ffn_export.cli.sample_options import GivenSamples, sample_options
from ffn_export.cli.state import State

if TYPE_CHECKING:
    from ffn_export.bundle.build import Build
    from ffn_export.core.source_options import SourceOptions


@click.command(
    "build",
    cls=Command,
    page="docs/commands.md",
    examples=(
        "build bert-ffn",
        'build my.models:encoder --input "ids:int64[batch,seq<=512]" --fast',
        "build hf:./my-model --require-fusion feed_forward=12 --max-ratio 1.0",
    ),
)
@click.argument("spec")
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("exported"),
    show_default=True,
    help="Where bundles go; this one is written to a directory of its name in it.",
)
@click.option("--name", help="Name of the bundle. [default: the preset's, factory's or directory's]")
@click.option(
    "--triton",
    type=PATH,
    metavar="DIR",
    help="Also write it into a model repository for Triton Inference Server.",
)
@fast_option
@max_ratio_option
@target_option
@opset_option
@runtime_option
@require_fusion_option
@check_option
@portable_functions_option
@quantization_options()
@click.option(
    "--precision",
    type=click.Choice(["f32", "bf16", "int8"]),
    help="What native kernels compute in, with --target ort-native; bf16 and int8 need --budget.  [default: f32]",
)
@click.option(
    "--share-weights",
    is_flag=True,
    help="Read weights in the pages of their file, which processes share; products of few tokens are slower.",
)
@json_option
@threads_option
@input_option
@sample_options("Arrays to trace with, to verify on, and to quantize by.")
@source_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    spec: str,
    output: Path,
    name: str | None,
    json_path: str | None,
    samples: GivenSamples,
    inputs: tuple[str, ...] | None,
    source: SourceOptions,
    **options: Any,
) -> int:
    """Export SPEC, fuse it, verify it, time it, and write the bundle.

    SPEC is a preset, package.module:factory, hf:DIR for a Hugging Face model, or a .pt2 file, which can run
    code when it is opened and needs --trust.
    """
    import ffn_export as fx

    given = samples.read()

    def build(report: Any) -> Build:
        return fx.build(spec, inputs, samples=given, directory=output, name=name, progress=report, **source, **options)

    return make(state, build, lambda result: result.to_dict(), json_path)
