"""Optional forms."""
