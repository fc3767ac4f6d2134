/* Any number of ranks write and read together; failures of one are errors of all:  collective CONTAINER [writers] */
#include "../c/check.h"

#include "drystone_mpi.h"

enum { ROWS = 6, STEPS = 3 };

static int rank, size;

static double value(uint64_t step, int row, int column) { return 1000.0 * (double)step + 100.0 * row + column; }

/* Ranks have different widths: 1, 2, 3, 1, 2, 3, ... columns. */
static int width(int r) { return 1 + r % 3; }

static int columns_before(int r) {
    int n = 0, i;
    for (i = 0; i < r; i++) n += width(i);
    return n;
}

static void write_steps(dry_team *team, uint32_t writers) {
    double block[ROWS * 3];
    uint64_t offset[2] = {0, 0}, count[2] = {ROWS, 0}, begun, step;
    int row, column;
    dry_team_writer_options options = dry_team_writer_options_new();
    dry_commit_report report = dry_commit_report_new();
    dry_writer *writer;

    offset[1] = (uint64_t)columns_before(rank);
    count[1] = (uint64_t)width(rank);
    options.writers = writers;
    OK(dry_team_writer_open(team, &options, &writer));
    for (step = 0; step < STEPS; step++) {
        OK(dry_begin_step(writer, DRY_NO_STEP, 0, &begun));
        REQUIRE(begun == step);
        for (row = 0; row < ROWS; row++)
            for (column = 0; column < width(rank); column++)
                block[row * width(rank) + column] = value(step, row, columns_before(rank) + column);
        OK(dry_put(writer, "u", DRY_FLOAT64, block, ROWS * count[1] * sizeof(double), 2, offset, count, NULL));
        OK(dry_end_step(writer, &report));
        REQUIRE(report.changed == 1 && report.snapshot >= step + 2);
    }

    /* Each rank begins a different step: all ranks get the error, and continue. */
    if (size > 1) FAILS(DRY_INVALID_ARGUMENT, "begin different steps", dry_begin_step(writer, rank + 10, 0, NULL));
    OK(dry_begin_step(writer, 90, 0, NULL));
    OK(dry_abort_step(writer));
    OK(dry_writer_close(writer));
}

/* Each rank reads every size-th column, backwards; the last rank reads nothing. */
static void read_together(dry_team *team, dry_variable *u, int columns) {
    const int mine = rank < columns && (rank < size - 1 || size == 1) ? (columns - rank + size - 1) / size : 0;
    const uint32_t ways[4] = {0, 1, 2, DRY_ALONE};
    double *some = malloc(sizeof(double) * ROWS * (size_t)(mine + 1));
    dry_axis axes[3] = {{1, 1, 1}, {0, ROWS, 1}, {0, 0, 0}}, bad[3];
    dry_read_options options = dry_read_options_new();
    dry_read_report report = dry_read_report_new();
    int way, row, i;

    axes[2].count = (uint64_t)mine;
    axes[2].start = mine > 0 ? (uint64_t)(rank + (mine - 1) * size) : 0;
    axes[2].step = -size;
    options.report = &report;
    for (way = 0; way < 4; way++) {
        options.readers = ways[way];
        memset(some, 0, sizeof(double) * ROWS * (size_t)(mine + 1));
        OK(dry_team_read(team, u, DRY_FLOAT64, some, sizeof(double) * ROWS * (size_t)mine, 3, axes, &options));
        for (row = 0; row < ROWS; row++)
            for (i = 0; i < mine; i++) REQUIRE(some[row * mine + i] == value(1, row, rank + (mine - 1 - i) * size));
        REQUIRE(report.readers == (ways[way] == DRY_ALONE ? 0 : ways[way] == 2 && size == 1 ? 1 : ways[way]) || way == 0);
        if (ways[way] == 1) REQUIRE((report.requests == 0) == (rank != 0));
    }
    /* An invalid request of one rank fails on all, and they continue. */
    memcpy(bad, axes, sizeof bad);
    options.readers = 0;
    if (rank == size - 1) {
        bad[0].start = 90;
        bad[2].count = 1;
    }
    FAILS(DRY_OUT_OF_RANGE, "leaves",
          dry_team_read(team, u, DRY_FLOAT64, some, sizeof(double) * ROWS * (size_t)(mine + 1), 3, bad, &options));
    FAILS(DRY_INVALID_ARGUMENT, rank == 0 ? "NULL" : "on rank 0",
          dry_team_read(team, rank == 0 ? NULL : u, DRY_FLOAT64, some, sizeof(double) * ROWS * (size_t)mine, 3, axes, &options));
    options.readers = rank == 0 ? 1 : 0;
    if (size > 1)
        FAILS(DRY_INVALID_ARGUMENT, "other readers",
              dry_team_read(team, u, DRY_FLOAT64, some, sizeof(double) * ROWS * (size_t)mine, 3, axes, &options));
    free(some);
}

