"""Reports of results: console tables, JSON, JUnit. They know results, never how results are made."""
