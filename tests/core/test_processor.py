"""The processor, told by what Linux writes of a processor, and by the machine's name where nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffn_export.core import processor
from ffn_export.core.processor import family, flags, instruction_set, processor_name, vendor

_AVX2 = "fpu sse2 avx fma avx2"
Told = Callable[..., None]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Tells what Linux writes of the processors, and what Python knows of the machine."""

    def tell(cpuinfo: str = "", *, machine: str = "x86_64", python: str = "") -> None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
        monkeypatch.setattr(processor, "CPUINFO", tmp_path / ("cpuinfo" if cpuinfo else "none"))
        monkeypatch.setattr("platform.machine", lambda: machine)
        monkeypatch.setattr("platform.processor", lambda: python)
        instruction_set.cache_clear()

    yield tell
    instruction_set.cache_clear()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (f"{_AVX2} avx512f avx512bw avx512dq avx512vl avx512_vnni", "avx512"),
        (f"{_AVX2} avx512f avx512cd", "avx2"),  # Xeon Phi's, which kernels of ONNX Runtime do not take
        (_AVX2, "avx2"),
        ("fpu sse2 avx avx2", "avx"),
        ("fpu sse2", "x86_64"),
    ],
)
def test_the_widest_that_all_flags_are_there_for(flags: str, expected: str, told: Told) -> None:
    told(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n")
    assert instruction_set() == expected


@pytest.mark.parametrize(
    ("machine", "expected"), [("aarch64", "neon"), ("arm64", "neon"), ("AMD64", "amd64"), ("riscv64", "riscv64")]
)
def test_without_flags_the_machine_tells(machine: str, expected: str, told: Told) -> None:
    told(machine=machine)
    assert instruction_set() == expected


def test_the_name_is_the_first_processor_s(told: Told) -> None:
    told("processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Another\n")
    assert processor_name() == "Some CPU @ 2.00GHz"
    told()
    assert processor_name() == "unknown"


def test_who_made_it_is_told_by_linux_or_by_what_python_knows(told: Told) -> None:
    told("processor\t: 0\nvendor_id\t: AuthenticAMD\n")
    assert vendor() == "AuthenticAMD"
    told(python="Intel64 Family 6 Model 106 Stepping 6, GenuineIntel")
    assert vendor() == "GenuineIntel"
    told(python="arm")
    assert vendor() == ""


def test_its_family_is_told_by_linux_or_by_what_python_knows(told: Told) -> None:
    told("processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\n")
    assert family() == "26"
    told(python="AMD64 Family 25 Model 17 Stepping 1, AuthenticAMD")
    assert family() == "25"
    told(python="arm")
    assert family() == ""


def test_arm_names_its_flags_features(told: Told) -> None:
    told("processor\t: 0\nFeatures\t: fp asimd\n")
    assert flags() == ("fp", "asimd")
    told()
    assert flags() == ()
