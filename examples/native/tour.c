/* Writes two steps of a field, block by block, or reads a container of any of the tours:  tour write|read CONTAINER */
#include <drystone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NZ = 8, NY = 6, NX = 5, STEPS = 2 };

static void ok(dry_status status) {
    if (status != DRY_OK) {
        fprintf(stderr, "tour: %s: %s\n", dry_status_name(status), dry_last_error());
        exit(1);
    }
}

static double value(int step, int z, int y, int x) { return 1000 * step + 100 * z + 10 * y + x; }

static void write_all(const char *path) {
    static const char *const dims[3] = {"z", "y", "x"};
    uint64_t shape[3] = {NZ, NY, NX}, offset[3] = {0, 0, 0}, count[3] = {2, NY, NX};
    double block[2][NY][NX], interval = 0.5;
    dry_variable_options options = dry_variable_options_new();
    dry_writer_options ranks = dry_writer_options_new();
    dry_container *container;
    dry_writer *writer;
    int step, z, y, x;

    ok(dry_create(path, NULL, &container));
    options.type = DRY_FLOAT64;
    options.ndim = 3;
    options.shape = shape;
    options.dims = dims;
    options.has_steps = 1;
    options.transform = "shuffle,zstd:1";
    ok(dry_create_variable(container, "temperature", &options));
    ok(dry_set_text_attribute(container, "temperature", "units", "K"));
    ok(dry_set_attribute(container, "temperature", "interval", DRY_FLOAT64, 0, NULL, &interval, sizeof interval));

    ranks.nranks = 1; /* the only rank, 0: ending a step commits it */
    ok(dry_writer_open(container, &ranks, &writer));
    for (step = 0; step < STEPS; step++) {
        ok(dry_begin_step(writer, DRY_NO_STEP, 0, NULL));
        for (offset[0] = 0; offset[0] < NZ; offset[0] += 2) {
            for (z = 0; z < 2; z++)
                for (y = 0; y < NY; y++)
                    for (x = 0; x < NX; x++) block[z][y][x] = value(step, (int)offset[0] + z, y, x);
            ok(dry_put(writer, "temperature", DRY_FLOAT64, block, sizeof block, 3, offset, count, NULL));
        }
        ok(dry_end_step(writer, NULL));
    }
    ok(dry_writer_close(writer));
    ok(dry_container_close(container));
}

static void expect(double found, double expected, const char *what) {
    if (found != expected) {
        fprintf(stderr, "tour: %s is %g, not %g\n", what, found, expected);
        exit(1);
    }
}

static void read_all(const char *path) {
    double all[NZ][NY][NX], plane[NZ][NX], through_time[STEPS], interval;
    uint64_t offset[3] = {0, 3, 0}, count[3] = {NZ, 1, NX};
    dry_axis point[4] = {{0, STEPS, 1}, {7, 1, 1}, {5, 1, 1}, {4, 1, 1}};
    char units[8];
    dry_container *container;
    dry_variable *temperature;
    int step, z, y, x;

    ok(dry_open(path, DRY_READ, &container));
    ok(dry_variable_open(container, "temperature", NULL, &temperature));
    ok(dry_get_text_attribute(container, "temperature", "units", units, sizeof units, NULL));
    ok(dry_get_attribute(container, "temperature", "interval", DRY_FLOAT64, &interval, sizeof interval));
    expect(strcmp(units, "K"), 0, "the difference between units and K");
    expect(interval, 0.5, "interval");
    for (step = 0; step < STEPS; step++) {
        ok(dry_read_box(temperature, step, DRY_FLOAT64, all, sizeof all, 3, NULL, NULL, NULL));
        for (z = 0; z < NZ; z++)
            for (y = 0; y < NY; y++)
                for (x = 0; x < NX; x++) expect(all[z][y][x], value(step, z, y, x), "a cell");
    }
    ok(dry_read_box(temperature, 1, DRY_FLOAT64, plane, sizeof plane, 3, offset, count, NULL));
    expect(plane[2][4], value(1, 2, 3, 4), "a cell of the plane y = 3");
    ok(dry_read(temperature, DRY_FLOAT64, through_time, sizeof through_time, 4, point, NULL));
    expect(through_time[1] - through_time[0], 1000, "the change of the last cell");
    ok(dry_variable_close(temperature));
    ok(dry_container_close(container));
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "write") == 0) write_all(argv[2]);
    else if (argc == 3 && strcmp(argv[1], "read") == 0) read_all(argv[2]);
    else {
        fprintf(stderr, "usage: %s write|read CONTAINER\n", argv[0]);
        return 2;
    }
    return 0;
}
