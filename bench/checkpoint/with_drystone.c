/* One container for all checkpoints, opened by the ranks together; a step per checkpoint. */
#include "kernel.h"

#include <drystone_mpi.h>

static dry_communicator ranks;
static dry_team *team;
static dry_container *container;
static dry_writer *writer;

static void ok(dry_status status, const char *what) {
    if (status == DRY_OK) return;
    fprintf(stderr, "drystone: %s: %s\n", what, dry_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void name_of(char name[16], int array) { snprintf(name, 16, "v%d", array); }

static dry_type type_of(const struct job *job) { return job->item == 8 ? DRY_FLOAT64 : DRY_UINT8; }

static dry_status create(const struct job *job) {
    static const uint64_t few[1] = {SCALARS};
    dry_variable_options options = dry_variable_options_new();
    dry_status status = dry_begin_batch(container), ended;
    char name[16];
    int a;
    options.has_steps = 1;
    options.type = type_of(job);
    options.ndim = (uint32_t)job->ndim;
    options.shape = job->extents;
    for (a = 0; a < job->arrays && status == DRY_OK; a++) {
        name_of(name, a);
        status = dry_create_variable(container, name, &options);
    }
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = few;
    if (job->scalars > 0 && status == DRY_OK) status = dry_create_variable(container, "scalars", &options);
    ended = dry_end_batch(container, status == DRY_OK);
    return status == DRY_OK ? ended : status;
}

static void begin(const struct job *job) {
    dry_create_options options = dry_create_options_new();
    char path[4096];
    snprintf(path, sizeof path, "%s/run.dry", job->folder);
    options.durability = job->durable ? DRY_DURABLE : DRY_ASYNC;
    ok(dry_mpi_communicator(MPI_COMM_WORLD, &ranks), "communicator");
    ok(dry_team_create(path, &options, &ranks, &team), "create");
    ok(dry_team_container(team, &container), "container");
    ok(dry_team_agree(team, job->rank == 0 ? create(job) : DRY_OK), "create variables");
    ok(dry_team_writer_open(team, NULL, &writer), "open a writer");
}

static void checkpoint(const struct job *job, int step, void *const *memory, const double *scalars) {
    const uint64_t bytes = cells_of(&job->mine) / job->mine.boxes * (uint64_t)job->item;
    const uint64_t few[1] = {SCALARS};
    uint64_t offset[3], i;
    char name[16];
    int a;
    ok(dry_begin_step(writer, step, 0, NULL), "begin a step");
    for (a = 0; a < job->arrays; a++) {
        name_of(name, a);
        memcpy(offset, job->mine.offset, sizeof offset);
        for (i = 0; i < job->mine.boxes; i++, offset[0] += job->mine.apart)
            ok(dry_put(writer, name, type_of(job), (const char *)memory[a] + i * bytes, bytes, (uint32_t)job->ndim, offset,
                       job->mine.count, NULL),
               "put");
    }
    if (job->scalars > 0 && job->rank == 0)
        ok(dry_put(writer, "scalars", DRY_FLOAT64, scalars, sizeof(double) * SCALARS, 1, NULL, few, NULL), "put scalars");
    ok(dry_end_step(writer, NULL), "end a step");
}

static void end(const struct job *job) {
    (void)job;
    ok(dry_writer_close(writer), "close the writer");
    ok(dry_container_close(container), "close");
    ok(dry_team_close(team), "close the team");
    dry_mpi_free(&ranks);
}

static void restart(const struct job *job, int step, void *const *memory, double *scalars) {
    const uint64_t bytes = cells_of(&job->mine) / job->mine.boxes * (uint64_t)job->item;
    dry_variable *variable;
    char path[4096], name[16];
    uint64_t offset[3], i;
    int a;
    snprintf(path, sizeof path, "%s/run.dry", job->folder);
    ok(dry_mpi_communicator(MPI_COMM_WORLD, &ranks), "communicator");
    ok(dry_team_open(path, DRY_READ, &ranks, &team), "open");
    ok(dry_team_container(team, &container), "container");
    for (a = 0; a < job->arrays; a++) {
        name_of(name, a);
        ok(dry_variable_open(container, name, NULL, &variable), "open a variable");
        memcpy(offset, job->mine.offset, sizeof offset);
        for (i = 0; i < job->mine.boxes; i++, offset[0] += job->mine.apart)
            ok(dry_read_box(variable, step, type_of(job), (char *)memory[a] + i * bytes, bytes, (uint32_t)job->ndim, offset,
                            job->mine.count, NULL),
               "read");
        ok(dry_variable_close(variable), "close a variable");
    }
    if (job->scalars > 0) {
        ok(dry_variable_open(container, "scalars", NULL, &variable), "open scalars");
        ok(dry_read_box(variable, step, DRY_FLOAT64, scalars, sizeof(double) * SCALARS, 1, NULL, NULL, NULL), "read scalars");
        ok(dry_variable_close(variable), "close scalars");
    }
    ok(dry_team_agree(team, DRY_OK), "agree");
    ok(dry_container_close(container), "close");
    ok(dry_team_close(team), "close the team");
    dry_mpi_free(&ranks);
}

const struct way with_drystone = {"drystone", begin, checkpoint, end, restart};
