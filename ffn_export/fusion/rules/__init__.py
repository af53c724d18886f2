"""Rules that write the fused forms of targets. One form a file."""
