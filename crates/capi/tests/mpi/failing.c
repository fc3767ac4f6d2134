/* A rank that fails where others wait for it:  failing killed|full|order CONTAINER WRITERS VICTIM [WHEN]
 *
 * killed: in its third step the victim ends itself by SIGKILL, at the WHEN-th time that it is to talk to the others;
 * MPI ends the
 *         program, and it is for the caller to see that nothing committed is lost.
 * full:   in its third step the victim cannot write a byte more; all ranks get the error, nothing of the step is seen,
 * and after a
 *         recovery they go on.
 * order:  the victim drops the step that the others end; all ranks get the error, and go on. */
#include "../c/check.h"

#include "drystone_mpi.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CELLS = 16, BEFORE = 2 };

static dry_communicator inner;
static int rank, size, calls, when;

static void count_call(void) {
    if (when > 0 && ++calls == when) kill(getpid(), SIGKILL);
}

static int32_t all_gather(void *context, const void *send, uint64_t bytes, void *receive) {
    count_call();
    return inner.all_gather(context, send, bytes, receive);
}

static int32_t exchange(void *context, const void *send, const uint64_t *send_sizes, void *receive, const uint64_t *sizes) {
    count_call();
    return inner.exchange(context, send, send_sizes, receive, sizes);
}

static double value(uint64_t step, int r, int cell) { return 1000.0 * (double)step + 100.0 * r + cell; }

static dry_status put(dry_writer *writer, uint64_t step) {
    double block[CELLS];
    const uint64_t offset[1] = {(uint64_t)rank * CELLS}, count[1] = {CELLS};
    int i;
    for (i = 0; i < CELLS; i++) block[i] = value(step, rank, i);
    return dry_put(writer, "u", DRY_FLOAT64, block, sizeof block, 1, offset, count, NULL);
}

static void write_step(dry_writer *writer, uint64_t step) {
    OK(dry_begin_step(writer, (int64_t)step, 0, NULL));
    OK(put(writer, step));
    OK(dry_end_step(writer, NULL));
}

/* Visible steps are complete: checks the cells of this rank's neighbour. */
static void check_steps(dry_container *container, uint64_t expected) {
    const int other = (rank + 1) % size;
    const uint64_t offset[1] = {(uint64_t)other * CELLS}, count[1] = {CELLS};
    uint64_t steps[8], s;
    size_t there;
    double cells[CELLS];
    dry_variable *u;
    int i;
    OK(dry_steps(container, steps, 8, &there));
    REQUIRE(there == expected);
    OK(dry_variable_open(container, "u", NULL, &u));
    for (s = 0; s < there; s++) {
        OK(dry_read_box(u, (int64_t)steps[s], DRY_FLOAT64, cells, sizeof cells, 1, offset, count, NULL));
        for (i = 0; i < CELLS; i++) REQUIRE(cells[i] == value(steps[s], other, i));
    }
    OK(dry_variable_close(u));
}

/* From now on this process can write nothing more; what it wrote before stays. */
static void let_write(int so) {
    struct rlimit limit;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = so ? limit.rlim_max : 0;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static dry_writer *open_writer(dry_team *team, uint32_t writers) {
    dry_team_writer_options options = dry_team_writer_options_new();
    dry_writer *writer;
    options.writers = writers;
    OK(dry_team_writer_open(team, &options, &writer));
    return writer;
}

int main(int argc, char **argv) {
    uint64_t shape[1];
    dry_variable_options options = dry_variable_options_new();
    dry_communicator ranks;
    dry_container *container;
    dry_writer *writer;
    dry_team *team;
    dry_status status = DRY_OK;
    uint32_t writers;
    uint64_t step;
    int victim;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    REQUIRE(argc >= 5);
    writers = (uint32_t)atoi(argv[3]);
    victim = atoi(argv[4]) == rank;
    OK(dry_mpi_communicator(MPI_COMM_WORLD, &inner));
    ranks = inner;
    ranks.all_gather = all_gather;
    ranks.exchange = exchange;

    OK(dry_team_create(argv[2], NULL, &ranks, &team));
    OK(dry_team_container(team, &container));
    if (rank == 0) {
        shape[0] = (uint64_t)size * CELLS;
        options.type = DRY_FLOAT64;
        options.ndim = 1;
        options.shape = shape;
        options.has_steps = 1;
        status = dry_create_variable(container, "u", &options);
    }
    OK(dry_team_agree(team, status));
    writer = open_writer(team, writers);
    for (step = 0; step < BEFORE; step++) write_step(writer, step);

    if (strcmp(argv[1], "killed") == 0) {
        REQUIRE(argc == 6);
        if (victim) when = atoi(argv[5]);
        for (;; step++) write_step(writer, step); /* until MPI ends it */
    }
    OK(dry_begin_step(writer, BEFORE, 0, NULL));
    OK(put(writer, BEFORE));
    if (strcmp(argv[1], "full") == 0) {
        signal(SIGXFSZ, SIG_IGN);
        if (victim) let_write(0);
        FAILS(DRY_IO, victim ? "" : "on rank", dry_end_step(writer, NULL));
        FAILS(DRY_IO, "an earlier step of this writer failed", put(writer, BEFORE));
        FAILS(DRY_IO, "an earlier step", dry_begin_step(writer, DRY_NO_STEP, 0, NULL));
        check_steps(container, BEFORE);
        if (victim) let_write(1);
        status = dry_writer_close(writer);
        REQUIRE(status == DRY_OK || status == DRY_IO);
        OK(dry_team_agree(team, rank == 0 ? dry_recover(container, DRY_ADOPT_ALL, NULL, 0, NULL) : DRY_OK));
        writer = open_writer(team, writers);
    } else {
        REQUIRE(strcmp(argv[1], "order") == 0);
        FAILS(DRY_INVALID_ARGUMENT, "in one order", victim ? dry_abort_step(writer) : dry_end_step(writer, NULL));
        check_steps(container, BEFORE);
        OK(dry_abort_step(writer));
    }
    write_step(writer, BEFORE);
    check_steps(container, BEFORE + 1);
    OK(dry_writer_close(writer));
    OK(dry_container_close(container));
    OK(dry_team_close(team));
    dry_mpi_free(&inner);
    MPI_Finalize();
    return 0;
}
