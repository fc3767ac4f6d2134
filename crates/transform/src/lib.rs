//! Codecs behind one trait, and chains of them. No I/O.
