/* A registered function: derived variables that call it are stored by this program's commit, alone and in a team. The
 * test that runs this defined the variables, in a process without the function. */
#include "check.h"
#include "drystone_function.h"

enum { ROWS = 6, COLUMNS = 8, CELLS = ROWS * COLUMNS };

static int calls;

/* The sum of a cell and its neighbours in the row, times the factor in the state. */
static int row3(const struct drystone_tile *in, size_t n, struct drystone_tile *out, void *state) {
    uint64_t y, x;
    calls++;
    if (n != 1 || in->ndim != 2) return 1;
    for (y = 0; y < out->shape[0]; y++)
        for (x = 0; x < out->shape[1]; x++) {
            const char *at = (const char *)in->data + (int64_t)y * in->strides[0] + (int64_t)x * in->strides[1];
            double sum = 0;
            int i;
            for (i = 0; i < 3; i++) sum += *(const float *)(at + i * in->strides[1]);
            *(double *)((char *)out->data + (int64_t)y * out->strides[0] + (int64_t)x * out->strides[1]) =
                sum * *(double *)state;
        }
    return 0;
}

static int32_t all_gather(void *context, const void *send, uint64_t size, void *receive) {
    (void)context;
    memcpy(receive, send, (size_t)size);
    return 0;
}

static int32_t exchange(void *context, const void *send, const uint64_t *send_sizes, void *receive,
                        const uint64_t *receive_sizes) {
    (void)context;
    REQUIRE(send_sizes[0] == receive_sizes[0]);
    memcpy(receive, send, (size_t)send_sizes[0]);
    return 0;
}

/* Notes the first message that says that values were not stored. */
static void keep(void *text, int32_t level, const char *message) {
    (void)level;
    if (*(char *)text == 0 && strstr(message, "were not stored") != NULL) snprintf(text, 200, "%s", message);
}

static void fill(float *u, int64_t step) {
    int i;
    for (i = 0; i < CELLS; i++) u[i] = (float)((i * 37 + step) % 19);
}

static void check_step(dry_container *c, const char *path, int64_t step, double factor) {
    float u[CELLS];
    double found[CELLS];
    dry_variable *v;
    int y, x, i;

    fill(u, step);
    OK(dry_variable_open(c, path, NULL, &v));
    OK(dry_read_box(v, step, DRY_FLOAT64, found, sizeof found, 2, NULL, NULL, NULL));
    for (y = 0; y < ROWS; y++)
        for (x = 0; x < COLUMNS; x++) {
            double sum = 0;
            for (i = -1; i < 2; i++) {
                int at = x + i < 0 ? 0 : x + i >= COLUMNS ? COLUMNS - 1 : x + i;
                sum += u[y * COLUMNS + at];
            }
            REQUIRE(found[y * COLUMNS + x] == sum * factor);
        }
    OK(dry_variable_close(v));
}

int main(void) {
    static double factor = 2;
    uint64_t shape[2] = {ROWS, COLUMNS};
    float u[CELLS];
    struct drystone_function function = {sizeof function, DRYSTONE_FUNCTION_VERSION, DRYSTONE_FUNCTION_PURE,
                                         DRYSTONE_TYPE('f', 4), DRYSTONE_TYPE('f', 8), 2, {0, 1}, row3, &factor};
    struct drystone_function wrong = function;
    dry_communicator ranks = dry_communicator_new();
    dry_container *c;
    dry_variable *v;
    dry_writer *w;
    dry_team *team;
    double found[CELLS];
    char note[200] = "";
    int stored;

    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_register_function("row3", NULL, 0, 0));
    FAILS(DRY_INVALID_ARGUMENT, "no name", dry_register_function("row 3", &function, 0, 0));
    FAILS(DRY_INVALID_ARGUMENT, "not a time", dry_register_function("row3", &function, -1, 0));
    wrong.version = 2;
    FAILS(DRY_INVALID_ARGUMENT, "version", dry_register_function("row3", &wrong, 0, 0));
    wrong = function;
    wrong.ndim = 9;
    FAILS(DRY_INVALID_ARGUMENT, "dimensions", dry_register_function("row3", &wrong, 0, 0));
    wrong = function;
    wrong.call = NULL;
    FAILS(DRY_INVALID_ARGUMENT, "address", dry_register_function("row3", &wrong, 0, 0));
    wrong = function;
    wrong.in_type = DRYSTONE_TYPE('c', 8);
    FAILS(DRY_INVALID_ARGUMENT, "no type", dry_register_function("row3", &wrong, 0, 0));

    OK(dry_open("functions.dry", DRY_READ_WRITE, &c));
    OK(dry_variable_open(c, "row3_stored", NULL, &v));
    FAILS(DRY_NOT_FOUND, "no function \"row3\"",
          dry_read_box(v, 0, DRY_FLOAT64, found, sizeof found, 2, NULL, NULL, NULL));
    wrong = function;
    wrong.halo[0] = 1;
    OK(dry_register_function("row3", &wrong, 0, 0));
    FAILS(DRY_INVALID_ARGUMENT, "the registered one is for",
          dry_read_box(v, 0, DRY_FLOAT64, found, sizeof found, 2, NULL, NULL, NULL));
    OK(dry_variable_close(v));
    OK(dry_register_function("row3", &function, 5.0, 1 << 20));
    check_step(c, "row3_virtual", 0, 2);
    check_step(c, "row3_stored", 0, 2);

    OK(dry_writer_open(c, NULL, &w));
    OK(dry_begin_step(w, 1, 0, NULL));
    fill(u, 1);
    OK(dry_put(w, "u", DRY_FLOAT32, u, sizeof u, 2, NULL, shape, NULL));
    OK(dry_end_step(w, NULL));
    OK(dry_writer_close(w));
    OK(dry_commit(c, NULL));
    OK(dry_container_close(c));

    ranks.size = 1;
    ranks.all_gather = all_gather;
    ranks.exchange = exchange;
    OK(dry_team_open("functions.dry", DRY_READ_WRITE, &ranks, &team));
    OK(dry_team_writer_open(team, NULL, &w));
    OK(dry_begin_step(w, 2, 0, NULL));
    fill(u, 2);
    OK(dry_put(w, "u", DRY_FLOAT32, u, sizeof u, 2, NULL, shape, NULL));
    OK(dry_end_step(w, NULL));
    /* A commit of the team that cannot store says so. */
    OK(dry_set_log(keep, note));
    wrong = function;
    wrong.halo[0] = 1;
    OK(dry_register_function("row3", &wrong, 0, 0));
    OK(dry_begin_step(w, 3, 0, NULL));
    OK(dry_put(w, "u", DRY_FLOAT32, u, sizeof u, 2, NULL, shape, NULL));
    OK(dry_end_step(w, NULL));
    REQUIRE(strstr(note, "the registered one is for") != NULL);
    OK(dry_set_log(NULL, NULL));
    OK(dry_register_function("row3", &function, 5.0, 1 << 20));
    OK(dry_writer_close(w));
    OK(dry_team_close(team));

    /* What the commits stored is read without another call; what they did not store is computed. */
    OK(dry_open("functions.dry", DRY_READ, &c));
    stored = calls;
    REQUIRE(stored > 0);
    check_step(c, "row3_stored", 1, 2);
    check_step(c, "row3_stored", 2, 2);
    REQUIRE(calls == stored);
    check_step(c, "row3_virtual", 2, 2);
    REQUIRE(calls > stored);
    factor = 3;
    check_step(c, "row3_stored", 2, 2);
    check_step(c, "row3_virtual", 2, 3);
    OK(dry_container_close(c));
    return 0;
}
