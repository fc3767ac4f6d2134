/* Containers in an object store: named by URLs, with options from the environment. */
#include "check.h"

int main(void) {
    uint64_t shape[1] = {8}, offset[1] = {0};
    double values[8] = {0, 1, 2, 3, 4, 5, 6, 7}, back[8];
    dry_variable_options options = dry_variable_options_new();
    dry_verify_report verified = dry_verify_report_new();
    dry_axis axes[2] = {{0, 1, 1}, {0, 8, 1}};
    dry_container *c, *again;
    dry_variable *v;
    dry_writer *w;

    OK(dry_create("s3://bucket/from/c.dry", NULL, &c));
    FAILS(DRY_CONFLICT, "already holds a container", dry_create("s3://bucket/from/c.dry", NULL, &again));
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    options.shape = shape;
    options.has_steps = 1;
    OK(dry_create_variable(c, "p", &options));
    OK(dry_writer_open(c, NULL, &w));
    OK(dry_begin_step(w, DRY_NO_STEP, 0, NULL));
    OK(dry_put(w, "p", DRY_FLOAT64, values, sizeof values, 1, offset, shape, NULL));
    OK(dry_end_step(w, NULL));
    OK(dry_writer_close(w));
    OK(dry_commit(c, NULL));
    OK(dry_container_close(c));

    OK(dry_open("s3://bucket/from/c.dry", DRY_READ, &c));
    OK(dry_variable_open(c, "p", NULL, &v));
    OK(dry_read(v, DRY_FLOAT64, back, sizeof back, 2, axes, NULL));
    REQUIRE(memcmp(values, back, sizeof back) == 0);
    OK(dry_verify(c, NULL, NULL, &verified));
    OK(dry_variable_close(v));
    OK(dry_container_close(c));

    FAILS(DRY_NOT_FOUND, "drystone.json", dry_open("s3://bucket/absent.dry", DRY_READ, &c));
    FAILS(DRY_IO, "nowhere", dry_open("s3://nowhere/x.dry", DRY_READ, &c));
    FAILS(DRY_UNSUPPORTED, "not built in", dry_open("ftp://bucket/x.dry", DRY_READ, &c));
    return 0;
}
