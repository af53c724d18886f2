"""A verification as one self-contained HTML page: no network, no script, no other file."""
