"""A verification as one self-contained HTML page: no network, no script, no other file."""

from __future__ import annotations

from ffn_export.reports.formats import Companions, Verification
from ffn_export.reports.html.page import html_page, write_html

__all__ = ["Companions", "Verification", "html_page", "write_html"]
