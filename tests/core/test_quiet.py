"""What libraries log stays off the terminal."""

from __future__ import annotations

import logging
import warnings

import pytest

from ffn_export.core.quiet import quiet_reading


def test_what_onnx_ir_says_of_a_file_is_not_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])  # a library may have set some, and then nothing is printed
    logger = logging.getLogger("onnx_ir.serde")
    with quiet_reading():
        logger.warning("unseen")
        warnings.warn("unseen", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    logger.warning("seen")
    assert "seen" in capfd.readouterr().err
