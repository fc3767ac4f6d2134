/* Threads of one process that write, read, change the schema, and open and close handles, all at once. */
#include "check.h"

#include <pthread.h>

enum { WRITERS = 3, READERS = 3, ROUNDS = 10, CELLS = 16, READS = 25 };

static dry_container *container;
static dry_writer *shared;

static int64_t value_of(uint64_t step, uint64_t writer, int i) { return (int64_t)(step * 1000 + writer * 100) + i + 1; }

/* Each thread commits its own steps with its own writer. */
static void *write_steps(void *argument) {
    const uint64_t number = *(uint64_t *)argument;
    uint64_t round, offset[1], count[1] = {CELLS};
    int64_t cells[CELLS];
    int i;
    offset[0] = number * CELLS;
    for (round = 0; round < ROUNDS; round++) {
        const uint64_t step = round * WRITERS + number;
        dry_writer *w;
        OK(dry_writer_open(container, NULL, &w));
        OK(dry_begin_step(w, (int64_t)step, 0, NULL));
        for (i = 0; i < CELLS; i++) cells[i] = value_of(step, number, i);
        OK(dry_put(w, "t", DRY_INT64, cells, sizeof cells, 1, offset, count, NULL));
        if (round % 3 == 2) {
            OK(dry_abort_step(w));
        } else {
            OK(dry_end_step(w, NULL));
        }
        OK(dry_writer_close(w));
        OK(dry_commit(container, NULL));
    }
    return NULL;
}

/* A step is visible as a whole or not at all. */
static void check_step(const int64_t *cells, uint64_t step) {
    const uint64_t writer = step % WRITERS;
    const int written = cells[writer * CELLS] != 0;
    int i;
    REQUIRE(!written || step / WRITERS % 3 != 2);
    for (i = 0; i < WRITERS * CELLS; i++) {
        const int own = written && (uint64_t)i / CELLS == writer;
        REQUIRE(cells[i] == (own ? value_of(step, writer, i % CELLS) : 0));
    }
}

static void look(dry_container *at) {
    dry_variable_info info = dry_variable_info_new();
    dry_axis axes[2] = {{0, 0, 1}, {0, WRITERS * CELLS, 1}};
    int64_t cells[ROUNDS * WRITERS][WRITERS * CELLS];
    const double low = 1, high = 100000;
    uint64_t steps[ROUNDS * WRITERS], s;
    dry_variable *v;
    size_t count, found;
    OK(dry_variable_open(at, "t", NULL, &v));
    OK(dry_variable_describe(v, &info));
    axes[0].count = info.step_axis;
    OK(dry_read(v, DRY_INT64, cells, info.step_axis * sizeof cells[0], 2, axes, NULL));
    for (s = 0; s < info.step_axis; s++) check_step(cells[s], s);
    OK(dry_variable_steps(v, steps, ROUNDS * WRITERS, &count));
    for (s = 0; s < count; s++) {
        REQUIRE(cells[steps[s]][steps[s] % WRITERS * CELLS] != 0);
        OK(dry_find(v, (int64_t)steps[s], DRY_FLOAT64, &low, &high, NULL, NULL, 0, &found, NULL));
        REQUIRE(found == CELLS);
    }
    OK(dry_variable_close(v));
}

/* Readers on the shared handle, on earlier snapshots, and on handles of their own. */
static void *read_all(void *argument) {
    const uint64_t number = *(uint64_t *)argument;
    int i;
    for (i = 0; i < READS; i++) {
        dry_container_info info = dry_container_info_new();
        dry_container *other;
        OK(dry_refresh(container, NULL));
        look(container);
        if (number == 0) continue;
        OK(dry_container_describe(container, &info));
        if (number == 1) {
            OK(dry_open_snapshot(container, info.snapshot, &other));
        } else {
            OK(dry_open("crowd.dry", DRY_READ, &other));
        }
        look(other);
        OK(dry_container_close(other));
    }
    return NULL;
}

static void *change_schema(void *argument) {
    dry_variable_options options = dry_variable_options_new();
    int i;
    (void)argument;
    options.type = DRY_FLOAT32;
    for (i = 0; i < ROUNDS; i++) {
        char name[32], other[32];
        int32_t kind;
        sprintf(name, "g/v%d", i);
        sprintf(other, "h/v%d", i);
        OK(dry_begin_batch(container));
        OK(dry_create_variable(container, name, &options));
        OK(dry_set_attribute(container, name, "i", DRY_INT32, 0, NULL, &i, sizeof i));
        OK(dry_end_batch(container, i % 2));
        OK(dry_kind_of(container, name, &kind));
        REQUIRE(kind == (i % 2 ? DRY_VARIABLE : DRY_NOTHING));
        if (i % 2) OK(dry_rename(container, name, other));
        if (i % 4 == 1) OK(dry_delete(container, other));
    }
    return NULL;
}

/* Puts until the writer is closed by another thread; earlier puts are kept. */
static void *put_shared(void *argument) {
    const uint64_t number = *(uint64_t *)argument;
    uint64_t offset[1], count[1] = {1};
    dry_status status = DRY_OK;
    offset[0] = number;
    while (status == DRY_OK) {
        const int64_t value = (int64_t)number + 1;
        status = dry_put(shared, "once", DRY_INT64, &value, sizeof value, 1, offset, count, NULL);
    }
    REQUIRE(status == DRY_INVALID_ARGUMENT && strstr(dry_last_error(), "closed") != NULL);
    return NULL;
}

static void *close_shared(void *argument) {
    uint64_t n;
    int64_t value = -1;
    const uint64_t offset[1] = {WRITERS}, count[1] = {1};
    (void)argument;
    for (n = 0; n < 200; n++) OK(dry_put(shared, "once", DRY_INT64, &value, sizeof value, 1, offset, count, NULL));
    OK(dry_writer_close(shared));
    return NULL;
}

int main(void) {
    void *(*const work[])(void *) = {write_steps, write_steps, write_steps, read_all, read_all, read_all,
                                     put_shared,  put_shared,  put_shared,  change_schema, close_shared};
    enum { THREADS = sizeof work / sizeof *work };
    uint64_t shape[1] = {WRITERS * CELLS}, numbers[THREADS];
    dry_create_options memory = dry_create_options_new();
    dry_variable_options options = dry_variable_options_new();
    dry_verify_report report = dry_verify_report_new();
    int64_t once[WRITERS + 1];
    pthread_t threads[THREADS];
    dry_variable *v;
    int i;

    memory.durability = DRY_MEMORY;
    OK(dry_create("crowd.dry", &memory, &container));
    options.type = DRY_INT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    options.transform = "shuffle,zstd:1";
    OK(dry_create_variable(container, "t", &options));
    options.has_steps = 0;
    shape[0] = WRITERS + 1;
    OK(dry_create_variable(container, "once", &options));
    OK(dry_writer_open(container, NULL, &shared));
    for (i = 0; i < THREADS; i++) {
        numbers[i] = (uint64_t)i % 3;
        REQUIRE(pthread_create(&threads[i], NULL, work[i], &numbers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    look(container);
    OK(dry_variable_open(container, "once", NULL, &v));
    OK(dry_read_box(v, DRY_NO_STEP, DRY_INT64, once, sizeof once, 1, NULL, NULL, NULL));
    REQUIRE(once[WRITERS] == -1);
    for (i = 0; i < WRITERS; i++) REQUIRE(once[i] == 0 || once[i] == i + 1);
    OK(dry_variable_close(v));
    OK(dry_verify(container, NULL, NULL, &report));
    REQUIRE(report.damaged == 0);
    OK(dry_container_close(container));
    return 0;
}
