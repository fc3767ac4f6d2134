/*
 * The simulation of simulate.py in C: the same equations, the same container, the same bits.
 *
 *     mpiexec -n 8 simulate run.dry --grid 64 --outputs 12 --interval 50
 *     mpiexec -n 6 simulate run.dry --outputs 20 --restart          (also of what simulate.py wrote)
 *
 * Compile it with drystone_mpi.c by mpicc, without contraction of multiplications and additions (-ffp-contract=off), so
 * that every compiler computes the same sequence of single operations. Only the initial state differs from Python's,
 * whose drops come from NumPy's generator: here they form a regular pattern.
 */
#include <drystone_mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double Du, Dv, F, k, dt;
    int64_t seed, interval;
} model;

/* This rank's box of the periodic grid, and its neighbours below and above along each axis. */
typedef struct {
    MPI_Comm comm;
    int64_t grid[3], offset[3], count[3], rows[3]; /* rows: extents with the padding of one cell on every side */
    int below[3], above[3];
} place;

/* U or V: the current and the next values, padded. */
typedef struct {
    double *now, *next;
} field;

static int rank, ranks;

/* A failure of one rank ends all: collective calls fail on all ranks, and any other failure here ends the
 * program. */
static void ok(dry_status status) {
    if (status == DRY_OK) return;
    fprintf(stderr, "simulate: rank %d: %s: %s\n", rank, dry_status_name(status), dry_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *allocate(size_t count) {
    void *memory = calloc(count, sizeof(double));
    if (memory == NULL) {
        fprintf(stderr, "simulate: rank %d: no memory for %zu numbers\n", rank, count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* ---- the grid and its boxes ------------------------------------------------------------------------------------- */

static place divide(const int64_t grid[3]) {
    place out;
    int dims[3] = {0, 0, 0}, around[3] = {1, 1, 1}, at[3], axis, me;
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, around, 0, &out.comm);
    MPI_Comm_rank(out.comm, &me);
    MPI_Cart_coords(out.comm, me, 3, at);
    for (axis = 0; axis < 3; axis++) {
        out.grid[axis] = grid[axis];
        out.offset[axis] = at[axis] * grid[axis] / dims[axis];
        out.count[axis] = (at[axis] + 1) * grid[axis] / dims[axis] - out.offset[axis];
        out.rows[axis] = out.count[axis] + 2;
        MPI_Cart_shift(out.comm, axis, 1, &out.below[axis], &out.above[axis]);
        if (dims[axis] > grid[axis]) {
            if (rank == 0) fprintf(stderr, "simulate: axis %d has too few cells for %d ranks\n", axis, dims[axis]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    return out;
}

static size_t padded(const place *p) { return (size_t)(p->rows[0] * p->rows[1] * p->rows[2]); }

static double *cell(const place *p, double *values, int64_t z, int64_t y, int64_t x) {
    return values + ((z * p->rows[1] + y) * p->rows[2] + x);
}

/* Copies a layer across an axis, without the padding of the other axes, to or from a buffer. */
static int64_t layer(const place *p, double *values, int axis, int64_t at, double *buffer, int out) {
    const int a = axis == 0 ? 1 : 0, b = axis == 2 ? 1 : 2;
    int64_t i, j, n = 0, index[3];
    index[axis] = at;
    for (i = 1; i <= p->count[a]; i++)
        for (j = 1; j <= p->count[b]; j++, n++) {
            index[a] = i;
            index[b] = j;
            if (out) buffer[n] = *cell(p, values, index[0], index[1], index[2]);
            else *cell(p, values, index[0], index[1], index[2]) = buffer[n];
        }
    return n;
}

/* Fills the padding of the six faces with the neighbours' cells; edges and corners are not used. */
static void exchange(const place *p, double *values, double *send, double *receive) {
    int axis;
    for (axis = 0; axis < 3; axis++) {
        int64_t n = layer(p, values, axis, p->count[axis], send, 1);
        MPI_Sendrecv(send, (int)n, MPI_DOUBLE, p->above[axis], axis, receive, (int)n, MPI_DOUBLE, p->below[axis], axis,
                     p->comm, MPI_STATUS_IGNORE);
        layer(p, values, axis, 0, receive, 0);
        layer(p, values, axis, 1, send, 1);
        MPI_Sendrecv(send, (int)n, MPI_DOUBLE, p->below[axis], 3 + axis, receive, (int)n, MPI_DOUBLE, p->above[axis],
                     3 + axis, p->comm, MPI_STATUS_IGNORE);
        layer(p, values, axis, p->count[axis] + 1, receive, 0);
    }
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

/* A number in [0, 1) for each cell, from its global index only (the SplitMix64 finaliser). */
static double noise(uint64_t index, int64_t seed) {
    uint64_t z = index + (uint64_t)seed * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

static void initial_state(const place *p, const model *m, field *u, field *v) {
    int64_t z, y, x;
    for (z = 0; z < p->count[0]; z++)
        for (y = 0; y < p->count[1]; y++)
            for (x = 0; x < p->count[2]; x++) {
                const int64_t g[3] = {p->offset[0] + z, p->offset[1] + y, p->offset[2] + x};
                const uint64_t index = (uint64_t)((g[0] * p->grid[1] + g[1]) * p->grid[2] + g[2]);
                const int inside = g[0] % 12 < 3 && g[1] % 16 < 4 && g[2] % 12 < 3;
                *cell(p, u->now, z + 1, y + 1, x + 1) = (inside ? 0.5 : 1.0) - 0.02 * noise(index, m->seed);
                *cell(p, v->now, z + 1, y + 1, x + 1) = (inside ? 0.25 : 0.0) + 0.02 * noise(index, m->seed + 1);
            }
}

static void swap(field *f) {
    double *other = f->now;
    f->now = f->next;
    f->next = other;
}

/* One time step: the operations of reaction.py in the same order, each rounded. */
static void advance(const place *p, const model *m, field *u, field *v) {
    const int64_t plane = p->rows[1] * p->rows[2], row = p->rows[2];
    const double du = m->dt * m->Du / 6, dv = m->dt * m->Dv / 6, feed = m->dt * m->F;
    const double keep_u = 1 - m->dt * (m->Du + m->F), keep_v = 1 - m->dt * (m->Dv + m->F + m->k);
    int64_t z, y, x;
    for (z = 1; z <= p->count[0]; z++)
        for (y = 1; y <= p->count[1]; y++)
            for (x = 1; x <= p->count[2]; x++) {
                const double *a = cell(p, u->now, z, y, x), *b = cell(p, v->now, z, y, x);
                double sum_u = a[-plane] + a[plane], sum_v = b[-plane] + b[plane], uvv = b[0] * b[0];
                sum_u += a[-row] + a[row];
                sum_u += a[-1] + a[1];
                sum_v += b[-row] + b[row];
                sum_v += b[-1] + b[1];
                uvv *= a[0];
                uvv *= m->dt;
                sum_u *= du;
                sum_u += a[0] * keep_u;
                sum_u -= uvv;
                *cell(p, u->next, z, y, x) = sum_u + feed;
                sum_v *= dv;
                sum_v += b[0] * keep_v;
                *cell(p, v->next, z, y, x) = sum_v + uvv;
            }
    swap(u);
    swap(v);
}

/* ---- the container ---------------------------------------------------------------------------------------------- */

static const char *const names[2] = {"U", "V"};
static const char *const parameters[5] = {"Du", "Dv", "F", "k", "dt"};

static double *parameter(model *m, int i) {
    double *all[5];
    all[0] = &m->Du, all[1] = &m->Dv, all[2] = &m->F, all[3] = &m->k, all[4] = &m->dt;
    return all[i];
}

/* What rank 0 creates first: the variables, and the model as their attributes. */
static dry_status create_variables(dry_container *c, const int64_t grid[3], model *m, const char *transform) {
    static const char *const dims[3] = {"z", "y", "x"};
    uint64_t shape[3] = {(uint64_t)grid[0], (uint64_t)grid[1], (uint64_t)grid[2]};
    dry_variable_options options = dry_variable_options_new();
    dry_status status = dry_begin_batch(c), ended;
    int i, j;

    options.type = DRY_FLOAT64;
    options.ndim = 3;
    options.shape = shape;
    options.dims = dims;
    options.has_steps = 1;
    options.transform = transform;
    for (i = 0; i < 2 && status == DRY_OK; i++) {
        status = dry_create_variable(c, names[i], &options);
        for (j = 0; j < 5 && status == DRY_OK; j++)
            status = dry_set_attribute(c, names[i], parameters[j], DRY_FLOAT64, 0, NULL, parameter(m, j), sizeof(double));
        if (status == DRY_OK) status = dry_set_attribute(c, names[i], "seed", DRY_INT64, 0, NULL, &m->seed, sizeof m->seed);
        if (status == DRY_OK)
            status = dry_set_attribute(c, names[i], "interval", DRY_INT64, 0, NULL, &m->interval, sizeof m->interval);
    }
    ended = dry_end_batch(c, status == DRY_OK);
    return status == DRY_OK ? ended : status;
}

/* The model, the grid and the last complete step of a container. */
static int64_t restart(dry_container *c, int64_t grid[3], model *m) {
    dry_variable_info info = dry_variable_info_new();
    dry_container_info about = dry_container_info_new();
    dry_variable *u;
    int i;

    ok(dry_container_describe(c, &about));
    if (about.step_axis == 0) {
        if (rank == 0) fprintf(stderr, "simulate: there is no complete step to restart from: start a new run\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    ok(dry_variable_open(c, "U", NULL, &u));
    ok(dry_variable_describe(u, &info));
    if (info.type != DRY_FLOAT64 || info.ndim != 3) {
        if (rank == 0) fprintf(stderr, "simulate: U is no array of three dimensions of float64\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (i = 0; i < 3; i++) grid[i] = (int64_t)info.shape[i];
    for (i = 0; i < 5; i++) ok(dry_get_attribute(c, "U", parameters[i], DRY_FLOAT64, parameter(m, i), sizeof(double)));
    ok(dry_get_attribute(c, "U", "seed", DRY_INT64, &m->seed, sizeof m->seed));
    ok(dry_get_attribute(c, "U", "interval", DRY_INT64, &m->interval, sizeof m->interval));
    ok(dry_variable_close(u));
    return (int64_t)about.step_axis - 1;
}

/* Offset, count and strides of the box in its padded memory. */
static void box_of(const place *p, uint64_t offset[3], uint64_t count[3], int64_t strides[3]) {
    int axis;
    for (axis = 0; axis < 3; axis++) {
        offset[axis] = (uint64_t)p->offset[axis];
        count[axis] = (uint64_t)p->count[axis];
    }
    strides[2] = sizeof(double);
    strides[1] = p->rows[2] * strides[2];
    strides[0] = p->rows[1] * strides[1];
}

static uint64_t size_of(const place *p, const int64_t strides[3]) {
    int64_t size = sizeof(double);
    int axis;
    for (axis = 0; axis < 3; axis++) size += (p->count[axis] - 1) * strides[axis];
    return (uint64_t)size;
}

/* Reads this rank's box of a step, whichever rank wrote it, into the padded memory. */
static void load(dry_container *c, const place *p, int64_t step, field *fields[2]) {
    uint64_t offset[3], count[3];
    int64_t strides[3];
    dry_read_options options = dry_read_options_new();
    dry_variable *variable;
    int i;

    box_of(p, offset, count, strides);
    options.strides = strides;
    for (i = 0; i < 2; i++) {
        ok(dry_variable_open(c, names[i], NULL, &variable));
        ok(dry_read_box(variable, step, DRY_FLOAT64, cell(p, fields[i]->now, 1, 1, 1), size_of(p, strides), 3, offset, count,
                        &options));
        ok(dry_variable_close(variable));
    }
}

/* One output step of all ranks; when it returns, the step is visible. */
static void store(dry_writer *writer, const place *p, int64_t step, field *fields[2]) {
    uint64_t offset[3], count[3];
    int64_t strides[3];
    dry_put_options options = dry_put_options_new();
    int i;

    box_of(p, offset, count, strides);
    options.strides = strides;
    ok(dry_begin_step(writer, step, 0, NULL));
    for (i = 0; i < 2; i++)
        ok(dry_put(writer, names[i], DRY_FLOAT64, cell(p, fields[i]->now, 1, 1, 1), size_of(p, strides), 3, offset, count,
                   &options));
    ok(dry_end_step(writer, NULL));
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void usage(const char *program) {
    if (rank == 0)
        fprintf(stderr,
                "usage: %s CONTAINER [--grid N] [--outputs N] [--interval N] [--transform TEXT] [--durable] [--restart]\n",
                program);
    MPI_Finalize();
    exit(2);
}

int main(int argc, char **argv) {
    model m = {0.8, 0.4, 0.025, 0.055, 1.0, 42, 50};
    int64_t grid[3] = {64, 64, 64}, outputs = 12, first = 0, step, i;
    int restarting = 0, at;
    const char *transform = NULL;
    dry_create_options options = dry_create_options_new();
    dry_communicator communicator;
    dry_team *team;
    dry_container *container;
    dry_writer *writer;
    dry_status status = DRY_OK;
    field u, v, *fields[2] = {&u, &v};
    double *send, *receive;
    place p;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2) usage(argv[0]);
    for (at = 2; at < argc; at++) {
        if (strcmp(argv[at], "--restart") == 0) restarting = 1;
        else if (strcmp(argv[at], "--durable") == 0) options.durability = DRY_DURABLE;
        else if (at + 1 == argc) usage(argv[0]);
        else if (strcmp(argv[at], "--grid") == 0) grid[0] = grid[1] = grid[2] = atoi(argv[++at]);
        else if (strcmp(argv[at], "--outputs") == 0) outputs = atoi(argv[++at]);
        else if (strcmp(argv[at], "--interval") == 0) m.interval = atoi(argv[++at]);
        else if (strcmp(argv[at], "--transform") == 0) transform = argv[++at];
        else usage(argv[0]);
    }
    if (grid[0] < 1 || outputs < 1 || m.interval < 1) usage(argv[0]);

    ok(dry_check_abi(DRY_ABI));
    ok(dry_mpi_communicator(MPI_COMM_WORLD, &communicator));
    if (restarting) ok(dry_team_open(argv[1], DRY_READ_WRITE, &communicator, &team));
    else ok(dry_team_create(argv[1], &options, &communicator, &team));
    ok(dry_team_container(team, &container));
    if (rank == 0) {
        if (restarting) status = dry_recover(container, DRY_ADOPT_ALL, NULL, 0, NULL);
        else status = create_variables(container, grid, &m, transform);
    }
    ok(dry_team_agree(team, status));
    if (restarting) first = restart(container, grid, &m);

    p = divide(grid);
    u.now = allocate(padded(&p)), u.next = allocate(padded(&p));
    v.now = allocate(padded(&p)), v.next = allocate(padded(&p));
    send = allocate(padded(&p)), receive = allocate(padded(&p));
    if (restarting) load(container, &p, first, fields);
    else initial_state(&p, &m, &u, &v);

    ok(dry_team_writer_open(team, NULL, &writer));
    if (!restarting) store(writer, &p, 0, fields);
    for (step = first + 1; step <= outputs; step++) {
        for (i = 0; i < m.interval; i++) {
            exchange(&p, u.now, send, receive);
            exchange(&p, v.now, send, receive);
            advance(&p, &m, &u, &v);
        }
        store(writer, &p, step, fields);
    }
    ok(dry_writer_close(writer));
    ok(dry_container_close(container));
    ok(dry_team_close(team));
    dry_mpi_free(&communicator);
    free(u.now), free(u.next), free(v.now), free(v.next), free(send), free(receive);
    MPI_Comm_free(&p.comm);
    MPI_Finalize();
    return 0;
}
