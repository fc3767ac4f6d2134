/* The newest write wins: a writer that commits its own step takes older values of the step with it. */
#include "check.h"

static dry_container *c;

static void write_step(dry_writer *w, int64_t step, double value, uint64_t first, uint64_t count, int32_t replace) {
    double values[4] = {value, value, value, value};
    OK(dry_begin_step(w, step, replace, NULL));
    OK(dry_put(w, "p", DRY_FLOAT64, values, count * sizeof values[0], 1, &first, &count, NULL));
    OK(dry_end_step(w, NULL));
}

static dry_writer *open_alone(void) {
    dry_writer_options options = dry_writer_options_new();
    dry_writer *w;
    options.nranks = 1;
    OK(dry_writer_open(c, &options, &w));
    return w;
}

/* The cells of a step, now and after a further commit. */
static void shows(int64_t step, double first, double second, double third, double fourth) {
    double expected[4], back[4];
    dry_variable *v;
    int turn, n;
    expected[0] = first, expected[1] = second, expected[2] = third, expected[3] = fourth;
    for (turn = 0; turn < 2; turn++) {
        OK(dry_refresh(c, NULL));
        OK(dry_variable_open(c, "p", NULL, &v));
        OK(dry_read_box(v, step, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
        OK(dry_variable_close(v));
        for (n = 0; n < 4; n++)
            REQUIRE(back[n] == expected[n]);
        OK(dry_commit(c, NULL));
    }
}

int main(void) {
    uint64_t shape[1] = {4};
    dry_variable_options options = dry_variable_options_new();
    dry_writer *free_one, *alone;
    int round;

    OK(dry_create("order.dry", NULL, &c));
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    OK(dry_create_variable(c, "p", &options));

    /* Another writer of this program. */
    OK(dry_writer_open(c, NULL, &free_one));
    alone = open_alone();
    for (round = 0; round < 6; round++) {
        write_step(free_one, round, 1, 0, 4, 0);
        write_step(alone, round, 2, 1, 2, 0);
        shows(round, 1, 2, 2, 1);
    }
    write_step(free_one, 0, 3, 0, 4, 0);
    write_step(alone, 0, 4, 1, 2, 1);
    shows(0, 0, 4, 4, 0);

    /* An earlier program. */
    write_step(free_one, 6, 5, 0, 4, 0);
    OK(dry_writer_close(free_one));
    OK(dry_writer_close(alone));
    OK(dry_container_close(c));
    OK(dry_open("order.dry", DRY_READ_WRITE, &c));
    alone = open_alone();
    write_step(alone, 6, 6, 0, 1, 0);
    shows(6, 6, 5, 5, 5);
    OK(dry_writer_close(alone));
    OK(dry_container_close(c));
    return 0;
}
