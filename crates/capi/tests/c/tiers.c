/* Tiers: levels that steps climb, waits, drains, redundancy, and what is refused. */
#include "check.h"

static void write_step(dry_writer *w, int64_t step, int32_t level) {
    double values[8];
    int i;
    for (i = 0; i < 8; i++) values[i] = (double)(10 * step + i);
    OK(dry_begin_step(w, step, 0, NULL));
    OK(dry_put(w, "p", DRY_FLOAT64, values, sizeof values, 1, NULL, (uint64_t[]){8}, NULL));
    OK(dry_end_step_at(w, level, NULL));
}

static int32_t level_of(dry_container *c, uint64_t step) {
    uint64_t steps[8];
    int32_t levels[8];
    size_t count, i;
    OK(dry_levels(c, steps, levels, 8, &count));
    for (i = 0; i < count; i++)
        if (steps[i] == step) return levels[i];
    return -2;
}

int main(void) {
    const char *folders[2] = {"tiers.near", "tiers.far"};
    const uint64_t budgets[2] = {1u << 20, 0};
    uint64_t shape[1] = {8};
    const char *nodes[1] = {"nowhere"};
    size_t count;
    double back[8];
    dry_create_options options = dry_create_options_new();
    dry_variable_options p = dry_variable_options_new();
    dry_writer_options rank = dry_writer_options_new();
    dry_recover_report recovered = dry_recover_report_new();
    dry_axis axes[2] = {{1, 1, 1}, {0, 8, 1}};
    dry_container *c;
    dry_variable *v;
    dry_writer *w;

    setenv("DRYSTONE_DRAIN", "hold", 1);
    options.redundancy = "mirror";
    options.tiers = 1;
    FAILS(DRY_INVALID_ARGUMENT, "mirror", dry_create("tiers.dry", &options, &c));
    options.redundancy = "partner";
    options.tiers = 0;
    FAILS(DRY_INVALID_ARGUMENT, "tiers", dry_create("tiers.dry", &options, &c));
    options.tiers = 2;
    FAILS(DRY_INVALID_ARGUMENT, "tiers is 0 or 1", dry_create("tiers.dry", &options, &c));
    options.tiers = 1;
    OK(dry_create("tiers.dry", &options, &c));
    OK(dry_use_tiers(c, folders, budgets, 2));
    FAILS(DRY_INVALID_ARGUMENT, "has tiers already", dry_use_tiers(c, folders, NULL, 2));
    p.type = DRY_FLOAT64;
    p.ndim = 1;
    p.shape = shape;
    p.has_steps = 1;
    OK(dry_create_variable(c, "p", &p));
    rank.nranks = 1;
    OK(dry_writer_open(c, &rank, &w));
    write_step(w, 0, DRY_NODE);
    REQUIRE(level_of(c, 0) == DRY_NODE);
    FAILS(DRY_DEADLINE, "in time", dry_wait(c, 0, DRY_HOME, 0.0));
    FAILS(DRY_INVALID_ARGUMENT, "not a level", dry_wait(c, 0, 17, -1.0));
    write_step(w, 1, DRY_PARTNER); /* no other node can keep it, so it goes home */
    REQUIRE(level_of(c, 1) >= DRY_HOME);
    write_step(w, 2, DRY_STABLE);
    REQUIRE(level_of(c, 2) == DRY_STABLE);
    OK(dry_drain(c, 60.0));
    OK(dry_wait(c, 0, DRY_STABLE, 60.0));
    OK(dry_levels(c, NULL, NULL, 0, &count));
    REQUIRE(count == 3);
    OK(dry_writer_close(w));
    OK(dry_recover_without(c, DRY_ADOPT_ALL, NULL, 0, nodes, 1, &recovered));
    REQUIRE(recovered.rebuilt == 0);
    OK(dry_variable_open(c, "p", NULL, &v));
    OK(dry_read(v, DRY_FLOAT64, back, sizeof back, 2, axes, NULL));
    REQUIRE(back[7] == 17.0);
    OK(dry_variable_close(v));
    OK(dry_writer_open(c, &rank, &w));
    write_step(w, 3, DRY_NODE);
    REQUIRE(rename("tiers.near", "tiers.hidden") == 0);
    REQUIRE(level_of(c, 3) == DRY_LOST);
    FAILS(DRY_NOT_YET_HOME, "recover() gives them up", dry_wait(c, 3, DRY_HOME, 60.0));
    REQUIRE(rename("tiers.hidden", "tiers.near") == 0);
    REQUIRE(level_of(c, 3) == DRY_NODE);
    OK(dry_writer_close(w));
    OK(dry_container_close(c));
    OK(dry_create("plain.dry", NULL, &c));
    FAILS(DRY_UNSUPPORTED, "without tiers", dry_use_tiers(c, folders, NULL, 2));
    OK(dry_container_close(c));
    return 0;
}
