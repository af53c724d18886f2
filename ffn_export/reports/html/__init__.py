"""A verification as one HTML page that needs nothing else: no network, no script, no other file."""

from __future__ import annotations

from ffn_export.reports.html.page import html_page, write_html

__all__ = ["html_page", "write_html"]
