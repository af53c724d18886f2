from __future__ import annotations

from pathlib import Path

from ffn_export.fusion.catalogue import EVERY, STANDARD, page

PAGE = Path(__file__).parents[2] / "docs" / "fusion.md"


def test_the_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text() == page(), "run `python -m ffn_export.fusion.catalogue > docs/fusion.md`"


def test_every_rule_is_on_it_with_its_operator_and_targets() -> None:
    text = page()
    for rule in EVERY:
        section = text.split(f"### {rule.name}\n")[1].split("### ")[0]
        assert (f"`{rule.writes}`" if rule.writes else STANDARD) in section
        assert "Targets: `" in section


def test_rules_of_one_file_are_described_once() -> None:
    sections = dict(section.split("\n", 1) for section in page().split("### ")[1:])
    assert "mean as ``ReduceMean`` or as a sum" in sections["layer-norm"]
    assert "As `layer-norm` above." in sections["rms-norm"]
    assert "adaptive norms" in sections["norm-scale"]
    assert "As `norm-scale` above." in sections["norm-bias"]
