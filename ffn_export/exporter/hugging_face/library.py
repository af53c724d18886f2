"""Access to the transformers library, an optional package that is imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

from ffn_export.errors import UsageError


def transformers() -> Any:
    """Return the transformers library.

    Raises:
        UsageError: If it is not installed.
    """
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise UsageError("hf:DIR needs the transformers library: pip install 'ffn-export[hf]'") from error


def class_names(table: str, model_type: str) -> tuple[str, ...]:
    """Return the class names for a model type in one of the library's tables (``MODEL_FOR_..._NAMES``)."""
    tables = importlib.import_module("transformers.models.auto.modeling_auto")
    names: str | tuple[str, ...] = getattr(tables, table).get(model_type, ())
    return (names,) if isinstance(names, str) else tuple(names)


def model_types() -> tuple[str, ...]:
    """Return every model type that the library knows."""
    configurations = importlib.import_module("transformers.models.auto.configuration_auto")
    return tuple(configurations.CONFIG_MAPPING_NAMES)
