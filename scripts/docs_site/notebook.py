"""The example notebook: its cells run, with their results stored in it, and shown as a page.

``PYTHONPATH=scripts python -m docs_site.notebook`` runs it and stores the results; a test compares them with a new run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs_site.repository import ROOT

NOTEBOOK = ROOT / "examples" / "notebook" / "encoder.ipynb"


def read() -> dict[str, Any]:
    """Return the notebook as it is stored."""
    stored: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    return stored


def stored(cell: Mapping[str, Any]) -> str:
    """Return the result that is stored with a cell."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def results() -> Iterator[str]:
    """Run the cells of code in a directory of their own, and give what each prints and the value at its end."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory(prefix="ffn-export-") as folder, contextlib.chdir(folder):
        for cell in read()["cells"]:
            if cell["cell_type"] == "code":
                yield _result("".join(cell["source"]), names)


def page() -> str:
    """Return the notebook as Markdown, with the stored results."""
    parts = []
    for cell in read()["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            shown = stored(cell)
            parts += [f"```python\n{source}\n```", *([f"```text\n{shown}```"] if shown else [])]
    return "\n\n".join(parts) + "\n"


def write() -> None:
    """Run the notebook and store the results in it."""
    made, notebook = results(), read()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            lines = next(made).splitlines(keepends=True)
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _result(source: str, names: dict[str, Any]) -> str:
    *statements, last = ast.parse(source).body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if not isinstance(last, ast.Expr):
            exec(source, names)
        else:
            exec(compile(ast.Module(statements, []), NOTEBOOK.name, "exec"), names)
            value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
            if value is not None:
                print(value)
    return printed.getvalue().replace(str(Path.cwd()), ".")


if __name__ == "__main__":
    write()
