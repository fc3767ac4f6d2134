//! The ranks of a parallel program: how they meet, and the program's MPI.

pub mod mpi;
pub mod team;
