/*
 * I/O kernels of the papers on object stores for HDF5, written from their description, over plain HDF5 (MPI):
 *
 *     kernels ACT FILE TRANSFER SIZE STEPS [COMPUTE_MS]      ACT: vpic | bdcats | h5boss | h5boss-read | turns | turns-read | limits
 *
 * vpic         plasma particles: 8 variables of 4 bytes, 1-D and contiguous; each rank writes its SIZE particles of each, STEPS times,
 *              a group per step, with COMPUTE_MS of (simulated) computation between two steps
 * bdcats       clustering reads them: each of any number of ranks an even share of every variable
 * h5boss       spectra: SIZE datasets of 4,000 floats in groups of 100, each with two attributes; every rank creates all of them, as
 *              parallel HDF5 asks, and writes its share
 * h5boss-read  every rank opens and reads its share
 * turns        one variable, of which each rank writes every n-th of n times SIZE cells: cells in turns, STEPS times
 * turns-read   every rank reads an even share of it
 * limits       what vpic could take at best, without HDF5: `copy`, its bytes copied once into memory that is there already; `files`, each
 *              rank's bytes written to a file of its own (FILE.RANK) with write(), and `files-durable`, that and one fsync of each
 * TRANSFER     independent | collective
 *
 * Nothing here knows of a connector: the environment chooses it. The first line says which one HDF5 used. The others are seconds of
 * all ranks, from a barrier before to a barrier after:
 *   create   H5Fcreate or H5Fopen, and what objects are made
 *   wait     in H5Dwrite, until the caller's buffers may be used again (8 calls per step; one line per step)
 *   flush    in H5Fflush: when it returns, everything written is durable (native: MPI_File_sync)
 *   close    in H5Fclose
 *   total    from before H5Fcreate to after H5Fclose, computation left out
 *   read     in H5Dread
 * What is read is compared, value by value, outside of the times.
 */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VARIABLES = 8, SPECTRUM = 4000, PER_GROUP = 100, NAME = 64 };

static int rank, size;

static void require(int so, const char *what) {
    if (so) return;
    fprintf(stderr, "kernels: rank %d: %s\n", rank, what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t ok(hid_t id, const char *what) {
    require(id >= 0, what);
    return id;
}

/* The time at which the slowest rank arrives. */
static double together(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void say(const char *what, double seconds) {
    if (rank == 0) printf("%s %.6f\n", what, seconds);
}

/* Positions, momenta and identities, in the order in which the kernel writes them. */
static const char *const names[VARIABLES] = {"x", "y", "z", "id1", "id2", "px", "py", "pz"};

static int is_identity(int variable) { return variable == 3 || variable == 4; }

/* What a particle has, from its place alone; below 2^24, so that a float holds it. */
static uint32_t value(int step, int variable, uint64_t particle) {
    uint64_t x = (particle + 1) * 0x9E3779B97F4A7C15u + (uint64_t)(step * VARIABLES + variable) * 0xD1B54A32D192ED03u;
    return (uint32_t)(x >> 40);
}

static hid_t type_of(int variable) { return is_identity(variable) ? H5T_NATIVE_INT32 : H5T_NATIVE_FLOAT; }

static void fill(void *memory, int step, int variable, uint64_t first, uint64_t count) {
    uint64_t i;
    for (i = 0; i < count; i++)
        if (is_identity(variable)) ((int32_t *)memory)[i] = (int32_t)value(step, variable, first + i);
        else ((float *)memory)[i] = (float)value(step, variable, first + i);
}

static uint64_t wrong(const void *memory, int step, int variable, uint64_t first, uint64_t count) {
    uint64_t i, found = 0;
    for (i = 0; i < count; i++)
        if (is_identity(variable)) found += ((const int32_t *)memory)[i] != (int32_t)value(step, variable, first + i);
        else found += ((const float *)memory)[i] != (float)value(step, variable, first + i);
    return found;
}

static void *memory_of(uint64_t count) {
    void *memory = malloc((size_t)(count > 0 ? count : 1) * 4);
    require(memory != NULL, "no memory");
    memset(memory, 0, (size_t)count * 4); /* really there */
    return memory;
}

/* Metadata is read together only where every rank makes every call. */
static hid_t access_list(int together) {
    hid_t list = ok(H5Pcreate(H5P_FILE_ACCESS), "access list");
    ok(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL), "mpio");
    ok(H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_LATEST), "versions");
    ok(H5Pset_all_coll_metadata_ops(list, (hbool_t)together), "collective metadata");
    ok(H5Pset_coll_metadata_write(list, 1), "collective metadata");
    return list;
}

static hid_t transfer_list(const char *transfer) {
    hid_t list = ok(H5Pcreate(H5P_DATASET_XFER), "transfer list");
    ok(H5Pset_dxpl_mpio(list, strcmp(transfer, "collective") == 0 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT), "transfer");
    return list;
}

/* A dataset without fill values: every element is written. */
static hid_t creation_list(void) {
    hid_t list = ok(H5Pcreate(H5P_DATASET_CREATE), "creation list");
    ok(H5Pset_fill_time(list, H5D_FILL_TIME_NEVER), "no fill values");
    return list;
}

static hid_t part_of(uint64_t whole, uint64_t first, uint64_t count, hid_t *memory) {
    const hsize_t extent = whole, start = first, number = count;
    hid_t space = ok(H5Screate_simple(1, &extent, NULL), "space");
    *memory = ok(H5Screate_simple(1, &number, NULL), "space");
    if (count == 0) ok(H5Sselect_none(space), "selection");
    else ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &number, NULL), "selection");
    return space;
}

