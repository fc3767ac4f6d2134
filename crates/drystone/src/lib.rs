//! The engine: container, writer, executor, commit. It does what plans say.
