"""Draw the data flow between the folders of the package, as the Mermaid block in docs/architecture.md.

An arrow points from a folder to one that imports it, directly or through a module beside the folders: that is the way
the data goes. Arrows that follow from others are left out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import grimp

from command_line import say

PACKAGE = "ffn_export"
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
# What each folder gives to those that read it. A folder without an entry is drawn by its name alone.
GIVES = {
    "core": "TensorSpec, model files, drawn arrays",
    "modules": "torch.nn.Module, presets",
    "exporter": "Source, onnx_ir.Model",
    "fusion": "fused model, FusionReport",
    "fusion_check": "fused model that agrees with the exported one",
    "inspection": "Inspection, Difference",
    "quantization": "MatMulNBits model, QuantizationReport",
    "calibration": "quantised model that meets a budget on samples",
    "runtimes": "Runner",
    "parity": "ParityResult, Bisection",
    "latency": "LatencyResult",
    "tuning": "TuningResult",
    "reports": "tables, JSON, JUnit, Markdown, HTML",
    "bundle": "directory with manifest",
    "verbs": "export, fuse, verify, bench, tune, build, load",
    "model_matrix": "MatrixResult: many models",
    "cli": "ffn-export",
}
_BLOCK = re.compile(r"(?<=<!-- diagram:begin -->\n).*?(?=<!-- diagram:end -->)", re.DOTALL)


def readers() -> dict[str, set[str]]:
    """Return folder -> the folders that read what it gives, without those that follow from others."""
    graph = grimp.build_graph(PACKAGE, exclude_type_checking_imports=True, cache_dir=None)
    parts = {_top(child) for child in graph.find_children(PACKAGE)}
    imported: dict[str, set[str]] = {part: set() for part in parts}
    for module in graph.modules - {PACKAGE}:
        others = {_top(other) for other in graph.find_modules_directly_imported_by(module) if other != PACKAGE}
        imported[_top(module)] |= others - {_top(module)}
    folders = {part for part in parts if graph.find_children(f"{PACKAGE}.{part}")}
    below = {folder: _reachable(folder, imported) & folders for folder in folders}
    found: dict[str, set[str]] = {folder: set() for folder in folders}
    for folder, others in below.items():
        for other in others:
            if not any(other in below[between] for between in others - {other}):
                found[other].add(folder)
    return found


def mermaid(edges: Mapping[str, set[str]]) -> str:
    """Return the diagram as a fenced block, the same for the same edges."""
    return "\n".join(_lines(edges)) + "\n"


def _lines(edges: Mapping[str, set[str]]) -> Iterator[str]:
    yield "```mermaid"
    yield "flowchart TD"
    for folder in sorted(edges):
        gives = f"<br/>{GIVES[folder]}" if folder in GIVES else ""
        yield f'    {folder}["<b>{folder}</b>{gives}"]'
    for folder in sorted(edges):
        for reader in sorted(edges[folder]):
            yield f"    {folder} --> {reader}"
    yield "```"


def _top(module: str) -> str:
    return module.split(".")[1]


def _reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        new = edges[left.pop()] - seen
        seen |= new
        left.extend(new)
    return seen


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the diagram, or write it into the page, or check that the page has it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write it into docs/architecture.md")
    how.add_argument("--check", action="store_true", help="exit with 1 if docs/architecture.md has another one")
    asked = parser.parse_args(arguments)
    drawn = mermaid(readers())
    if not (asked.write or asked.check):
        sys.stdout.write(drawn)
        return 0
    page = PAGE.read_text()
    changed = _BLOCK.sub(lambda _: drawn, page)
    if asked.write:
        PAGE.write_text(changed)
    elif changed != page:
        say(f"the diagram in {PAGE.name} is not the one of the imports: run `make diagram`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