static void say_connector(hid_t file) {
    char name[NAME] = "";
    ok(H5VLget_connector_name(file, name, sizeof name) > 0 ? 0 : -1, "connector's name");
    if (rank == 0) printf("connector %s\n", name);
}

static void compute(int milliseconds) {
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

static void finish(hid_t file, double begin, double left_out) {
    double before = together(), flushed;
    ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    flushed = together();
    say("flush", flushed - before);
    ok(H5Fclose(file), "close");
    before = together();
    say("close", before - flushed);
    say("total", before - begin - left_out);
}

static void vpic(const char *path, const char *transfer, uint64_t particles, int steps, int milliseconds) {
    hid_t access = access_list(1), how = transfer_list(transfer), creation = creation_list(), file, memory, space, group;
    hid_t sets[VARIABLES];
    void *values[VARIABLES];
    double begin, before, after, left_out = 0, creating;
    char name[NAME];
    int step, v;
    const uint64_t all = particles * (uint64_t)size, first = particles * (uint64_t)rank;
    for (v = 0; v < VARIABLES; v++) values[v] = memory_of(particles);
    space = part_of(all, first, particles, &memory);
    begin = together();
    file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "create");
    creating = together() - begin;
    say_connector(file);
    for (step = 0; step < steps; step++) {
        before = together();
        if (step > 0) compute(milliseconds);
        for (v = 0; v < VARIABLES; v++) fill(values[v], step, v, first, particles);
        after = together();
        left_out += after - before;
        snprintf(name, sizeof name, "Timestep_%d", step);
        group = ok(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "group");
        for (v = 0; v < VARIABLES; v++)
            sets[v] = ok(H5Dcreate2(group, names[v], type_of(v), space, H5P_DEFAULT, creation, H5P_DEFAULT), "dataset");
        before = together();
        creating += before - after;
        for (v = 0; v < VARIABLES; v++) ok(H5Dwrite(sets[v], type_of(v), memory, space, how, values[v]), "write");
        after = together();
        say("wait", after - before);
        for (v = 0; v < VARIABLES; v++) ok(H5Dclose(sets[v]), "close");
        ok(H5Gclose(group), "close");
    }
    say("create", creating);
    finish(file, begin, left_out);
    for (v = 0; v < VARIABLES; v++) free(values[v]);
    H5Sclose(space), H5Sclose(memory), H5Pclose(creation), H5Pclose(how), H5Pclose(access);
}

