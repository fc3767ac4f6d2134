//! The Store trait and its transports: memory, local files, without append, with injected faults.
