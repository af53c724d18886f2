"""Reports of results: console tables, JSON, JUnit, HTML, Markdown, SARIF. They read results and never compute them."""
