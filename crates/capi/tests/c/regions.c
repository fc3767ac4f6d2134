/* Regions: mapped, locked, released, carried to another variable. The container is the program's argument: in a folder,
 * or on a server, which shares its memory. The same source is a program in C++. */
#include "check.h"

enum { N = 256 };

static double *memory_of(dry_region *region, uint64_t expected) {
    void *memory;
    uint64_t size;
    OK(dry_region_memory(region, &memory, &size));
    REQUIRE(size == expected);
    return (double *)memory;
}

static dry_variable *open_variable(dry_container *c, const char *name) {
    dry_variable *v;
    OK(dry_refresh(c, NULL));
    OK(dry_variable_open(c, name, NULL, &v));
    return v;
}

int main(int argc, char **argv) {
    const char *place = argc > 1 ? argv[1] : "regions.dry";
    uint64_t shape[2] = {N, N}, offset[2] = {0, 0}, count[2] = {N, N}, part[2] = {2, 3}, at[2] = {4, 5}, transfer;
    static double back[N * N];
    float narrow[6];
    double *values;
    int32_t reached;
    uint64_t i, begun;
    dry_variable_options options = dry_variable_options_new();
    dry_container *c;
    dry_region *whole, *small, *other, *wrong;
    dry_variable *v;

    OK(dry_create(place, NULL, &c));
    options.type = DRY_FLOAT64;
    options.ndim = 2;
    options.shape = shape;
    options.has_steps = 1;
    OK(dry_create_variable(c, "T", &options));

    /* Half a megabyte per step, more than the size that is copied: a release is transferred while the next step
     * is computed. */
    OK(dry_map(c, "T", 0, 2, NULL, NULL, DRY_MAP_WRITE, &whole));
    for (begun = 0; begun < 4; begun++) {
        OK(dry_lock(whole, DRY_MAP_WRITE, 10.0));
        values = memory_of(whole, sizeof back);
        for (i = 0; i < N * N; i++) {
            values[i] = (double)(begun * 1000000 + i);
        }
        OK(dry_release(whole, DRY_RECEIVED, &transfer));
    }
    OK(dry_transfer_wait(c, transfer, DRY_NODE, 60.0, &reached));
    REQUIRE(reached >= DRY_NODE);
    OK(dry_commit(c, NULL));
    v = open_variable(c, "T");
    OK(dry_read_box(v, 0, DRY_FLOAT64, back, sizeof back, 2, offset, count, NULL));
    for (i = 0; i < N * N; i++) {
        REQUIRE(back[i] == (double)(3 * 1000000 + i));
    }
    OK(dry_variable_close(v));

    /* Locks exclude each other where boxes overlap; a read lock never waits. */
    OK(dry_map(c, "T", 0, 2, at, part, DRY_MAP_READ | DRY_MAP_WRITE, &small));
    REQUIRE(memory_of(small, 48)[0] == (double)(3 * 1000000 + 4 * N + 5));
    OK(dry_lock(whole, DRY_MAP_WRITE, 10.0));
    FAILS(DRY_DEADLINE, "no lock within", dry_lock(small, DRY_MAP_WRITE, 0.0));
    OK(dry_lock(small, DRY_MAP_READ, 0.0));
    OK(dry_unlock(whole));
    OK(dry_lock(small, DRY_MAP_WRITE, 10.0));
    FAILS(DRY_INVALID_ARGUMENT, "is locked", dry_lock(small, DRY_MAP_WRITE, 10.0));
    memory_of(small, 48)[5] = 7;
    OK(dry_release(small, DRY_STABLE, &transfer));
    OK(dry_refresh(c, NULL));
    OK(dry_map(c, "T", 0, 2, at, part, DRY_MAP_READ, &other));
    REQUIRE(memory_of(other, 48)[5] == 7);
    REQUIRE(memory_of(other, 48)[0] == (double)(3 * 1000000 + 4 * N + 5));
    FAILS(DRY_INVALID_ARGUMENT, "to be read", dry_lock(other, DRY_MAP_WRITE, 1.0));
    OK(dry_unmap(other));

    /* A step that was never written is zero. */
    OK(dry_map(c, "T", 9, 2, at, part, DRY_MAP_READ | DRY_MAP_WRITE, &other));
    REQUIRE(memory_of(other, 48)[0] == 0);
    OK(dry_unmap(other));

    /* Committed values, copied to another variable with another precision. */
    OK(dry_transfer(c, "T", "narrow", "cast:dtype=f4", DRY_NO_STEP, &transfer));
    OK(dry_transfer_wait(c, transfer, DRY_NODE, 60.0, NULL));
    OK(dry_commit(c, NULL));
    v = open_variable(c, "narrow");
    OK(dry_read_box(v, 0, DRY_FLOAT32, narrow, sizeof narrow, 2, at, part, NULL));
    REQUIRE(narrow[5] == 7);
    OK(dry_variable_close(v));

    FAILS(DRY_OUT_OF_RANGE, "does not lie", dry_map(c, "T", 0, 2, shape, part, DRY_MAP_WRITE, &wrong));
    FAILS(DRY_INVALID_ARGUMENT, "say which", dry_map(c, "T", DRY_NO_STEP, 2, at, part, DRY_MAP_WRITE, &wrong));
    FAILS(DRY_INVALID_ARGUMENT, "access", dry_map(c, "T", 0, 2, at, part, 4, &wrong));
    FAILS(DRY_NOT_FOUND, "U", dry_map(c, "U", 0, 2, at, part, DRY_MAP_WRITE, &wrong));
    FAILS(DRY_INVALID_ARGUMENT, "level", dry_release(small, 9, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_region_memory(small, NULL, NULL));
    OK(dry_unmap(small));
    OK(dry_unmap(whole));
    OK(dry_unmap(NULL));
    FAILS(DRY_INVALID_ARGUMENT, "closed before", dry_unlock(whole));
    OK(dry_container_close(c));
    return 0;
}
