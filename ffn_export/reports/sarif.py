"""A verification as SARIF 2.1.0, which code scanning of GitHub and other tools show as alerts of the model's file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ffn_export
from ffn_export.core.json_text import json_text
from ffn_export.core.plain_text import visible
from ffn_export.reports.findings import CASE, RUNTIMES, Finding, findings, model_file
from ffn_export.reports.formats import Verification

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    CASE: "A runtime returns outputs that are not those of the reference.",
    RUNTIMES: "At least one runtime must judge the model.",
}
_HELP = "Run ffn-export verify again; its table has the error of each case and what is allowed."


def verification_sarif(verification: Verification) -> str:
    """Return a verification as SARIF, with a result for each failed or warned case and check."""
    found = list(findings(verification.result))
    driver = {
        "name": "ffn-export",
        "version": ffn_export.__version__,
        "rules": [_rule(name) for name in dict.fromkeys(each.rule for each in found)],
    }
    run = {
        "tool": {"driver": driver},
        "results": [_result(each, _uri(model_file(verification))) for each in found],
        "properties": {
            "verdict": visible(verification.result.verdict),
            "model": visible(verification.result.model),
            "against": visible(verification.result.against),
        },
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(name: str) -> dict[str, Any]:
    text = {"text": _RULES.get(name, f"Check of the whole graph: {_plain(name)}.")}
    return {"id": _plain(name), "shortDescription": text, "fullDescription": text, "help": {"text": _HELP}}


def _result(found: Finding, uri: str) -> dict[str, Any]:
    # Code scanning wants a line, also of a binary file, and would take results for one without their own fingerprints.
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}
    fingerprint = hashlib.sha256(visible(f"{found.rule}\n{found.title}").encode()).hexdigest()
    return {
        "ruleId": _plain(found.rule),
        "level": found.level,
        "message": {"text": _plain(f"{found.title}: {found.message}")},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint},
    }


def _uri(file: str) -> str:
    return Path(file).as_uri() if Path(file).is_absolute() else quote(visible(file))


def _plain(text: str) -> str:
    """Return text on one line and without links, which SARIF writes as ``[text](target)``."""
    return visible(text).replace("](", "] (")
