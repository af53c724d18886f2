"""Write the catalogue of rules, ``docs/fusion.md``, from their docstrings.

``python -m ffn_export.fusion.catalogue`` prints it.
"""

from __future__ import annotations

import inspect
import sys

from ffn_export.fusion.forms.form import Form
from ffn_export.fusion.rule import Rule
from ffn_export.fusion.targets import TARGETS, Target

_INTRODUCTION = """# Fusion catalogue

Made by `python -m ffn_export.fusion.catalogue` from the docstrings of the rules. Read [how fusion
works](how-fusion-works.md) first.

A rule is applied if it recognises its function, its conditions hold, and the rewrite is safe: no intermediate value is
a graph output or is read elsewhere, the dtype has a kernel, and the graph can be raised to the opset that the operator
needs. Otherwise the site stays as it is, and the report gives the reason.
"""

STANDARD = "the standard operators of the site"
_STANDARD = TARGETS["portable"].canonical
# Every rule, in the order of the page.
EVERY = tuple(dict.fromkeys(rule for target in TARGETS.values() for rule in target.rules))


def page() -> str:
    """Return the whole page as Markdown."""
    parts = [_INTRODUCTION, "## Targets\n", *map(_target, TARGETS.values())]
    parts += ["\n## Canonical operators\n", *map(_section, _STANDARD)]
    parts += ["## Forms of targets\n", *(_section(rule) for rule in EVERY if rule not in _STANDARD)]
    forms = {form.name: form for target in TARGETS.values() for form in target.optional if form.apply is not None}
    parts += ["## Forms of whole feed-forwards\n", *map(_form, forms.values())]
    return "\n".join(parts).rstrip() + "\n"


def _form(form: Form) -> str:
    users = ", ".join(f"`{name}`" for name, target in TARGETS.items() if form in target.optional)
    assert form.apply is not None
    return f"### {form.name}\n\n{_described(form.apply.__module__)}\n\n- Targets: {users}, optional\n"


def _target(target: Target) -> str:
    kept = "".join(f" A {kind} is kept: {reason}." for kind, reason in target.kept.items())
    if target.fewest_nodes:
        kept += (
            " A feed_forward is kept if more than one node computes between its products, or more than two in a gated "
            "one."
        )
    return f"- `{target.name}`: {target.summary}.{kept}"


def _section(rule: type[Rule]) -> str:
    users = ", ".join(f"`{name}`" for name, target in TARGETS.items() if rule in target.rules)
    # The first rule of a file gets the description of the file; each rule has one line besides.
    first = next(each for each in EVERY if each.__module__ == rule.__module__)
    described = _described(rule.__module__) if first is rule else f"As `{first.name}` above."
    written = f"`{rule.writes}`" if rule.writes else STANDARD
    facts = f"- Site: `{rule.site}`\n- Writes: {written}\n- Targets: {users}\n"
    return f"### {rule.name}\n\n{inspect.getdoc(rule) or ''}\n\n{described}\n\n{facts}"


def _described(module: str) -> str:
    return inspect.getdoc(sys.modules[module]) or ""


if __name__ == "__main__":
    print(page(), end="")
