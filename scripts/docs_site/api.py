"""The API reference: a directive of mkdocstrings for each public name."""

from __future__ import annotations

import inspect

import ffn_export as fx

_TITLES = {"functions": "Functions", "classes": "Results, reports and options", "errors": "Errors"}


def public() -> dict[str, list[str]]:
    """Return the public functions, classes and errors; constants and other names of types are left out."""
    objects = {name: found for name in sorted(vars(fx)["__all__"]) if _is_ours(found := getattr(fx, name))}
    errors = [name for name, each in objects.items() if inspect.isclass(each) and issubclass(each, Exception)]
    classes = [name for name, each in objects.items() if inspect.isclass(each) and name not in errors]
    return {
        "functions": [n for n, each in objects.items() if inspect.isfunction(each)],
        "classes": classes,
        "errors": errors,
    }


def reference() -> str:
    """Return the sections of the page."""
    parts = []
    for kind, names in public().items():
        parts.append(f"## {_TITLES[kind]}\n")
        parts += [f"::: {_path(name)}\n" for name in names]
    return "\n".join([*parts, "## In tests\n", "::: ffn_export.testing.assert_parity\n"])


def _is_ours(found: object) -> bool:
    return str(getattr(found, "__module__", "")).startswith("ffn_export")


def _path(name: str) -> str:
    found = getattr(fx, name)
    return f"{found.__module__}.{found.__qualname__}"
