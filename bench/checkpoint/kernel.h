/* A checkpoint kernel: what its ranks hold, and the ways in which it is written and read again. */
#ifndef KERNEL_H
#define KERNEL_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 8, SCALARS = 7 };

/* The part of every array that a rank has: `boxes` boxes of one size, `apart` cells from one to the next along axis 0. In memory
 * they lie one after the other, dense and row-major. */
struct part {
    uint64_t offset[3], count[3];
    uint64_t boxes, apart;
};

struct job {
    int rank, size;
    int writers; /* that wrote what is read */
    const char *folder;
    int durable;
    int arrays, ndim, item; /* item: bytes of a cell, 8 for doubles, 1 for bytes */
    uint64_t extents[3];    /* of each array */
    struct part mine;
    struct part (*part_of)(const struct job *job, int rank, int size); /* what a writer had */
    int scalars;
};

struct way {
    const char *name;
    void (*begin)(const struct job *job); /* before the first checkpoint */
    void (*checkpoint)(const struct job *job, int step, void *const *memory, const double *scalars);
    void (*end)(const struct job *job);
    void (*restart)(const struct job *job, int step, void *const *memory, double *scalars); /* opens and closes what it needs */
};

extern const struct way with_drystone, with_mpiio, with_files;
#ifdef WITH_HDF5
extern const struct way with_hdf5;
#endif

static inline uint64_t cells_of(const struct part *part) {
    return part->boxes * part->count[0] * part->count[1] * part->count[2];
}

static inline uint64_t array_bytes(const struct job *job) {
    return job->extents[0] * job->extents[1] * job->extents[2] * (uint64_t)job->item;
}

static inline void require(int so, const char *what) {
    if (so) return;
    fprintf(stderr, "kernel: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
