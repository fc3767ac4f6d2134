/* Derived variables of every kind, defined by the test that runs this: read in parts and whole, and searched. */
#include "check.h"

#include <math.h>

enum { STEPS = 2, ROWS = 6, COLUMNS = 8, CELLS = ROWS * COLUMNS };

static dry_container *container;

static void read_step(const char *path, int64_t step, float *out) {
    dry_variable *variable;

    OK(dry_variable_open(container, path, NULL, &variable));
    OK(dry_read_box(variable, step, DRY_FLOAT32, out, CELLS * sizeof(float), 2, NULL, NULL, NULL));
    OK(dry_variable_close(variable));
}

static void check_kind(const char *kind) {
    char path[32];
    float u[CELLS], v[CELLS], speed[CELLS], part[2 * 3];
    dry_variable_info info = dry_variable_info_new();
    dry_variable *variable;
    dry_writer *writer;
    dry_axis axes[3] = {{1, 1, 1}, {2, 2, 1}, {1, 3, 2}};
    uint64_t shape[2] = {ROWS, COLUMNS};
    int64_t step;
    int i, j;

    snprintf(path, sizeof path, "speed_%s", kind);
    OK(dry_variable_open(container, path, NULL, &variable));
    OK(dry_variable_describe(variable, &info));
    REQUIRE(info.type == DRY_FLOAT32 && info.ndim == 2 && info.shape[0] == ROWS && info.shape[1] == COLUMNS);
    REQUIRE(info.has_steps && info.step_axis == STEPS);
    for (step = 0; step < STEPS; step++) {
        read_step("u", step, u);
        read_step("v", step, v);
        read_step(path, step, speed);
        for (i = 0; i < CELLS; i++) REQUIRE(speed[i] == sqrtf(u[i] * u[i] + v[i] * v[i]));
    }
    OK(dry_read(variable, DRY_FLOAT32, part, sizeof part, 3, axes, NULL));
    for (i = 0; i < 2; i++)
        for (j = 0; j < 3; j++) REQUIRE(part[3 * i + j] == speed[(2 + i) * COLUMNS + 1 + 2 * j]);
    OK(dry_variable_close(variable));

    OK(dry_writer_open(container, NULL, &writer));
    FAILS(DRY_INVALID_ARGUMENT, "derived", dry_put(writer, path, DRY_FLOAT32, speed, sizeof speed, 2, NULL, shape, NULL));
    OK(dry_writer_close(writer));
}

int main(void) {
    OK(dry_open("derived.dry", DRY_READ_WRITE, &container));
    check_kind("virtual");
    check_kind("bounds");
    check_kind("stored");
    OK(dry_container_close(container));
    return 0;
}
