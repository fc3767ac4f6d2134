/*
 * Two checkpoint kernels of the papers that this library follows, written from their description:
 *
 *     kernel write|read KERNEL WAY FOLDER SIZE STEPS DURABLE [WRITERS [PATTERN]]
 *
 * KERNEL pixie3d: eight 3-D arrays of doubles and a few scalars; SIZE is the edge of a process's cube (16, 64, 128: 256 KiB,
 * 16 MiB, 128 MiB per process). Read again by any number of ranks, each its box of a division among them.
 * KERNEL strided: one file of bytes, to which N ranks write blocks of 47 KiB in turn (LANL's mpi_io_test, N to 1); SIZE is the
 * number of blocks per rank. Read again in the same pattern ("uniform"), or by any ranks, each one contiguous part ("other").
 * WAY is drystone, mpiio, hdf5 or files.
 *
 * Prints the seconds of the slowest rank: B for what precedes the first checkpoint, W per checkpoint, R per restart. What is read
 * is compared, cell by cell, outside of the times.
 */
#include "kernel.h"

enum { BLOCK = 47 * 1024 };

static void divide(int ranks, int dims[3]) {
    dims[0] = dims[1] = dims[2] = 0;
    MPI_Dims_create(ranks, 3, dims);
}

/* A box of the global array, as even as whole cells allow. */
static struct part cube_of(const struct job *job, int rank, int size) {
    struct part out;
    int dims[3], at[3], d;
    divide(size, dims);
    at[0] = rank / (dims[1] * dims[2]);
    at[1] = rank / dims[2] % dims[1];
    at[2] = rank % dims[2];
    for (d = 0; d < 3; d++) {
        const uint64_t n = job->extents[d], parts = (uint64_t)dims[d], i = (uint64_t)at[d];
        out.offset[d] = n * i / parts;
        out.count[d] = n * (i + 1) / parts - out.offset[d];
    }
    out.boxes = 1;
    out.apart = 0;
    return out;
}

static uint64_t blocks; /* per writer */

static struct part blocks_of(const struct job *job, int rank, int size) {
    struct part out = {{0, 0, 0}, {BLOCK, 1, 1}, 0, 0};
    (void)job;
    out.offset[0] = (uint64_t)rank * BLOCK;
    out.boxes = blocks;
    out.apart = (uint64_t)size * BLOCK;
    return out;
}

static struct part run_of(const struct job *job, int rank, int size) {
    struct part out = {{0, 0, 0}, {0, 1, 1}, 1, 0};
    out.offset[0] = job->extents[0] * (uint64_t)rank / (uint64_t)size;
    out.count[0] = job->extents[0] * (uint64_t)(rank + 1) / (uint64_t)size - out.offset[0];
    return out;
}

/* What a cell holds, from its place alone. */
static double number(int step, int array, uint64_t cell) { return 1e9 * step + 1e8 * array + (double)cell; }
static unsigned char byte(int step, uint64_t cell) { return (unsigned char)(cell * 7 + cell / 251 + (uint64_t)step); }

/* Fills the memory of an array, or counts the cells that are not as they were written. */
static uint64_t visit(const struct job *job, int step, int array, void *memory, int check) {
    const struct part *p = &job->mine;
    double *numbers = memory;
    unsigned char *bytes = memory;
    uint64_t i, x, y, z, n = 0, wrong = 0;
    for (i = 0; i < p->boxes; i++)
        for (x = 0; x < p->count[0]; x++)
            for (y = 0; y < p->count[1]; y++) {
                uint64_t cell = ((p->offset[0] + i * p->apart + x) * job->extents[1] + p->offset[1] + y) * job->extents[2];
                cell += p->offset[2];
                for (z = 0; z < p->count[2]; z++, n++, cell++) {
                    if (job->item == 8) {
                        if (check) wrong += numbers[n] != number(step, array, cell);
                        else numbers[n] = number(step, array, cell);
                    } else {
                        if (check) wrong += bytes[n] != byte(step, cell);
                        else bytes[n] = byte(step, cell);
                    }
                }
            }
    return wrong;
}