static void bdcats(const char *path, const char *transfer, uint64_t particles, int steps) {
    /* `particles` counts those of all writers together: an even share each. */
    const uint64_t first = particles * (uint64_t)rank / (uint64_t)size;
    const uint64_t count = particles * (uint64_t)(rank + 1) / (uint64_t)size - first;
    hid_t access = access_list(1), how = transfer_list(transfer), file, memory, space, set;
    void *values[VARIABLES];
    double begin, before;
    uint64_t bad = 0;
    char name[NAME];
    int step, v;
    for (v = 0; v < VARIABLES; v++) values[v] = memory_of(count);
    space = part_of(particles, first, count, &memory);
    begin = together();
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access), "open");
    say("create", together() - begin);
    say_connector(file);
    for (step = 0; step < steps; step++) {
        before = together();
        for (v = 0; v < VARIABLES; v++) {
            snprintf(name, sizeof name, "Timestep_%d/%s", step, names[v]);
            set = ok(H5Dopen2(file, name, H5P_DEFAULT), "dataset");
            ok(H5Dread(set, type_of(v), memory, space, how, values[v]), "read");
            ok(H5Dclose(set), "close");
        }
        say("read", together() - before);
        for (v = 0; v < VARIABLES; v++) bad += wrong(values[v], step, v, first, count);
    }
    ok(H5Fclose(file), "close");
    require(bad == 0, "bdcats read other values than vpic wrote");
    for (v = 0; v < VARIABLES; v++) free(values[v]);
    H5Sclose(space), H5Sclose(memory), H5Pclose(how), H5Pclose(access);
}

static void spectrum_name(char *name, uint64_t which) {
    snprintf(name, NAME, "plate_%04u/fiber_%05u", (unsigned)(which / PER_GROUP), (unsigned)which);
}

static int mine(uint64_t which) { return (int)(which % (uint64_t)size) == rank; }

static void h5boss(const char *path, const char *transfer, uint64_t sets) {
    const hsize_t extent = SPECTRUM;
    const int collective = strcmp(transfer, "collective") == 0;
    hid_t access = access_list(collective), how = transfer_list(transfer), creation = creation_list(), file, set, group, attribute;
    hid_t space = ok(H5Screate_simple(1, &extent, NULL), "space"), scalar = ok(H5Screate(H5S_SCALAR), "space");
    hid_t nothing = ok(H5Scopy(space), "space");
    float *values = memory_of(SPECTRUM);
    double begin, before, after;
    uint64_t i;
    char name[NAME];
    ok(H5Sselect_none(nothing), "selection");
    begin = together();
    file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "create");
    say_connector(file);
    for (i = 0; i < sets; i++) {
        const double angle = 0.25 * (double)i;
        const int32_t fiber = (int32_t)i;
        if (i % PER_GROUP == 0) {
            snprintf(name, sizeof name, "plate_%04u", (unsigned)(i / PER_GROUP));
            group = ok(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "group");
            ok(H5Gclose(group), "close");
        }
        spectrum_name(name, i);
        set = ok(H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, creation, H5P_DEFAULT), "dataset");
        attribute = ok(H5Acreate2(set, "fiber", H5T_NATIVE_INT32, scalar, H5P_DEFAULT, H5P_DEFAULT), "attribute");
        ok(H5Awrite(attribute, H5T_NATIVE_INT32, &fiber), "attribute");
        ok(H5Aclose(attribute), "close");
        attribute = ok(H5Acreate2(set, "ra", H5T_NATIVE_DOUBLE, scalar, H5P_DEFAULT, H5P_DEFAULT), "attribute");
        ok(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &angle), "attribute");
        ok(H5Aclose(attribute), "close");
        ok(H5Dclose(set), "close");
    }
    before = together();
    say("create", before - begin);
    for (i = 0; i < sets; i++) {
        if (!mine(i) && !collective) continue;
        spectrum_name(name, i);
        fill(values, 0, 0, i * SPECTRUM, SPECTRUM);
        set = ok(H5Dopen2(file, name, H5P_DEFAULT), "dataset");
        ok(H5Dwrite(set, H5T_NATIVE_FLOAT, mine(i) ? space : nothing, mine(i) ? space : nothing, how, values), "write");
        ok(H5Dclose(set), "close");
    }
    after = together();
    say("wait", after - before);
    finish(file, begin, 0);
    free(values);
    H5Sclose(space), H5Sclose(scalar), H5Sclose(nothing), H5Pclose(creation), H5Pclose(how), H5Pclose(access);
}

