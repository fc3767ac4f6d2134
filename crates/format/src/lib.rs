//! What is stored: segments, step records, index pages, manifests as bytes and as values. No I/O.