static double since(double begun) {
    double mine = MPI_Wtime() - begun, longest;
    MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

static double now(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static const struct way *way_of(const char *name) {
    const struct way *all[] = {&with_drystone, &with_mpiio, &with_files,
#ifdef WITH_HDF5
                               &with_hdf5,
#endif
                               NULL};
    int i;
    for (i = 0; all[i] != NULL; i++)
        if (strcmp(all[i]->name, name) == 0) return all[i];
    require(0, "no such way");
    return NULL;
}

int main(int argc, char **argv) {
    struct job job;
    const struct way *way;
    void *memory[ARRAYS];
    double scalars[SCALARS], began;
    uint64_t size;
    int steps, step, a, writing, other;

    MPI_Init(&argc, &argv);
    memset(&job, 0, sizeof job);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.size);
    require(argc >= 8, "usage: kernel write|read KERNEL WAY FOLDER SIZE STEPS DURABLE [WRITERS [PATTERN]]");
    writing = strcmp(argv[1], "write") == 0;
    way = way_of(argv[3]);
    job.folder = argv[4];
    size = strtoull(argv[5], NULL, 10);
    steps = atoi(argv[6]);
    job.durable = atoi(argv[7]);
    job.writers = argc > 8 ? atoi(argv[8]) : job.size;
    other = argc > 9 && strcmp(argv[9], "other") == 0;
    require(size > 0 && steps > 0 && job.writers > 0, "sizes, steps and writers are positive");
    if (strcmp(argv[2], "pixie3d") == 0) {
        int dims[3], d;
        divide(job.writers, dims);
        for (d = 0; d < 3; d++) job.extents[d] = size * (uint64_t)dims[d];
        job.arrays = ARRAYS, job.ndim = 3, job.item = 8, job.scalars = SCALARS;
        job.part_of = cube_of;
        job.mine = cube_of(&job, job.rank, job.size);
    } else {
        blocks = size;
        job.extents[0] = size * (uint64_t)job.writers * BLOCK, job.extents[1] = job.extents[2] = 1;
        job.arrays = 1, job.ndim = 1, job.item = 1;
        job.part_of = blocks_of;
        job.mine = (other ? run_of : blocks_of)(&job, job.rank, job.size);
    }
    for (a = 0; a < job.arrays; a++) {
        memory[a] = malloc(cells_of(&job.mine) * (uint64_t)job.item + 1);
        require(memory[a] != NULL, "memory");
    }
    if (writing) {
        began = now();
        way->begin(&job);
        began = since(began);
        if (job.rank == 0) printf("B %.9f\n", began);
        for (step = 0; step < steps; step++) {
            for (a = 0; a < job.arrays; a++) visit(&job, step, a, memory[a], 0);
            for (a = 0; a < job.scalars; a++) scalars[a] = 100.0 * step + a;
            began = now();
            way->checkpoint(&job, step, memory, scalars);
            began = since(began);
            if (job.rank == 0) printf("W %.9f\n", began);
        }
        way->end(&job);
    } else {
        for (step = 0; step < steps; step++) {
            uint64_t wrong = 0, all;
            for (a = 0; a < job.arrays; a++) memset(memory[a], 0xff, cells_of(&job.mine) * (uint64_t)job.item);
            began = now();
            way->restart(&job, step, memory, scalars);
            began = since(began);
            if (job.rank == 0) printf("R %.9f\n", began);
            for (a = 0; a < job.arrays; a++) wrong += visit(&job, step, a, memory[a], 1);
            for (a = 0; a < job.scalars; a++) wrong += scalars[a] != 100.0 * step + a;
            MPI_Allreduce(&wrong, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            require(all == 0, "cells are not what was written");
        }
    }
    for (a = 0; a < job.arrays; a++) free(memory[a]);
    MPI_Finalize();
    return 0;
}
