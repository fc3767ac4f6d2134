"""The writers of `drystone export`, one per format."""
