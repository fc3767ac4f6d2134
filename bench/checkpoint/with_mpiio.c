/* A file per checkpoint, by collective MPI-IO: array after array as one view and one call each, the scalars behind. */
#include "kernel.h"

static void ok(int code, const char *what) { require(code == MPI_SUCCESS, what); }

static void begin(const struct job *job) { (void)job; }

static MPI_File open_step(const struct job *job, int step, int mode) {
    MPI_File file;
    char path[4096];
    snprintf(path, sizeof path, "%s/step%d", job->folder, step);
    ok(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "mpiio: open");
    return file;
}

static MPI_Datatype view_of(const struct job *job) {
    const struct part *p = &job->mine;
    MPI_Datatype cell = job->item == 8 ? MPI_DOUBLE : MPI_BYTE, view;
    if (job->ndim == 3) {
        int all[3], count[3], offset[3], d;
        for (d = 0; d < 3; d++) all[d] = (int)job->extents[d], count[d] = (int)p->count[d], offset[d] = (int)p->offset[d];
        ok(MPI_Type_create_subarray(3, all, count, offset, MPI_ORDER_C, cell, &view), "mpiio: subarray");
    } else {
        ok(MPI_Type_create_hvector((int)p->boxes, (int)p->count[0], (MPI_Aint)p->apart, cell, &view), "mpiio: vector");
    }
    ok(MPI_Type_commit(&view), "mpiio: commit");
    return view;
}

static void look_at(const struct job *job, MPI_File file, int array, MPI_Datatype view) {
    MPI_Offset at = (MPI_Offset)(array_bytes(job) * (uint64_t)array);
    if (job->ndim == 1) at += (MPI_Offset)job->mine.offset[0];
    ok(MPI_File_set_view(file, at, job->item == 8 ? MPI_DOUBLE : MPI_BYTE, view, "native", MPI_INFO_NULL), "mpiio: view");
}

static void checkpoint(const struct job *job, int step, void *const *memory, const double *scalars) {
    MPI_File file = open_step(job, step, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    MPI_Datatype view = view_of(job);
    const int cells = (int)cells_of(&job->mine);
    int a;
    for (a = 0; a < job->arrays; a++) {
        look_at(job, file, a, view);
        ok(MPI_File_write_all(file, memory[a], cells, job->item == 8 ? MPI_DOUBLE : MPI_BYTE, MPI_STATUS_IGNORE), "mpiio: write");
    }
    if (job->scalars > 0) {
        ok(MPI_File_set_view(file, (MPI_Offset)(array_bytes(job) * ARRAYS), MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL),
           "mpiio: view");
        if (job->rank == 0) ok(MPI_File_write_at(file, 0, scalars, SCALARS, MPI_DOUBLE, MPI_STATUS_IGNORE), "mpiio: scalars");
    }
    if (job->durable) ok(MPI_File_sync(file), "mpiio: sync");
    ok(MPI_File_close(&file), "mpiio: close");
    MPI_Type_free(&view);
}

static void restart(const struct job *job, int step, void *const *memory, double *scalars) {
    MPI_File file = open_step(job, step, MPI_MODE_RDONLY);
    MPI_Datatype view = view_of(job);
    const int cells = (int)cells_of(&job->mine);
    int a;
    for (a = 0; a < job->arrays; a++) {
        look_at(job, file, a, view);
        ok(MPI_File_read_all(file, memory[a], cells, job->item == 8 ? MPI_DOUBLE : MPI_BYTE, MPI_STATUS_IGNORE), "mpiio: read");
    }
    if (job->scalars > 0) {
        ok(MPI_File_set_view(file, (MPI_Offset)(array_bytes(job) * ARRAYS), MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL),
           "mpiio: view");
        ok(MPI_File_read_at_all(file, 0, scalars, SCALARS, MPI_DOUBLE, MPI_STATUS_IGNORE), "mpiio: scalars");
    }
    ok(MPI_File_close(&file), "mpiio: close");
    MPI_Type_free(&view);
}

const struct way with_mpiio = {"mpiio", begin, checkpoint, begin, restart};
