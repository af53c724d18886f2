"""``ffn-export build``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ffn_export.cli.built import SHARED, make
from ffn_export.cli.options import (
    check_option,
    common,
    function_options,
    max_ratio_option,
    opset_option,
    precision_options,
    read_npz,
    require_fusion_option,
    runtime_option,
    spec_options,
    target_option,
    threads_option,
)
from ffn_export.cli.quantization_options import quantization_of, quantization_options
from ffn_export.cli.state import State


@click.command("build")
@click.argument("spec")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("exported"), show_default=True,
    help="Where bundles go; this one is written to a directory of its name in it.",
)  # fmt: skip
@click.option("--name", help="Name of the bundle. [default: the preset's, factory's or directory's]")
@max_ratio_option
@target_option
@opset_option
@precision_options
@runtime_option
@require_fusion_option
@check_option
@function_options
@quantization_options
@threads_option
@spec_options
@common
@click.pass_obj
def command(
    state: State,
    /,
    spec: str,
    output: Path,
    name: str | None,
    samples: Path | None,
    inputs: tuple[str, ...],
    **options: Any,
) -> int:
    """Export SPEC, fuse it, verify it, time it, and write the bundle.

    SPEC is a preset, package.module:factory, hf:DIR for a Hugging Face model, or a .pt2 file, which can run
    code when it is opened and needs --trust.

    Example: ffn-export build bert-ffn
    """
    from ffn_export import api

    quantization = quantization_of(
        *(options[name] for name in ("bits", "block", "accuracy_level", "all_products", "budget"))
    )
    arrays = read_npz(samples)

    def build(report: Any) -> Any:
        return api.build(
            spec,
            inputs or None,
            samples=arrays,
            directory=output,
            name=name,
            **{option: options[option] for option in SHARED},
            runtimes=options["runtimes"] or None,
            threads=options["threads"],
            max_ratio=options["max_ratio"],
            require_fusion=options["required"],
            check=options["check"],
            outline=options["outline"],
            portable_functions=options["portable_functions"],
            quantization=quantization,
            budget=options["budget"],
            progress=report,
        )

    return make(state, build)
