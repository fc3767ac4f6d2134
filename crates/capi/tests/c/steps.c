/* Ranks, steps, commits, recovery after a run that stopped in the middle, verification, and the log. */
#include "check.h"

static char told[4096];

static void keep(void *context, int32_t level, const char *message) {
    ++*(int *)context;
    REQUIRE(level == DRY_LOG_NOTE || level == DRY_LOG_WARNING);
    strncat(told, message, sizeof told - strlen(told) - 1);
}

static int32_t stop(void *context, uint64_t done, uint64_t total) {
    (void)context;
    REQUIRE(done <= total);
    return 1;
}

static dry_writer *open_rank(dry_container *c, uint32_t rank, uint32_t nranks) {
    dry_writer_options options = dry_writer_options_new();
    dry_writer *w;
    options.rank = rank;
    options.nranks = nranks;
    OK(dry_writer_open(c, &options, &w));
    return w;
}

static void put_half(dry_writer *w, uint32_t rank, double value) {
    uint64_t offset[1], count[1] = {4};
    double half[4] = {value, value + 1, value + 2, value + 3};
    offset[0] = 4 * rank;
    OK(dry_put(w, "p", DRY_FLOAT64, half, sizeof half, 1, offset, count, NULL));
}

int main(void) {
    uint64_t shape[1] = {8}, steps[8], begun, these[1] = {0}, one[1] = {1};
    double back[8];
    size_t count;
    int messages = 0;
    dry_create_options durable = dry_create_options_new();
    dry_variable_options options = dry_variable_options_new();
    dry_writer_options wrong = dry_writer_options_new();
    dry_commit_report report = dry_commit_report_new();
    dry_recover_report recovered = dry_recover_report_new();
    dry_verify_report verified = dry_verify_report_new();
    dry_axis axes[2] = {{0, 3, 1}, {7, 1, 1}};
    dry_container *c;
    dry_variable *v;
    dry_writer *w[2];

    OK(dry_set_log(keep, &messages));
    durable.durability = DRY_DURABLE;
    OK(dry_create("steps.dry", &durable, &c));
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    OK(dry_create_variable(c, "p", &options));

    /* Two ranks. Step 0 is committed, one rank ends step 1, then both stop. */
    w[0] = open_rank(c, 0, 2);
    w[1] = open_rank(c, 1, 2);
    OK(dry_begin_step(w[0], DRY_NO_STEP, 0, &begun));
    REQUIRE(begun == 0);
    put_half(w[0], 0, 10);
    OK(dry_end_step(w[0], NULL));
    OK(dry_commit(c, &report));
    REQUIRE(report.changed == 0 && report.incomplete == 1 && messages == 1 && strstr(told, "one has not closed it: 1"));
    OK(dry_begin_step(w[1], 0, 0, NULL));
    put_half(w[1], 1, 20);
    OK(dry_end_step(w[1], &report));
    REQUIRE(report.changed == 0);
    OK(dry_commit(c, &report));
    REQUIRE(report.changed == 1 && report.incomplete == 0 && report.snapshot == 2);
    FAILS(DRY_INVALID_ARGUMENT, "no step is open", dry_end_step(w[0], NULL));
    OK(dry_begin_step(w[0], DRY_NO_STEP, 0, &begun));
    REQUIRE(begun == 1);
    FAILS(DRY_INVALID_ARGUMENT, "step 1 is open", dry_begin_step(w[0], DRY_NO_STEP, 0, NULL));
    put_half(w[0], 0, 30);
    OK(dry_writer_flush(w[0]));
    OK(dry_end_step(w[0], NULL));
    OK(dry_begin_step(w[1], DRY_NO_STEP, 0, NULL));
    put_half(w[1], 1, 40);
    FAILS(DRY_INVALID_ARGUMENT, "closed with step 1 open", dry_writer_close(w[1]));
    OK(dry_writer_close(w[0]));

    /* Three ranks cannot continue before dry_recover. */
    wrong.nranks = 3;
    FAILS(DRY_CONFLICT, "recover", dry_writer_open(c, &wrong, &w[0]));
    REQUIRE(w[0] == NULL);
    FAILS(DRY_INVALID_ARGUMENT, "all steps", dry_recover(c, DRY_ADOPT_ALL, these, 1, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "not a decision", dry_recover(c, 9, NULL, 0, NULL));
    OK(dry_recover(c, DRY_ADOPT_ALL, NULL, 0, &recovered));
    REQUIRE(recovered.run == 1 && recovered.incomplete == 1 && recovered.adopted == 0);
    wrong.rank = 3;
    FAILS(DRY_INVALID_ARGUMENT, "rank 3 of 3", dry_writer_open(c, &wrong, &w[0]));

    /* One rank commits alone. */
    w[0] = open_rank(c, 0, 1);
    OK(dry_begin_step(w[0], 2, 0, NULL));
    put_half(w[0], 1, 50);
    OK(dry_abort_step(w[0]));
    OK(dry_begin_step(w[0], 2, 0, NULL));
    put_half(w[0], 1, 60);
    OK(dry_end_step(w[0], &report));
    REQUIRE(report.changed == 1);
    OK(dry_writer_close(w[0]));

    OK(dry_steps(c, steps, 8, &count));
    REQUIRE(count == 2 && steps[0] == 0 && steps[1] == 2);
    OK(dry_variable_open(c, "p", NULL, &v));
    OK(dry_variable_steps(v, steps, 8, &count));
    REQUIRE(count == 2 && steps[1] == 2);
    OK(dry_read(v, DRY_FLOAT64, back, sizeof back, 2, axes, NULL));
    REQUIRE(back[0] == 23 && back[1] == 0 && back[2] == 63);
    OK(dry_read_box(v, 0, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    REQUIRE(back[0] == 10 && back[3] == 13 && back[4] == 20 && back[7] == 23);
    FAILS(DRY_INVALID_ARGUMENT, "has steps: say which",
          dry_read_box(v, DRY_NO_STEP, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    FAILS(DRY_OUT_OF_RANGE, "axis 0", dry_read_box(v, 3, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "not a step", dry_read_box(v, -2, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    OK(dry_variable_close(v));

    OK(dry_verify(c, NULL, NULL, &verified));
    REQUIRE(verified.damaged == 0 && verified.bytes >= 96 && verified.manifests >= 4);
    options.has_steps = 0;
    shape[0] = 128;
    OK(dry_create_variable(c, "many", &options));
    OK(dry_writer_open(c, NULL, &w[0]));
    for (these[0] = 0; these[0] < 128; these[0]++)
        OK(dry_put(w[0], "many", DRY_FLOAT64, back, sizeof back[0], 1, these, one, NULL));
    OK(dry_writer_close(w[0]));
    FAILS(DRY_CANCELLED, "stopped", dry_verify(c, stop, NULL, NULL));
    OK(dry_container_close(c));

    /* The same data truncated: damage is reported, and never read as values. */
    REQUIRE(system("for f in steps.dry/log/*.seg; do truncate -s -1 \"$f\"; done") == 0);
    told[0] = 0;
    OK(dry_open("steps.dry", DRY_READ, &c));
    OK(dry_verify(c, NULL, NULL, &verified));
    REQUIRE(verified.damaged > 0 && strstr(told, ".seg") != NULL);
    OK(dry_container_close(c));
    OK(dry_set_log(NULL, NULL));
    return 0;
}
