/*
 * Drystone with MPI: compile drystone_mpi.c with your mpicc and link it with your program. The library itself does not
 * use MPI, so one build serves Open MPI, MPICH and any other.
 */
#ifndef DRYSTONE_MPI_H
#define DRYSTONE_MPI_H

#include <drystone.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a communicator for dry_team_create and dry_team_open from a duplicate of MPI's. Collective. */
dry_status dry_mpi_communicator(MPI_Comm from, dry_communicator *communicator);

/** The same for Fortran's integer handles. */
dry_status dry_mpi_communicator_f(MPI_Fint from, dry_communicator *communicator);

/** Frees the duplicate, after the team is closed and before MPI_Finalize. Collective. */
void dry_mpi_free(dry_communicator *communicator);

#ifdef __cplusplus
}
#endif
#endif
