//! The ranks of a parallel program: their communication, and the program's MPI.

pub mod mpi;
pub mod team;
