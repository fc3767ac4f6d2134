/* Ranks whose tiers are on nodes of their own keep parity of each other, through the communicator, and die:
 *     parity CONTAINER TIERS write SCHEME     writes, waits for the level "partner", and is killed
 *     parity CONTAINER TIERS read             reads it all on any number of ranks, and goes on writing */
#include "../c/check.h"

#include <signal.h>

#include "drystone_mpi.h"

enum { CELLS = 4800, STEPS = 3 };

static int rank, size;

static double value(uint64_t step, uint64_t cell) { return 1e6 * (double)step + (double)cell; }

static void write_steps(dry_team *team, uint64_t first, uint64_t last, int32_t level) {
    const uint64_t share = CELLS / (uint64_t)size, offset = share * (uint64_t)rank;
    const uint64_t count = rank == size - 1 ? CELLS - offset : share;
    double *block = malloc(sizeof(double) * count);
    dry_team_writer_options options = dry_team_writer_options_new();
    dry_commit_report report = dry_commit_report_new();
    dry_writer *writer;
    uint64_t step, cell;

    /* Each rank writes: what it has lies in its own tier. */
    options.writers = (uint32_t)size;
    OK(dry_team_writer_open(team, &options, &writer));
    for (step = first; step < last; step++) {
        OK(dry_begin_step(writer, step, 0, NULL));
        for (cell = 0; cell < count; cell++) block[cell] = value(step, offset + cell);
        OK(dry_put(writer, "p", DRY_FLOAT64, block, sizeof(double) * count, 1, &offset, &count, NULL));
        OK(dry_end_step_at(writer, level, &report));
    }
    if (level >= DRY_HOME) OK(dry_writer_close(writer));
    free(block);
}

static void write_and_die(const char *path, const char *tiers, const char *scheme, const dry_communicator *ranks) {
    const uint64_t shape[1] = {CELLS};
    dry_create_options create = dry_create_options_new();
    dry_variable_options options = dry_variable_options_new();
    dry_status status = DRY_OK;
    char folder[4096];
    const char *folders[1] = {folder};
    dry_container *container;
    dry_team *team;
    uint64_t step;

    create.tiers = 1;
    create.redundancy = scheme;
    OK(dry_team_create(path, &create, ranks, &team));
    OK(dry_team_container(team, &container));
    snprintf(folder, sizeof folder, "%s/near%d", tiers, rank);
    OK(dry_use_tiers(container, folders, NULL, 1));
    if (rank == 0) {
        options.type = DRY_FLOAT64;
        options.ndim = 1;
        options.shape = shape;
        options.has_steps = 1;
        status = dry_create_variable(container, "p", &options);
    }
    OK(dry_team_agree(team, status));
    write_steps(team, 0, STEPS, DRY_PARTNER);
    for (step = 0; step < STEPS; step++) OK(dry_wait(container, step, DRY_PARTNER, 60.0));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("kept by partners\n");
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    raise(SIGKILL);
}

static void read_and_go_on(const char *path, const dry_communicator *ranks) {
    static double all[CELLS];
    dry_container *container;
    dry_variable *p;
    dry_team *team;
    uint64_t step, cell;

    OK(dry_team_open(path, DRY_READ_WRITE, ranks, &team));
    OK(dry_team_container(team, &container));
    OK(dry_variable_open(container, "p", NULL, &p));
    for (step = 0; step < STEPS; step++) {
        OK(dry_team_agree(team, dry_read_box(p, (int64_t)step, DRY_FLOAT64, all, sizeof all, 1, NULL, NULL, NULL)));
        for (cell = 0; cell < CELLS; cell++) REQUIRE(all[cell] == value(step, cell));
    }
    OK(dry_variable_close(p));
    write_steps(team, STEPS, STEPS + 1, DRY_HOME);
    OK(dry_container_close(container));
    OK(dry_team_close(team));
}

int main(int argc, char **argv) {
    dry_communicator ranks;
    char node[32];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    REQUIRE(argc >= 4);
    snprintf(node, sizeof node, "n%d", rank);
    setenv("DRYSTONE_NODE", node, 1);
    setenv("DRYSTONE_DRAIN", "hold", 1);
    OK(dry_mpi_communicator(MPI_COMM_WORLD, &ranks));
    if (!strcmp(argv[3], "write")) {
        REQUIRE(argc == 5);
        write_and_die(argv[1], argv[2], argv[4], &ranks);
    } else {
        read_and_go_on(argv[1], &ranks);
    }
    dry_mpi_free(&ranks);
    MPI_Finalize();
    return 0;
}
