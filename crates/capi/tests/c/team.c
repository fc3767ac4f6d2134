/* A team of one rank, whose communicator copies memory; and a communicator that fails. */
#include "check.h"

static int32_t broken;

static int32_t all_gather(void *context, const void *send, uint64_t size, void *receive) {
    ++*(int *)context;
    memcpy(receive, send, (size_t)size);
    return broken;
}

static int32_t exchange(void *context, const void *send, const uint64_t *send_sizes, void *receive,
                        const uint64_t *receive_sizes) {
    ++*(int *)context;
    REQUIRE(send_sizes[0] == receive_sizes[0]);
    memcpy(receive, send, (size_t)send_sizes[0]);
    return broken;
}

int main(void) {
    static const char *const words[1] = {"word"};
    uint64_t shape[1] = {4}, offset[1] = {1}, count[1] = {2}, one[1] = {1}, begun;
    double data[4] = {1, 9, 2, 9}, back[4];
    int64_t every_other[1] = {2 * sizeof(double)};
    int met = 0;
    dry_variable_options options = dry_variable_options_new();
    dry_put_options put = dry_put_options_new();
    dry_commit_report report = dry_commit_report_new();
    dry_communicator ranks = dry_communicator_new();
    dry_team_writer_options how = dry_team_writer_options_new();
    dry_create_options memory = dry_create_options_new();
    float half[3] = {1, 2, 3}, six[6];
    char text[16];
    size_t length;
    const dry_parameter second = {"r", 1};
    dry_axis text_axes[2] = {{0, 0, 0}, {0, 0, 0}};
    dry_read_options reading = dry_read_options_new();
    dry_read_report cost = dry_read_report_new();
    dry_fragment *f;
    dry_container *c;
    dry_variable *v;
    dry_writer *w;
    dry_team *team;

    ranks.size = 1;
    ranks.context = &met;
    ranks.all_gather = all_gather;
    FAILS(DRY_INVALID_ARGUMENT, "callback", dry_team_create("team.dry", NULL, &ranks, &team));
    ranks.exchange = exchange;
    memory.durability = DRY_MEMORY;
    OK(dry_team_create("team.dry", &memory, &ranks, &team));
    REQUIRE(met == 2);
    OK(dry_team_container(team, &c));
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    OK(dry_team_agree(team, dry_create_variable(c, "u", &options)));
    options.has_steps = 0;
    OK(dry_create_variable(c, "once", &options));
    options.type = DRY_STRING;
    OK(dry_create_variable(c, "words", &options));
    options.has_steps = 1;
    OK(dry_create_variable(c, "texts", &options));
    OK(dry_declare(c, "dataset { var f[6] float32 steps }\nfragment half(r) { var f[i:3] = f[i + 3*r] }", NULL, 0));
    FAILS(DRY_CONFLICT, "exists with another dtype", dry_team_agree(team, dry_create_variable(c, "u", &options)));

    OK(dry_team_writer_open(team, NULL, &w));
    FAILS(DRY_INVALID_ARGUMENT, "inside a step", dry_put(w, "u", DRY_FLOAT64, data, sizeof data, 1, NULL, shape, NULL));
    OK(dry_begin_step(w, DRY_NO_STEP, 0, &begun));
    REQUIRE(begun == 0);
    OK(dry_abort_step(w)); /* its number is free again */
    OK(dry_begin_step(w, DRY_NO_STEP, 0, &begun));
    REQUIRE(begun == 0);
    FAILS(DRY_INVALID_ARGUMENT, "step 0 is open", dry_begin_step(w, DRY_NO_STEP, 0, NULL));
    put.strides = every_other;
    OK(dry_put(w, "u", DRY_FLOAT64, data, 3 * sizeof(double), 1, offset, count, &put));
    data[0] = data[2] = -1; /* the memory is the caller's again */
    OK(dry_put(w, "once", DRY_FLOAT64, data, sizeof data, 1, NULL, shape, NULL));
    OK(dry_put_strings(w, "words", words, NULL, 1, NULL, one));
    OK(dry_put_strings(w, "texts", words, NULL, 1, offset, one));
    FAILS(DRY_INVALID_ARGUMENT, "of type string", dry_put(w, "texts", DRY_FLOAT64, data, sizeof data, 1, NULL, shape, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "not strings", dry_put_strings(w, "u", words, NULL, 1, NULL, one));
    OK(dry_fragment_open(c, "half", &second, 1, &f));
    OK(dry_fragment_write(f, w, half, sizeof half));
    OK(dry_fragment_close(f));
    FAILS(DRY_INVALID_ARGUMENT, "leaves the variable's shape", dry_put(w, "u", DRY_FLOAT64, data, sizeof data, 1, offset, shape, NULL));
    OK(dry_writer_flush(w));
    OK(dry_end_step(w, &report));
    REQUIRE(report.changed == 1);
    FAILS(DRY_INVALID_ARGUMENT, "no step is open", dry_end_step(w, NULL));
    OK(dry_writer_close(w));
    OK(dry_variable_open(c, "u", NULL, &v));
    OK(dry_read_box(v, 0, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    REQUIRE(back[0] == 0 && back[1] == 1 && back[2] == 2 && back[3] == 0);
    OK(dry_variable_close(v));
    OK(dry_variable_open(c, "texts", NULL, &v));
    text_axes[0].count = 1;
    text_axes[1].start = 1;
    text_axes[1].count = 1;
    OK(dry_read_strings(v, 2, text_axes, text, sizeof text, &length, NULL, 0));
    REQUIRE(length == 4 && memcmp(text, "word", 4) == 0);
    OK(dry_variable_close(v));
    OK(dry_variable_open(c, "f", NULL, &v));
    OK(dry_read_box(v, 0, DRY_FLOAT32, six, sizeof six, 1, NULL, NULL, NULL));
    REQUIRE(six[2] == 0 && six[3] == 1 && six[5] == 3);
    /* A team of one reads like a single rank, with the same errors. */
    reading.report = &cost;
    OK(dry_team_read_box(team, v, 0, DRY_FLOAT32, six, sizeof six, 1, NULL, NULL, &reading));
    REQUIRE(six[4] == 2 && cost.readers == 0 && cost.requests > 0);
    reading.readers = 1;
    OK(dry_team_read_box(team, v, 0, DRY_FLOAT32, six, sizeof six, 1, NULL, NULL, &reading));
    REQUIRE(six[4] == 2 && cost.readers == 1 && cost.wanted_bytes == 3 * sizeof(float));
    FAILS(DRY_INVALID_ARGUMENT, "dry_team_read", dry_read_box(v, 0, DRY_FLOAT32, six, sizeof six, 1, NULL, NULL, &reading));
    FAILS(DRY_OUT_OF_RANGE, "leaves", dry_team_read_box(team, v, 1, DRY_FLOAT32, six, sizeof six, 1, NULL, NULL, &reading));
    FAILS(DRY_INVALID_ARGUMENT, "bytes", dry_team_read_box(team, v, 0, DRY_FLOAT32, six, 8, 1, NULL, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_team_read(team, v, DRY_FLOAT32, six, sizeof six, 2, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "handle of the variable is NULL", dry_team_read(team, NULL, DRY_FLOAT32, six, sizeof six, 0, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "handle of the team is NULL", dry_team_read(NULL, v, DRY_FLOAT32, six, sizeof six, 0, NULL, NULL));
    OK(dry_variable_close(v));
    OK(dry_variable_open(c, "once", NULL, &v));
    OK(dry_read_box(v, DRY_NO_STEP, DRY_FLOAT64, back, sizeof back, 1, NULL, NULL, NULL));
    REQUIRE(back[0] == -1 && back[1] == 9);
    OK(dry_variable_close(v));

    how.writers = 7; /* more than there are ranks: all */
    OK(dry_team_writer_open(team, &how, &w));
    broken = 5;
    FAILS(DRY_IO, "failed with code 5", dry_begin_step(w, DRY_NO_STEP, 0, NULL));
    FAILS(DRY_IO, "failed with code 5", dry_team_agree(team, DRY_OK));
    broken = 0;
    OK(dry_begin_step(w, DRY_NO_STEP, 0, &begun));
    FAILS(DRY_INVALID_ARGUMENT, "closed with step 1 open", dry_writer_close(w));
    FAILS(DRY_INVALID_ARGUMENT, "handle of a container was given for a team", dry_team_agree((dry_team *)(void *)c, DRY_OK));
    OK(dry_team_close(team));
    FAILS(DRY_INVALID_ARGUMENT, "is closed", dry_refresh(c, NULL)); /* with the team */
    OK(dry_container_close(c));
    OK(dry_team_close(NULL));
    return 0;
}
