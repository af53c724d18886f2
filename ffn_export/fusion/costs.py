"""Measured kernel costs, by which the forms of a site are compared.

Whether a fused kernel is faster than the nodes that it replaces depends on the version of ONNX Runtime and on the
processor, so no rule may assume it. ``scripts/measure_kernels.py`` writes ``costs.json``, with a table for each
version, processor and execution provider that was measured; :func:`costs` picks the nearest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from operator import attrgetter
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ffn_export.core.processor import family as this_family
from ffn_export.core.processor import instruction_set as this_instruction_set
from ffn_export.core.processor import vendor as this_vendor
from ffn_export.errors import UsageError
from ffn_export.fusion.cost_tables import TABLES, Table, read_tables

_PACKAGES = ("onnxruntime-gpu", "onnxruntime")
_BY_VERSION = attrgetter("version")


@dataclass(frozen=True)
class Costs:
    """Kernel costs from one table.

    Attributes:
        onnxruntime: Version of ONNX Runtime that was measured.
        instruction_set: Instruction set of the measured processor.
        vendor: Vendor of that processor, as it reports it.
        provider: Execution provider, by its name in ONNX Runtime.
        ns_per_element: Operator -> nanoseconds per element of its first output, as described in ``cost_tables``.
        is_exact: Whether version (major and minor), instruction set, vendor and family are those asked for.
        is_same_processor: Whether instruction set, vendor and family are those asked for.
        family: Family number of that processor; empty if the table is for any family of the vendor.
    """

    onnxruntime: str
    instruction_set: str
    provider: str
    ns_per_element: Mapping[str, float]
    is_exact: bool
    vendor: str = ""
    is_same_processor: bool = True
    family: str = ""

    def of(self, operator: str) -> float | None:
        """Return nanoseconds per element, or None for an operator that was not measured."""
        return self.ns_per_element.get(operator)

    def sum_of(self, operators: Iterable[str]) -> float | None:
        """Return the sum of several operators' nanoseconds per element, or None if one was not measured."""
        each = [self.of(operator) for operator in operators]
        known = [cost for cost in each if cost is not None]
        return sum(known) if len(known) == len(each) else None

    @property
    def words(self) -> str:
        """The table's name in one line."""
        maker = f"{self.vendor} family {self.family}" if self.family else self.vendor
        return ", ".join(filter(None, (f"onnxruntime {self.onnxruntime}", self.instruction_set, maker)))


@cache
def costs(
    provider: str = "CPUExecutionProvider",
    version: str | None = None,
    instruction_set: str | None = None,
    path: Path = TABLES,
    *,
    vendor: str | None = None,
    family: str | None = None,
) -> Costs | None:
    """Return the costs nearest to those asked for, or None if nothing was measured for the provider.

    The tables are narrowed down in this order; a step that leaves none is skipped:

    1. Same instruction set. Without one, the newest table is taken, of the same vendor if possible.
    2. Same vendor, or else for any vendor.
    3. Same family, or else for any family.
    4. Same version, or else the newest release (major and minor) that is not above it, or else the next one above.

    Args:
        provider: Execution provider, by its name in ONNX Runtime.
        version: Version of ONNX Runtime; by default the installed one, or the newest measured if none is installed.
        instruction_set: Instruction set of the processor; by default this machine's.
        path: File of tables.
        vendor: Vendor of the processor; by default this machine's.
        family: Family number of the processor; by default this machine's.

    Raises:
        UsageError: If the file holds no valid tables, or the version is not valid.
    """
    wanted_set = this_instruction_set() if instruction_set is None else instruction_set
    asked = _version(version or installed_version())
    ours = [table for table in read_tables(path) if table.provider == provider]
    wanted_vendor = this_vendor() if vendor is None else vendor
    same_set = [table for table in ours if table.instruction_set == wanted_set]
    wanted_family = this_family() if family is None else family
    same_vendor = [t for t in same_set if t.vendor == wanted_vendor] or [t for t in same_set if not t.vendor]
    same = [t for t in same_vendor if t.family == wanted_family] or [t for t in same_vendor if not t.family]
    if not ours:
        return None
    alike = same or same_vendor or same_set
    of_vendor = [t for t in ours if t.vendor == wanted_vendor]
    table = _nearest(alike, asked) if alike else max(of_vendor or ours, key=_BY_VERSION)
    is_exact = bool(same) and asked is not None and _release(table.version) == _release(asked)
    return Costs(
        table.onnxruntime,
        table.instruction_set,
        table.provider,
        table.ns_per_element,
        is_exact,
        table.vendor,
        is_same_processor=bool(same),
        family=table.family,
    )


def installed_version() -> str | None:
    """Return the version of the installed onnxruntime, or None, without importing it."""
    for package in _PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def _version(text: str | None) -> Version | None:
    try:
        return None if text is None else Version(text)
    except InvalidVersion as error:
        raise UsageError(f"{text!r} is no version of onnxruntime") from error


def _nearest(tables: list[Table], asked: Version | None) -> Table:
    """Return the table of the nearest release; of several, the one of the asked version, or else the newest."""
    if asked is None:
        return max(tables, key=_BY_VERSION)
    not_above = [table for table in tables if _release(table.version) <= _release(asked)]
    if not not_above:
        return min(tables, key=_BY_VERSION)
    return max(not_above, key=lambda table: (_release(table.version), table.version == asked, table.version))


def _release(version: Version) -> tuple[int, int]:
    return (version.major, version.minor)
