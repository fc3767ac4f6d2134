"""Files of other formats: import into containers, and export from them."""
