/* Names, groups, links, attributes, growth, batches, snapshots, and the reports of reads. */
#include "check.h"

static uint64_t snapshot_of(dry_container *container) {
    dry_container_info info = dry_container_info_new();
    OK(dry_container_describe(container, &info));
    return info.snapshot;
}

static void check_attributes(dry_container *c, const char *owner) {
    static const char *const authors[2] = {"Ada", "Emmy"};
    double x = 2.5, y;
    int64_t n = -7, m;
    float matrix[2][2] = {{1, 2}, {3, 4}}, back[2][2];
    uint64_t shape[2] = {2, 2};
    char text[64];
    size_t length, count;
    dry_attribute_info info = dry_attribute_info_new();

    FAILS(DRY_NOT_FOUND, "it has: none", dry_get_attribute(c, owner, "x", DRY_FLOAT64, &y, sizeof y));
    OK(dry_set_text_attribute(c, owner, "units", "K"));
    OK(dry_set_texts_attribute(c, owner, "authors", authors, 2));
    OK(dry_set_attribute(c, owner, "x", DRY_FLOAT64, 0, NULL, &x, sizeof x));
    OK(dry_set_attribute(c, owner, "n", DRY_INT64, 0, NULL, &n, sizeof n));
    OK(dry_set_attribute(c, owner, "matrix", DRY_FLOAT32, 2, shape, matrix, sizeof matrix));
    OK(dry_attribute_names(c, owner, text, sizeof text, &length, &count));
    REQUIRE(count == 5 && strcmp(text, "authors") == 0 && length == strlen("authors matrix n units x ") );

    OK(dry_get_text_attribute(c, owner, "units", text, sizeof text, &length));
    REQUIRE(strcmp(text, "K") == 0 && length == 1);
    OK(dry_get_attribute(c, owner, "x", DRY_FLOAT64, &y, sizeof y));
    OK(dry_get_attribute(c, owner, "n", DRY_INT64, &m, sizeof m));
    REQUIRE(x == y && n == m);
    OK(dry_attribute_describe(c, owner, "matrix", &info));
    REQUIRE(info.type == DRY_FLOAT32 && info.ndim == 2 && info.shape[1] == 2 && info.size == sizeof matrix);
    OK(dry_get_attribute(c, owner, "matrix", DRY_FLOAT32, back, sizeof back));
    REQUIRE(memcmp(matrix, back, sizeof back) == 0);
    OK(dry_attribute_describe(c, owner, "authors", &info));
    REQUIRE(info.type == DRY_STRING && info.ndim == 1 && info.shape[0] == 2 && info.size == 9);
    OK(dry_get_text_attribute(c, owner, "authors", text, sizeof text, &length));
    REQUIRE(length == 9 && memcmp(text, "Ada\0Emmy", 9) == 0);

    FAILS(DRY_INVALID_ARGUMENT, "not float32 of 4", dry_get_attribute(c, owner, "x", DRY_FLOAT32, &y, 4));
    FAILS(DRY_INVALID_ARGUMENT, "is a text", dry_get_attribute(c, owner, "units", DRY_FLOAT64, &y, sizeof y));
    FAILS(DRY_INVALID_ARGUMENT, "is not a text", dry_get_text_attribute(c, owner, "x", text, sizeof text, &length));
    FAILS(DRY_INVALID_ARGUMENT, "7 bytes", dry_set_attribute(c, owner, "x", DRY_FLOAT64, 0, NULL, &x, 7));
    OK(dry_remove_attribute(c, owner, "x"));
    FAILS(DRY_NOT_FOUND, "no attribute \"x\"", dry_get_attribute(c, owner, "x", DRY_FLOAT64, &y, sizeof y));
}