static void h5boss_read(const char *path, const char *transfer, uint64_t sets) {
    const int collective = strcmp(transfer, "collective") == 0;
    const hsize_t extent = SPECTRUM;
    hid_t access = access_list(collective), how = transfer_list(transfer), file, set;
    hid_t space = ok(H5Screate_simple(1, &extent, NULL), "space"), nothing = ok(H5Scopy(space), "space");
    float *values = memory_of(SPECTRUM);
    double begin, before;
    uint64_t i, bad = 0;
    char name[NAME];
    ok(H5Sselect_none(nothing), "selection");
    begin = together();
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access), "open");
    before = together();
    say("create", before - begin);
    say_connector(file);
    before = together();
    for (i = 0; i < sets; i++) {
        if (!mine(i) && !collective) continue;
        spectrum_name(name, i);
        set = ok(H5Dopen2(file, name, H5P_DEFAULT), "dataset");
        ok(H5Dread(set, H5T_NATIVE_FLOAT, mine(i) ? space : nothing, mine(i) ? space : nothing, how, values), "read");
        ok(H5Dclose(set), "close");
        if (mine(i)) bad += wrong(values, 0, 0, i * SPECTRUM, SPECTRUM);
    }
    say("read", together() - before);
    ok(H5Fclose(file), "close");
    require(bad == 0, "h5boss read other values than were written");
    free(values);
    H5Sclose(space), H5Sclose(nothing), H5Pclose(how), H5Pclose(access);
}

/* Every size-th cell, from this rank's number on. */
static void turns(const char *path, const char *transfer, uint64_t cells, int steps) {
    const hsize_t extent = cells * (uint64_t)size, start = (hsize_t)rank, stride = (hsize_t)size, number = cells;
    hid_t access = access_list(1), how = transfer_list(transfer), creation = creation_list(), file, set;
    hid_t space = ok(H5Screate_simple(1, &extent, NULL), "space"), memory = ok(H5Screate_simple(1, &number, NULL), "space");
    int32_t *values = memory_of(cells);
    double begin, before, left_out = 0, waiting = 0, creating;
    uint64_t i;
    int step;
    ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, &stride, &number, NULL), "selection");
    begin = together();
    file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "create");
    say_connector(file);
    set = ok(H5Dcreate2(file, "turns", H5T_NATIVE_INT32, space, H5P_DEFAULT, creation, H5P_DEFAULT), "dataset");
    creating = together() - begin;
    for (step = 0; step < steps; step++) {
        before = together();
        for (i = 0; i < cells; i++) values[i] = (int32_t)value(step, 0, i * (uint64_t)size + (uint64_t)rank);
        left_out += together() - before;
        before = together();
        ok(H5Dwrite(set, H5T_NATIVE_INT32, memory, space, how, values), "write");
        waiting += together() - before;
        if (step + 1 < steps) ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    }
    say("create", creating);
    say("wait", waiting);
    ok(H5Dclose(set), "close");
    finish(file, begin, left_out);
    free(values);
    H5Sclose(space), H5Sclose(memory), H5Pclose(creation), H5Pclose(how), H5Pclose(access);
}

