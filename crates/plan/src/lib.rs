//! Selections, block resolution, byte ranges and read plans: values to printable plans. No I/O.
