"""One module per question; `run(bench)` gives its tables."""
