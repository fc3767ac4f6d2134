/* A file per checkpoint, by parallel HDF5: contiguous datasets, collective transfers. */
#include "kernel.h"

#include <hdf5.h>

static void begin(const struct job *job) { (void)job; }

static hid_t ok(hid_t id, const char *what) {
    require(id >= 0, what);
    return id;
}

static hid_t access_list(void) {
    hid_t list = ok(H5Pcreate(H5P_FILE_ACCESS), "hdf5: access");
    ok(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL), "hdf5: mpio");
    ok(H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_LATEST), "hdf5: versions");
    ok(H5Pset_all_coll_metadata_ops(list, 1), "hdf5: collective metadata");
    return list;
}

static hid_t transfer_list(void) {
    hid_t list = ok(H5Pcreate(H5P_DATASET_XFER), "hdf5: transfer");
    ok(H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE), "hdf5: collective");
    return list;
}

/* The spaces of a rank's part, in the file and in memory. */
static void spaces_of(const struct job *job, hid_t *file, hid_t *memory) {
    const struct part *p = &job->mine;
    hsize_t extents[3], start[3], stride[3], count[3], block[3], cells = cells_of(p);
    int d;
    for (d = 0; d < job->ndim; d++) {
        extents[d] = job->extents[d], start[d] = p->offset[d], block[d] = p->count[d], count[d] = stride[d] = 1;
    }
    count[0] = p->boxes;
    stride[0] = p->boxes > 1 ? p->apart : p->count[0];
    for (d = 1; d < job->ndim; d++) stride[d] = p->count[d];
    *file = ok(H5Screate_simple(job->ndim, extents, NULL), "hdf5: space");
    ok(H5Sselect_hyperslab(*file, H5S_SELECT_SET, start, stride, count, block), "hdf5: hyperslab");
    *memory = ok(H5Screate_simple(1, &cells, NULL), "hdf5: space");
}

static void path_of(char *path, size_t size, const struct job *job, int step) {
    snprintf(path, size, "%s/step%d.h5", job->folder, step);
}

static void checkpoint(const struct job *job, int step, void *const *memory, const double *scalars) {
    const hid_t type = job->item == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_UCHAR;
    const hsize_t few = SCALARS;
    hid_t access = access_list(), transfer = transfer_list(), create, file, in_file, in_memory, set, space;
    char path[4096], name[16];
    int a;
    path_of(path, sizeof path, job, step);
    file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), "hdf5: create");
    spaces_of(job, &in_file, &in_memory);
    create = ok(H5Pcreate(H5P_DATASET_CREATE), "hdf5: create");
    ok(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), "hdf5: no fill values");
    for (a = 0; a < job->arrays; a++) {
        snprintf(name, sizeof name, "v%d", a);
        set = ok(H5Dcreate2(file, name, type, in_file, H5P_DEFAULT, create, H5P_DEFAULT), "hdf5: dataset");
        ok(H5Dwrite(set, type, in_memory, in_file, transfer, memory[a]), "hdf5: write");
        H5Dclose(set);
    }
    if (job->scalars > 0) {
        space = ok(H5Screate_simple(1, &few, NULL), "hdf5: space");
        set = ok(H5Dcreate2(file, "scalars", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "hdf5: scalars");
        if (job->rank == 0) ok(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, scalars), "hdf5: scalars");
        H5Dclose(set);
        H5Sclose(space);
    }
    if (job->durable) ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "hdf5: flush");
    H5Sclose(in_file);
    H5Sclose(in_memory);
    ok(H5Fclose(file), "hdf5: close");
    H5Pclose(create);
    H5Pclose(access);
    H5Pclose(transfer);
}

static void restart(const struct job *job, int step, void *const *memory, double *scalars) {
    const hid_t type = job->item == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_UCHAR;
    hid_t access = access_list(), transfer = transfer_list(), file, in_file, in_memory, set;
    char path[4096], name[16];
    int a;
    path_of(path, sizeof path, job, step);
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access), "hdf5: open");
    spaces_of(job, &in_file, &in_memory);
    for (a = 0; a < job->arrays; a++) {
        snprintf(name, sizeof name, "v%d", a);
        set = ok(H5Dopen2(file, name, H5P_DEFAULT), "hdf5: dataset");
        ok(H5Dread(set, type, in_memory, in_file, transfer, memory[a]), "hdf5: read");
        H5Dclose(set);
    }
    if (job->scalars > 0) {
        set = ok(H5Dopen2(file, "scalars", H5P_DEFAULT), "hdf5: scalars");
        ok(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, transfer, scalars), "hdf5: scalars");
        H5Dclose(set);
    }
    H5Sclose(in_file);
    H5Sclose(in_memory);
    ok(H5Fclose(file), "hdf5: close");
    H5Pclose(access);
    H5Pclose(transfer);
}

const struct way with_hdf5 = {"hdf5", begin, checkpoint, begin, restart};
