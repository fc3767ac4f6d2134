"""What `drystone export` writes, format by format."""
