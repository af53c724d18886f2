"""Reports of results: console tables, JSON, JUnit, HTML, Markdown. They read results and never compute them."""
