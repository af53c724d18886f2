"""The table of versions: those that are declared, those that the tests run with, and those of stored results."""

from __future__ import annotations

import json
import re
import tomllib

from docs_site.repository import ROOT
from ffn_export.reports.markdown_table import markdown_table

_SHOWN = ("torch", "onnx", "onnxruntime", "onnxscript", "onnx-ir", "numpy", "transformers", "openvino", "tract")


def table() -> str:
    """Return a row for Python and for each library."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    bounds = {found[1]: found[2] for each in wanted if (found := re.match(r"([\w-]+)(>=[\d.]+)", each))}
    oldest, pinned = _pinned("constraints-oldest.txt"), _pinned("constraints.txt")
    stored = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "docs").glob("results-*.json"))}
    headers = ("", "declared", "oldest tested", "tests", *(f"[{name}]({name}.md)" for name in stored))
    versions = [data["environment"]["versions"] for data in stored.values()]
    rows = [("Python", project["requires-python"], "", "", *(each["python"] for each in versions))]
    for name in _SHOWN:
        measured = (each.get(f"{name}-gpu") or each.get(name, "") for each in versions)
        rows.append((name, bounds.get(name, ""), oldest.get(name, ""), pinned.get(name, ""), *measured))
    return markdown_table(headers, rows)


def _pinned(name: str) -> dict[str, str]:
    return dict(line.split("==") for line in (ROOT / name).read_text().splitlines() if "==" in line)