static void read_all(const char *path, const dry_communicator *ranks) {
    const int columns = columns_before(size);
    double *all = malloc(sizeof(double) * ROWS * (size_t)columns);
    uint64_t step;
    int row, column;
    dry_team *team;
    dry_container *container;
    dry_variable *u;

    OK(dry_team_open(path, DRY_READ, ranks, &team));
    OK(dry_team_container(team, &container));
    OK(dry_variable_open(container, "u", NULL, &u));
    for (step = 0; step < STEPS; step++) {
        dry_status mine = dry_read_box(u, (int64_t)step, DRY_FLOAT64, all, sizeof(double) * ROWS * (size_t)columns, 2, NULL,
                                       NULL, NULL);
        OK(dry_team_agree(team, mine));
        for (row = 0; row < ROWS; row++)
            for (column = 0; column < columns; column++)
                REQUIRE(all[row * columns + column] == value(step, row, column));
    }
    read_together(team, u, columns);
    free(all);
    OK(dry_variable_close(u));
    OK(dry_container_close(container));
    OK(dry_team_close(team));
}

int main(int argc, char **argv) {
    uint64_t shape[2] = {ROWS, 0}, nodes[1];
    dry_variable_options options = dry_variable_options_new();
    dry_communicator ranks, wrong;
    dry_team *team;
    dry_container *container;
    dry_status status = DRY_OK;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    REQUIRE(argc >= 2);
    OK(dry_mpi_communicator(MPI_COMM_WORLD, &ranks));
    REQUIRE(ranks.rank == (uint32_t)rank && ranks.size == (uint32_t)size);
    nodes[0] = ranks.node;
    MPI_Bcast(nodes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    REQUIRE(nodes[0] == ranks.node); /* of one machine */

    /* Errors in the communicator's table are reported before any communication. */
    wrong = ranks;
    wrong.exchange = NULL;
    FAILS(DRY_INVALID_ARGUMENT, "callback", dry_team_open(argv[1], DRY_READ, &wrong, &team));
    wrong = ranks;
    wrong.rank = wrong.size;
    FAILS(DRY_INVALID_ARGUMENT, "ranks are 0..size-1", dry_team_open(argv[1], DRY_READ, &wrong, &team));
    FAILS(DRY_INVALID_ARGUMENT, "communicator is NULL", dry_team_open(argv[1], DRY_READ, NULL, &team));
    FAILS(DRY_NOT_FOUND, "nothing at", dry_team_open(argv[1], DRY_READ, &ranks, &team));
    REQUIRE(team == NULL);

    OK(dry_team_create(argv[1], NULL, &ranks, &team));
    OK(dry_team_container(team, &container));
    if (rank == 0) {
        shape[1] = (uint64_t)columns_before(size);
        options.type = DRY_FLOAT64;
        options.ndim = 2;
        options.shape = shape;
        options.has_steps = 1;
        status = dry_create_variable(container, "u", &options);
    }
    OK(dry_team_agree(team, status));

    /* An action of the last rank fails: all ranks get its status, and the container stays usable. */
    status = rank == size - 1 ? dry_delete(container, "nothing") : DRY_OK;
    FAILS(DRY_NOT_FOUND, "nothing", dry_team_agree(team, status));

    write_steps(team, argc > 2 ? (uint32_t)atoi(argv[2]) : 0);
    OK(dry_container_close(container));
    OK(dry_team_close(team));
    read_all(argv[1], &ranks);
    dry_mpi_free(&ranks);
    MPI_Finalize();
    return 0;
}