static void turns_read(const char *path, const char *transfer, uint64_t cells, int steps) {
    hid_t access = access_list(1), how = transfer_list(transfer), file, set, memory;
    hid_t space = part_of(cells * (uint64_t)size, cells * (uint64_t)rank, cells, &memory);
    int32_t *values = memory_of(cells);
    double before = together();
    uint64_t i, bad = 0;
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access), "open");
    say("create", together() - before);
    say_connector(file);
    before = together();
    set = ok(H5Dopen2(file, "turns", H5P_DEFAULT), "dataset");
    ok(H5Dread(set, H5T_NATIVE_INT32, memory, space, how, values), "read");
    ok(H5Dclose(set), "close");
    say("read", together() - before);
    for (i = 0; i < cells; i++) bad += values[i] != (int32_t)value(steps - 1, 0, cells * (uint64_t)rank + i);
    ok(H5Fclose(file), "close");
    require(bad == 0, "turns-read read other values than were written");
    free(values);
    H5Sclose(space), H5Sclose(memory), H5Pclose(how), H5Pclose(access);
}

static void limits(const char *path, uint64_t particles, int steps, int milliseconds) {
    const size_t bytes = (size_t)particles * 4;
    char *values = memory_of(particles * VARIABLES), *memory = memory_of(particles * VARIABLES), name[4096];
    double begin, copying = 0, writing = 0, syncing;
    int step, v, file;
    size_t at;
    snprintf(name, sizeof name, "%s.%d", path, rank);
    file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    require(file >= 0, "a file");
    for (step = 0; step < steps; step++) {
        if (step > 0) compute(milliseconds);
        for (v = 0; v < VARIABLES; v++) fill(values + (size_t)v * bytes, step, v, particles * (uint64_t)rank, particles);
        begin = together();
        for (v = 0; v < VARIABLES; v++) memcpy(memory + (size_t)v * bytes, values + (size_t)v * bytes, bytes);
        copying += together() - begin;
        for (v = 0; v < VARIABLES; v++) fill(values + (size_t)v * bytes, step, v, particles * (uint64_t)rank, particles);
        begin = together();
        for (v = 0; v < VARIABLES; v++)
            for (at = 0; at < bytes;) {
                ssize_t n = write(file, values + (size_t)v * bytes + at, bytes - at);
                require(n > 0, "write");
                at += (size_t)n;
            }
        writing += together() - begin;
    }
    begin = together();
    require(fsync(file) == 0, "fsync");
    syncing = together() - begin;
    require(memcmp(values, memory, VARIABLES * bytes) == 0, "the copy");
    close(file);
    say("copy", copying);
    say("files", writing);
    say("files-durable", writing + syncing);
    free(values);
    free(memory);
}

int main(int count, char **words) {
    uint64_t number;
    int steps;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    require(count >= 6, "usage: kernels ACT FILE TRANSFER SIZE STEPS [COMPUTE_MS]");
    number = strtoull(words[4], NULL, 10);
    steps = atoi(words[5]);
    if (strcmp(words[1], "vpic") == 0) vpic(words[2], words[3], number, steps, count > 6 ? atoi(words[6]) : 0);
    else if (strcmp(words[1], "bdcats") == 0) bdcats(words[2], words[3], number, steps);
    else if (strcmp(words[1], "h5boss") == 0) h5boss(words[2], words[3], number);
    else if (strcmp(words[1], "h5boss-read") == 0) h5boss_read(words[2], words[3], number);
    else if (strcmp(words[1], "turns") == 0) turns(words[2], words[3], number, steps);
    else if (strcmp(words[1], "turns-read") == 0) turns_read(words[2], words[3], number, steps);
    else if (strcmp(words[1], "limits") == 0) limits(words[2], number, steps, count > 6 ? atoi(words[6]) : 0);
    else require(0, "ACT is vpic, bdcats, h5boss, h5boss-read, turns, turns-read or limits");
    MPI_Finalize();
    return 0;
}
