/*
 * Seconds that all ranks need to write a step, for one way of writing:
 *
 *     steps FOLDER WAY BYTES STEPS DURABLE     WAY: model, a number of writers, files (one per rank), mpiio (collective)
 *
 * Each rank has one block of BYTES in a row of blocks. The times of the steps, the first two left out, go to standard output; what
 * was written is read back and compared.
 */
#include "drystone_mpi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int rank, size;

static void require(int so, const char *what) {
    if (so) return;
    fprintf(stderr, "steps: rank %d: %s: %s\n", rank, what, dry_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(double *block, uint64_t cells, int step) {
    uint64_t i;
    for (i = 0; i < cells; i++) block[i] = step * 1e6 + rank + 1e-9 * (double)i;
}

static double begin(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void end(double since, int step) {
    double mine = MPI_Wtime() - since, longest;
    MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && step >= 2) printf("%.9f\n", longest);
}

static void with_drystone(const char *folder, int writers, uint64_t cells, int steps, int durable, double *block) {
    char path[4096];
    uint64_t shape[1], offset[1], count[1], bytes = cells * sizeof(double), i;
    double *back = malloc(bytes);
    int step;
    dry_create_options create = dry_create_options_new();
    dry_variable_options options = dry_variable_options_new();
    dry_team_writer_options how = dry_team_writer_options_new();
    dry_communicator ranks;
    dry_team *team;
    dry_container *c;
    dry_variable *u;
    dry_writer *w;
    dry_status mine = DRY_OK;

    snprintf(path, sizeof path, "%s/run.dry", folder);
    create.durability = durable ? DRY_DURABLE : DRY_ASYNC;
    require(dry_mpi_communicator(MPI_COMM_WORLD, &ranks) == DRY_OK, "communicator");
    require(dry_team_create(path, &create, &ranks, &team) == DRY_OK, "create");
    require(dry_team_container(team, &c) == DRY_OK, "container");
    shape[0] = cells * (uint64_t)size;
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    if (rank == 0) mine = dry_create_variable(c, "u", &options);
    require(dry_team_agree(team, mine) == DRY_OK, "create variable");
    how.writers = (uint32_t)writers;
    require(dry_team_writer_open(team, &how, &w) == DRY_OK, "writer");
    offset[0] = cells * (uint64_t)rank;
    count[0] = cells;
    for (step = 0; step < steps; step++) {
        double since;
        fill(block, cells, step);
        since = begin();
        require(dry_begin_step(w, DRY_NO_STEP, 0, NULL) == DRY_OK, "begin");
        require(dry_put(w, "u", DRY_FLOAT64, block, bytes, 1, offset, count, NULL) == DRY_OK, "put");
        require(dry_end_step(w, NULL) == DRY_OK, "end");
        end(since, step);
    }
    require(dry_writer_close(w) == DRY_OK, "close");
    require(dry_variable_open(c, "u", NULL, &u) == DRY_OK, "open");
    require(back != NULL && dry_read_box(u, steps - 1, DRY_FLOAT64, back, bytes, 1, offset, count, NULL) == DRY_OK, "read");
    for (i = 0; i < cells; i++) require(back[i] == block[i], "a value is not what was written");
    free(back);
    dry_variable_close(u);
    dry_container_close(c);
    dry_team_close(team);
    dry_mpi_free(&ranks);
}

static void with_files(const char *folder, uint64_t cells, int steps, int durable, double *block) {
    char path[4096];
    const char *bytes = (const char *)block;
    int step, file;
    for (step = 0; step < steps; step++) {
        double since;
        size_t done = 0, all = cells * sizeof(double);
        fill(block, cells, step);
        snprintf(path, sizeof path, "%s/%d.%d", folder, step, rank);
        since = begin();
        file = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
        require(file >= 0, "create a file");
        while (done < all) {
            ssize_t n = write(file, bytes + done, all - done < (1u << 20) ? all - done : (1u << 20));
            require(n > 0, "write a file");
            done += (size_t)n;
        }
        if (durable) require(fsync(file) == 0, "sync a file");
        close(file);
        MPI_Barrier(MPI_COMM_WORLD); /* the step is there when all files are */
        end(since, step);
    }
}

static void with_mpiio(const char *folder, uint64_t cells, int steps, int durable, double *block) {
    char path[4096];
    const uint64_t bytes = cells * sizeof(double);
    MPI_File file;
    int step;
    snprintf(path, sizeof path, "%s/shared", folder);
    require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS, "open");
    for (step = 0; step < steps; step++) {
        double since;
        const MPI_Offset at = (MPI_Offset)(bytes * ((uint64_t)step * (uint64_t)size + (uint64_t)rank));
        fill(block, cells, step);
        since = begin();
        require(MPI_File_write_at_all(file, at, block, (int)cells, MPI_DOUBLE, MPI_STATUS_IGNORE) == MPI_SUCCESS, "write");
        if (durable) require(MPI_File_sync(file) == MPI_SUCCESS, "sync");
        end(since, step);
    }
    MPI_File_close(&file);
}

int main(int argc, char **argv) {
    uint64_t cells;
    double *block;
    int steps, durable;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* else a step waits for the printing of the one before */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    require(argc == 6, "usage: steps FOLDER WAY BYTES STEPS DURABLE");
    cells = strtoull(argv[3], NULL, 10) / sizeof(double);
    steps = atoi(argv[4]);
    durable = atoi(argv[5]);
    block = malloc(cells * sizeof(double));
    require(block != NULL && cells > 0, "memory");
    if (strcmp(argv[2], "files") == 0) with_files(argv[1], cells, steps, durable, block);
    else if (strcmp(argv[2], "mpiio") == 0) with_mpiio(argv[1], cells, steps, durable, block);
    else with_drystone(argv[1], strcmp(argv[2], "model") == 0 ? 0 : atoi(argv[2]), cells, steps, durable, block);
    free(block);
    MPI_Finalize();
    return 0;
}
