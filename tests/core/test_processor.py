"""The processor, told by what Linux writes of a processor, and by the machine's name where nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffn_export.core.processor import family, flags, instruction_set, processor_name, vendor

_AVX2 = "fpu sse2 avx fma avx2"


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
def test_the_widest_that_all_flags_are_there_for(flags: str, expected: str, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: {flags}\n")
    assert instruction_set(cpuinfo, "x86_64") == expected


@pytest.mark.parametrize(
    ("machine", "expected"), [("aarch64", "neon"), ("arm64", "neon"), ("AMD64", "amd64"), ("riscv64", "riscv64")]
)
def test_without_flags_the_machine_tells(machine: str, expected: str, tmp_path: Path) -> None:
    assert instruction_set(tmp_path / "none", machine) == expected


def test_the_name_is_the_first_processor_s(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Another\n")
    assert processor_name(cpuinfo) == "Some CPU @ 2.00GHz"
    assert processor_name(tmp_path / "none")


def test_who_made_it_is_told_by_linux_or_by_what_python_knows(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n")
    assert vendor(cpuinfo, "") == "AuthenticAMD"
    on_windows = "Intel64 Family 6 Model 106 Stepping 6, GenuineIntel"
    assert vendor(tmp_path / "none", on_windows) == "GenuineIntel"
    assert vendor(tmp_path / "none", "arm") == ""


def test_its_family_is_told_by_linux_or_by_what_python_knows(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\n")
    assert family(cpuinfo, "") == "26"
    assert family(tmp_path / "none", "AMD64 Family 25 Model 17 Stepping 1, AuthenticAMD") == "25"
    assert family(tmp_path / "none", "arm") == ""


def test_arm_names_its_flags_features(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert flags(cpuinfo) == ("fp", "asimd")
    assert flags(tmp_path / "none") == ()
