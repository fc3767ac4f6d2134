/* Threads with separate writers, with a shared writer, and with a handle that another thread closes. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 24, CELLS = 8 };

static dry_container *container;
static dry_writer *shared;

static void *own_writer(void *argument) {
    uint32_t rank = *(uint32_t *)argument;
    uint64_t offset[1], count[1] = {CELLS}, round;
    int64_t cells[CELLS];
    dry_writer_options options = dry_writer_options_new();
    dry_variable *none;
    dry_writer *w;
    int i;

    options.rank = rank;
    options.nranks = THREADS;
    OK(dry_writer_open(container, &options, &w));
    offset[0] = rank * CELLS;
    for (round = 0; round < ROUNDS; round++) {
        OK(dry_begin_step(w, (int64_t)round, 0, NULL));
        for (i = 0; i < CELLS; i++) cells[i] = (int64_t)(round * 1000 + rank * CELLS) + i;
        OK(dry_put(w, "own", DRY_INT64, cells, sizeof cells, 1, offset, count, NULL));
        OK(dry_end_step(w, NULL));
        OK(dry_commit(container, NULL)); /* as often as it likes */
        FAILS(DRY_NOT_FOUND, rank % 2 ? "\"odd\"" : "\"even\"", /* each thread has a message of its own */
              dry_variable_open(container, rank % 2 ? "odd" : "even", NULL, &none));
    }
    OK(dry_writer_close(w));
    return NULL;
}

static void *same_writer(void *argument) {
    uint32_t rank = *(uint32_t *)argument;
    uint64_t offset[1], count[1] = {1};
    int i;
    for (i = 0; i < CELLS; i++) {
        int64_t value = (int64_t)(rank * CELLS) + i;
        offset[0] = (uint64_t)value;
        OK(dry_put(shared, "same", DRY_INT64, &value, sizeof value, 1, offset, count, NULL));
    }
    return NULL;
}

static void *read_until_closed(void *argument) {
    dry_variable *variable = argument;
    int64_t back[THREADS * CELLS];
    dry_status status;
    do {
        status = dry_read_box(variable, DRY_NO_STEP, DRY_INT64, back, sizeof back, 1, NULL, NULL, NULL);
        if (status == DRY_OK) REQUIRE(back[5] == 5 && back[THREADS * CELLS - 1] == THREADS * CELLS - 1);
    } while (status == DRY_OK);
    REQUIRE(status == DRY_INVALID_ARGUMENT && strstr(dry_last_error(), "closed before") != NULL);
    return NULL;
}

static void together(void *(*work)(void *), void *argument) {
    pthread_t threads[THREADS];
    uint32_t ranks[THREADS], i;
    for (i = 0; i < THREADS; i++) {
        ranks[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, work, argument ? argument : &ranks[i]) == 0);
    }
    if (argument) {
        int64_t back[THREADS * CELLS];
        for (i = 0; i < 5; i++)
            OK(dry_read_box(argument, DRY_NO_STEP, DRY_INT64, back, sizeof back, 1, NULL, NULL, NULL));
        OK(dry_variable_close(argument));
    }
    for (i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    uint64_t shape[1] = {THREADS * CELLS};
    int64_t back[ROUNDS][THREADS * CELLS], round, i;
    dry_axis axes[2] = {{0, ROUNDS, 1}, {0, THREADS * CELLS, 1}};
    dry_create_options memory = dry_create_options_new();
    dry_variable_options options = dry_variable_options_new();
    dry_variable *v;

    memory.durability = DRY_MEMORY;
    OK(dry_create("threads.dry", &memory, &container));
    options.type = DRY_INT64;
    options.ndim = 1;
    options.shape = shape;
    OK(dry_create_variable(container, "same", &options));
    options.has_steps = 1;
    OK(dry_create_variable(container, "own", &options));

    together(own_writer, NULL);
    OK(dry_variable_open(container, "own", NULL, &v));
    OK(dry_read(v, DRY_INT64, back, sizeof back, 2, axes, NULL));
    for (round = 0; round < ROUNDS; round++)
        for (i = 0; i < THREADS * CELLS; i++) REQUIRE(back[round][i] == round * 1000 + i);
    OK(dry_variable_close(v));

    OK(dry_writer_open(container, NULL, &shared));
    together(same_writer, NULL);
    OK(dry_writer_close(shared));
    OK(dry_variable_open(container, "same", NULL, &v));
    together(read_until_closed, v);
    OK(dry_container_close(container));
    return 0;
}
