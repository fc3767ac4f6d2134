/* A file per process and checkpoint, as it lies in memory; rank 0's ends with the scalars. Other ranks find their cells in the
 * files of those that had them. */
#include "kernel.h"

#include <fcntl.h>
#include <unistd.h>

static void begin(const struct job *job) { (void)job; }

static int open_file(const struct job *job, int step, int rank, int flags) {
    char path[4096];
    int file;
    snprintf(path, sizeof path, "%s/step%d.%d", job->folder, step, rank);
    file = open(path, flags, 0600);
    require(file >= 0, "files: open");
    return file;
}

static void put(int file, const void *from, uint64_t bytes) {
    const char *at = from;
    while (bytes > 0) {
        const ssize_t n = write(file, at, bytes < (1u << 30) ? bytes : (1u << 30));
        require(n > 0, "files: write");
        at += n;
        bytes -= (uint64_t)n;
    }
}

static void get(int file, void *to, uint64_t bytes, uint64_t from) {
    char *at = to;
    while (bytes > 0) {
        const ssize_t n = pread(file, at, bytes, (off_t)from);
        require(n > 0, "files: read");
        at += n;
        from += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
}

static void checkpoint(const struct job *job, int step, void *const *memory, const double *scalars) {
    const uint64_t bytes = cells_of(&job->mine) * (uint64_t)job->item;
    const int file = open_file(job, step, job->rank, O_CREAT | O_WRONLY | O_EXCL);
    int a;
    for (a = 0; a < job->arrays; a++) put(file, memory[a], bytes);
    if (job->scalars > 0 && job->rank == 0) put(file, scalars, sizeof(double) * SCALARS);
    if (job->durable) require(fsync(file) == 0, "files: sync");
    close(file);
    MPI_Barrier(MPI_COMM_WORLD); /* the checkpoint is there when all files are */
}

/* The cells of my box that a writer had: whole planes of its file at once, then row by row into place. */
static void cube(const struct job *job, const struct part *theirs, int file, void *const *memory) {
    const struct part *p = &job->mine;
    uint64_t lo[3], hi[3], x, y;
    double *planes;
    int d, a;
    for (d = 0; d < 3; d++) {
        const uint64_t end = p->offset[d] + p->count[d], their_end = theirs->offset[d] + theirs->count[d];
        lo[d] = p->offset[d] > theirs->offset[d] ? p->offset[d] : theirs->offset[d];
        hi[d] = end < their_end ? end : their_end;
        if (lo[d] >= hi[d]) return;
    }
    planes = malloc((hi[0] - lo[0]) * theirs->count[1] * theirs->count[2] * sizeof(double));
    require(planes != NULL, "memory");
    for (a = 0; a < job->arrays; a++) {
        const uint64_t plane = theirs->count[1] * theirs->count[2];
        get(file, planes, (hi[0] - lo[0]) * plane * sizeof(double),
            ((uint64_t)a * cells_of(theirs) + (lo[0] - theirs->offset[0]) * plane) * sizeof(double));
        for (x = lo[0]; x < hi[0]; x++)
            for (y = lo[1]; y < hi[1]; y++)
                memcpy((double *)memory[a] + ((x - p->offset[0]) * p->count[1] + y - p->offset[1]) * p->count[2] + lo[2] -
                           p->offset[2],
                       planes + (x - lo[0]) * plane + (y - theirs->offset[1]) * theirs->count[2] + lo[2] - theirs->offset[2],
                       (hi[2] - lo[2]) * sizeof(double));
    }
    free(planes);
}

/* The cells of my run that a writer had, block by block. */
static void run(const struct job *job, const struct part *theirs, int file, char *memory) {
    const uint64_t first = job->mine.offset[0], end = first + job->mine.count[0], block = theirs->count[0];
    uint64_t i;
    for (i = 0; i < theirs->boxes; i++) {
        const uint64_t at = theirs->offset[0] + i * theirs->apart, lo = at > first ? at : first;
        const uint64_t hi = at + block < end ? at + block : end;
        if (lo < hi) get(file, memory + (lo - first), hi - lo, i * block + lo - at);
    }
}

static void restart(const struct job *job, int step, void *const *memory, double *scalars) {
    const int same = job->writers == job->size && job->mine.boxes == job->part_of(job, job->rank, job->size).boxes;
    int writer, a;
    for (writer = 0; writer < job->writers; writer++) {
        const struct part theirs = job->part_of(job, writer, job->writers);
        const uint64_t bytes = cells_of(&theirs) * (uint64_t)job->item;
        int file;
        if (same && writer != job->rank && (writer != 0 || job->scalars == 0)) continue;
        file = open_file(job, step, writer, O_RDONLY);
        if (same && writer == job->rank)
            for (a = 0; a < job->arrays; a++) get(file, memory[a], bytes, (uint64_t)a * bytes);
        if (!same && job->ndim == 3) cube(job, &theirs, file, memory);
        if (!same && job->ndim == 1) run(job, &theirs, file, memory[0]);
        if (writer == 0 && job->scalars > 0) get(file, scalars, sizeof(double) * SCALARS, bytes * ARRAYS);
        close(file);
    }
}

const struct way with_files = {"files", begin, checkpoint, begin, restart};