int main(void) {
    static const char *const dims[2] = {"y", "x"};
    uint64_t shape[2] = {DRY_GROWS, 4}, offset[2] = {0, 0}, count[2] = {2, 4}, small[2] = {1, 4};
    uint64_t chunks[2] = {1, 4}, snapshots[32], before;
    int32_t row[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, back[8], fill = -1, kind, changed;
    char text[512];
    size_t length, number;
    dry_axis axes[2] = {{0, 4, 1}, {0, 4, 1}};
    dry_variable_options options = dry_variable_options_new();
    dry_variable_info info = dry_variable_info_new();
    dry_container_info about = dry_container_info_new();
    dry_container *c, *reader, *earlier;
    dry_variable *v;
    dry_writer *w;

    OK(dry_create("schema.dry", NULL, &c));
    REQUIRE(snapshot_of(c) == 0);
    OK(dry_open("schema.dry", DRY_READ, &reader));
    options.type = DRY_INT32;
    options.ndim = 2;
    options.shape = shape;
    options.dims = dims;
    options.chunks = chunks;
    options.chunk_ndim = 2;
    options.fill = &fill;
    options.fill_size = sizeof fill;
    options.access = "plane:z";
    FAILS(DRY_INVALID_ARGUMENT, "z", dry_create_variable(c, "fields/T", &options));
    options.access = "line:x 60%, box:64";
    options.dims_count = 3;
    FAILS(DRY_INVALID_ARGUMENT, "dims has 3 entries, the shape has 2", dry_create_variable(c, "fields/T", &options));
    options.dims_count = 2;

    OK(dry_begin_batch(c));
    OK(dry_create_variable(c, "fields/T", &options));
    OK(dry_create_group(c, "empty"));
    OK(dry_link(c, "T", "fields/T"));
    REQUIRE(snapshot_of(c) == 0);
    OK(dry_end_batch(c, 1));
    REQUIRE(snapshot_of(c) == 1);
    OK(dry_begin_batch(c));
    OK(dry_delete(c, "fields"));
    OK(dry_end_batch(c, 0));
    OK(dry_create_variable(c, "fields/T", &options)); /* the identical one again */
    REQUIRE(snapshot_of(c) == 1);
    options.type = DRY_INT64;
    options.fill_size = 0;
    FAILS(DRY_CONFLICT, "exists with another dtype", dry_create_variable(c, "fields/T", &options));

    OK(dry_kind_of(c, "T", &kind));
    REQUIRE(kind == DRY_VARIABLE);
    OK(dry_kind_of(c, "empty", &kind));
    REQUIRE(kind == DRY_GROUP);
    OK(dry_kind_of(c, "nowhere", &kind));
    REQUIRE(kind == DRY_NOTHING);
    OK(dry_names(c, DRY_VARIABLE, text, sizeof text, &length, &number));
    REQUIRE(number == 2 && length == 11 && memcmp(text, "T\0fields/T", 11) == 0);
    OK(dry_names(c, DRY_GROUP, text, sizeof text, NULL, &number));
    REQUIRE(number == 2 && memcmp(text, "empty\0fields", 13) == 0);

    check_attributes(c, "fields/T");
    check_attributes(c, "empty");
    check_attributes(c, "");

    OK(dry_writer_open(c, NULL, &w));
    OK(dry_put(w, "T", DRY_INT32, row, sizeof row, 2, offset, count, NULL));
    offset[0] = 3;
    OK(dry_put(w, "T", DRY_INT32, row[1], sizeof row[1], 2, offset, small, NULL));
    OK(dry_writer_close(w));
    OK(dry_variable_open(c, "T", NULL, &v));
    OK(dry_variable_describe(v, &info));
    REQUIRE(info.shape[0] == 4 && info.shape[1] == 4 && info.grows == 1 && info.chunk_ndim == 2 && info.chunks[1] == 4);
    REQUIRE(info.fill_size == 4);
    OK(dry_variable_names(v, DRY_NAMES_DIMS, text, sizeof text, &length, &number));
    REQUIRE(number == 2 && memcmp(text, "y\0x", 4) == 0);
    OK(dry_variable_text(v, DRY_TEXT_ACCESS, text, sizeof text, &length));
    REQUIRE(strcmp(text, "line:x 60%, box:64 40%") == 0);
    axes[0].start = 2;
    axes[0].count = 2;
    axes[0].step = 0; /* the same as 1 */
    OK(dry_read(v, DRY_INT32, back, sizeof back, 2, axes, NULL));
    REQUIRE(back[0] == -1 && back[3] == -1 && back[4] == 5 && back[7] == 8);
    OK(dry_explain(v, 2, axes, NULL, 0, &length));
    REQUIRE(length < sizeof text);
    OK(dry_explain(v, 2, axes, text, sizeof text, &length));
    REQUIRE(strlen(text) == length && strstr(text, "T [2:4, 0:4]") != NULL);
    axes[0].start = 3;
    FAILS(DRY_OUT_OF_RANGE, "axis 0, which has 4 cells", dry_read(v, DRY_INT32, back, sizeof back, 2, axes, NULL));
    OK(dry_variable_close(v));

    OK(dry_refresh(reader, &changed));
    REQUIRE(changed == 1 && snapshot_of(reader) == snapshot_of(c));
    OK(dry_refresh(reader, &changed));
    REQUIRE(changed == 0);
    OK(dry_refresh(reader, NULL));
    before = snapshot_of(c);
    OK(dry_resize(c, "T", 2, small));
    OK(dry_rename(c, "fields", "old"));
    FAILS(DRY_NOT_FOUND, "does not exist", dry_variable_open(c, "T", NULL, &v));
    OK(dry_open_snapshot(c, before, &earlier));
    OK(dry_variable_open(earlier, "T", NULL, &v));
    OK(dry_variable_describe(v, &info));
    REQUIRE(info.shape[0] == 4 && info.snapshot == before);
    OK(dry_container_close(earlier));
    OK(dry_read_box(v, DRY_NO_STEP, DRY_INT32, back, 16, 2, offset, small, NULL)); /* the variable goes on */
    REQUIRE(back[0] == 5);
    OK(dry_variable_close(v));
    OK(dry_open_snapshot(c, 1, &earlier));
    FAILS(DRY_INVALID_ARGUMENT, "only be read", dry_create_group(earlier, "g"));
    OK(dry_container_close(earlier));
    OK(dry_snapshots(c, snapshots, 32, &number));
    REQUIRE(number == before + 2 && snapshots[0] == 1 && snapshots[number - 1] == before + 2);
    FAILS(DRY_BUFFER_TOO_SMALL, "snapshots", dry_snapshots(c, snapshots, 1, &number));
    REQUIRE(number == before + 2);

    OK(dry_flush(c, &before));
    OK(dry_container_describe(c, &about));
    REQUIRE(about.snapshot == before && about.writable == 1 && about.durability == DRY_ASYNC && about.time > 0);
    REQUIRE(about.variable_count == 1 && about.step_count == 0);
    OK(dry_container_close(reader));
    OK(dry_container_close(c));
    return 0;
}
