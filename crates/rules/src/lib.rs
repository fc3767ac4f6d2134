//! Conversion rules between memory layouts, and the kernels that run them. No I/O, no dependencies.
