"""Files of other formats: copied into containers, and written from them."""
