/* Wrong calls: each returns an error that describes it, and has no other effect. */
#include "check.h"

int main(void) {
    uint64_t shape[1] = {4}, nine[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, much[1] = {UINT64_MAX / 2};
    double data[4] = {1, 2, 3, 4};
    int64_t zero[1] = {0}, far[1] = {INT64_MIN};
    char text[64], *odd;
    size_t length, count;
    dry_variable_options options = dry_variable_options_new();
    dry_put_options put = dry_put_options_new();
    dry_read_options read = dry_read_options_new();
    dry_container_info info = dry_container_info_new();
    struct {
        dry_create_options known;
        uint32_t from_the_future;
    } newer = {dry_create_options_new(), 0};
    struct {
        dry_container_info known;
        uint64_t from_the_future;
    } larger;
    dry_axis axes[1] = {{0, 4, 1}};
    dry_container *c, *other;
    dry_variable *v;
    dry_writer *w;
    int local = 0;

    /* Versions. */
    OK(dry_check_abi(DRY_ABI));
    FAILS(DRY_UNSUPPORTED, "interface 7", dry_check_abi(7));
    REQUIRE(strlen(dry_version()) >= 5);
    REQUIRE(strcmp(dry_status_name(DRY_CORRUPT), "DRY_CORRUPT") == 0);
    REQUIRE(strcmp(dry_status_name(-5), "an unknown status") == 0);

    /* Paths and modes. */
    FAILS(DRY_INVALID_ARGUMENT, "the path is NULL", dry_create(NULL, NULL, &c));
    FAILS(DRY_INVALID_ARGUMENT, "no place for the result", dry_create("misuse.dry", NULL, NULL));
    FAILS(DRY_NOT_FOUND, "nothing at", dry_open("misuse.dry", DRY_READ, &c));
    REQUIRE(c == NULL);
    FAILS(DRY_INVALID_ARGUMENT, "not UTF-8", dry_open("\xff", DRY_READ, &c));
    FAILS(DRY_INVALID_ARGUMENT, "not a mode", dry_open("misuse.dry", 3, &c));

    /* Structures of other versions, and never set. */
    memset(&newer, 0, sizeof newer); /* padding, too */
    newer.known.struct_size = sizeof newer;
    newer.known.durability = DRY_MEMORY;
    newer.from_the_future = 1;
    FAILS(DRY_UNSUPPORTED, "newer header", dry_create("misuse.dry", &newer.known, &c));
    newer.from_the_future = 0; /* a newer header that asks for nothing new */
    newer.known.struct_size = 0;
    FAILS(DRY_INVALID_ARGUMENT, "struct_size 0", dry_create("misuse.dry", &newer.known, &c));
    newer.known.struct_size = 1u << 30;
    FAILS(DRY_INVALID_ARGUMENT, "struct_size", dry_create("misuse.dry", &newer.known, &c));
    newer.known.struct_size = sizeof newer;
    newer.known.durability = 17;
    FAILS(DRY_INVALID_ARGUMENT, "not a durability", dry_create("misuse.dry", &newer.known, &c));
    newer.known.durability = DRY_MEMORY;
    OK(dry_create("misuse.dry", &newer.known, &c));
    FAILS(DRY_CONFLICT, "already holds a container", dry_create("misuse.dry", NULL, &other));
    memset(&larger, 0xee, sizeof larger);
    larger.known.struct_size = sizeof larger;
    OK(dry_container_describe(c, &larger.known));
    REQUIRE(larger.from_the_future == 0 && larger.known.struct_size == sizeof larger && larger.known.writable == 1);
    info.struct_size = 12;
    FAILS(DRY_INVALID_ARGUMENT, "struct_size 12", dry_container_describe(c, &info));

    /* Handles. */
    FAILS(DRY_INVALID_ARGUMENT, "the handle of the container is NULL", dry_commit(NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "is not a handle", dry_commit((dry_container *)(void *)&local, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "is not a handle", dry_commit((dry_container *)(uintptr_t)16, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "is not a handle", dry_commit((dry_container *)UINTPTR_MAX, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "handle of a container was given for a writer", dry_end_step((dry_writer *)(void *)c, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "is not a handle", dry_container_close((dry_container *)(void *)text));
    OK(dry_container_close(NULL));
    OK(dry_writer_close(NULL));
    OK(dry_open("misuse.dry", DRY_READ, &other));
    OK(dry_container_close(other));
    FAILS(DRY_INVALID_ARGUMENT, "was closed before", dry_commit(other, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "was closed before", dry_container_close(other));

    /* Variables that cannot be. */
    FAILS(DRY_INVALID_ARGUMENT, "not an element type", dry_create_variable(c, "v", &options));
    FAILS(DRY_INVALID_ARGUMENT, "not an element type", dry_create_variable(c, "v", NULL));
    options.type = DRY_FLOAT64;
    options.ndim = 1;
    FAILS(DRY_INVALID_ARGUMENT, "the shape is NULL", dry_create_variable(c, "v", &options));
    options.ndim = 10;
    options.shape = nine;
    FAILS(DRY_INVALID_ARGUMENT, "10 dimensions", dry_create_variable(c, "v", &options));
    options.ndim = 9;
    FAILS(DRY_INVALID_ARGUMENT, "9 dimensions", dry_create_variable(c, "v", &options));
    options.ndim = 1;
    options.shape = shape;
    options.transform = "squeeze";
    FAILS(DRY_INVALID_ARGUMENT, "squeeze", dry_create_variable(c, "v", &options));
    options.transform = NULL;
    options.fill = data;
    options.fill_size = 3;
    FAILS(DRY_INVALID_ARGUMENT, "fill value has 3 bytes", dry_create_variable(c, "v", &options));
    options.fill_size = 0;
    options.type = DRY_RECORD;
    FAILS(DRY_INVALID_ARGUMENT, "needs a record", dry_create_variable(c, "v", &options));
    options.type = DRY_BYTES;
    FAILS(DRY_INVALID_ARGUMENT, "need a length", dry_create_variable(c, "v", &options));
    options.type = DRY_FLOAT64;
    FAILS(DRY_INVALID_ARGUMENT, "cannot name", dry_create_variable(c, "a//b", &options));
    OK(dry_create_variable(c, "v", &options));
    FAILS(DRY_INVALID_ARGUMENT, "no batch", dry_end_batch(c, 1));
    FAILS(DRY_INVALID_ARGUMENT, "\"v\" has the empty name", dry_set_text_attribute(c, "v", "", "K"));
    FAILS(DRY_INVALID_ARGUMENT, "the container has the empty name", dry_set_attribute(c, "", "", DRY_FLOAT64, 0, NULL, data, 8));

    /* Memories that do not fit. */
    OK(dry_writer_open(c, NULL, &w));
    FAILS(DRY_INVALID_ARGUMENT, "the memory has 24 bytes", dry_put(w, "v", DRY_FLOAT64, data, 24, 1, NULL, shape, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "the memory is NULL", dry_put(w, "v", DRY_FLOAT64, NULL, 32, 1, NULL, shape, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "the count is NULL", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, NULL, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "too large", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, NULL, much, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "leaves the variable's shape", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, shape, shape, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "0 dimensions", dry_put(w, "v", DRY_FLOAT64, data, 32, 0, NULL, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "float64", dry_put(w, "v", DRY_FLOAT32, data, 32, 1, NULL, shape, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "99 is not an element type", dry_put(w, "v", 99, data, 32, 1, NULL, shape, NULL));
    FAILS(DRY_NOT_FOUND, "there are: v", dry_put(w, "w", DRY_FLOAT64, data, 32, 1, NULL, shape, NULL));
    put.reserved = 1;
    FAILS(DRY_UNSUPPORTED, "not set to 0", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, NULL, shape, &put));
    put.reserved = 0;
    put.item_size = 4;
    FAILS(DRY_INVALID_ARGUMENT, "not 4", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, NULL, shape, &put));
    put.item_size = 8;
    put.strides = far;
    FAILS(DRY_INVALID_ARGUMENT, "address space", dry_put(w, "v", DRY_FLOAT64, data, 32, 1, NULL, shape, &put));
    put.strides = zero; /* one value, four times */
    OK(dry_put(w, "v", DRY_FLOAT64, data, 8, 1, NULL, shape, &put));
    OK(dry_writer_close(w));

    OK(dry_variable_open(c, "v", NULL, &v));
    OK(dry_read(v, DRY_FLOAT64, data, sizeof data, 1, axes, NULL));
    REQUIRE(data[0] == 1 && data[3] == 1);
    read.strides = zero;
    FAILS(DRY_INVALID_ARGUMENT, "share bytes", dry_read(v, DRY_FLOAT64, data, sizeof data, 1, axes, &read));
    FAILS(DRY_INVALID_ARGUMENT, "has 31 bytes", dry_read(v, DRY_FLOAT64, data, 31, 1, axes, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "the axes is NULL", dry_read(v, DRY_FLOAT64, data, sizeof data, 1, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "0 axes", dry_read(v, DRY_FLOAT64, data, sizeof data, 0, NULL, NULL));
    axes[0].count = UINT64_MAX;
    FAILS(DRY_INVALID_ARGUMENT, "63-bit", dry_read(v, DRY_FLOAT64, data, sizeof data, 1, axes, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "no steps", dry_read_box(v, 0, DRY_FLOAT64, data, sizeof data, 1, NULL, NULL, NULL));
    odd = (char *)shape + 1;
    FAILS(DRY_INVALID_ARGUMENT, "aligned",
          dry_read_box(v, DRY_NO_STEP, DRY_FLOAT64, data, sizeof data, 1, (uint64_t *)(void *)odd, NULL, NULL));
    FAILS(DRY_BUFFER_TOO_SMALL, "8 are needed", dry_variable_text(v, DRY_TEXT_TYPE, text, 7, &length));
    REQUIRE(length == 7);
    OK(dry_variable_text(v, DRY_TEXT_TYPE, text, 8, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "is NULL", dry_variable_text(v, DRY_TEXT_TYPE, NULL, 8, &length));
    FAILS(DRY_INVALID_ARGUMENT, "is NULL", dry_variable_text(v, DRY_TEXT_TYPE, NULL, 0, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "struct_size 7", dry_blocks(v, DRY_NO_STEP, (dry_block *)(void *)nine, 7, 1, &count));

    /* A message can be copied, and asking does not change it. */
    OK(dry_error_message(NULL, 0, &length));
    REQUIRE(length == strlen(dry_last_error()) && length > 0);
    REQUIRE(dry_error_message(text, 2, &length) == DRY_BUFFER_TOO_SMALL);
    REQUIRE(strstr(dry_last_error(), "struct_size 7") != NULL);
    REQUIRE(dry_set_error(DRY_OK, "nothing") == DRY_OK && strstr(dry_last_error(), "struct_size 7") != NULL);
    FAILS(DRY_IO, "a disk of mine", dry_set_error(DRY_IO, "a disk of mine"));
    FAILS(DRY_PERMISSION, "not for you", dry_set_error(DRY_PERMISSION, "not for you"));
    REQUIRE(strcmp(dry_status_name(DRY_PERMISSION), "DRY_PERMISSION") == 0);
    REQUIRE(strcmp(dry_status_name(DRY_DEADLINE), "DRY_DEADLINE") == 0);
    REQUIRE(strcmp(dry_status_name(DRY_NOT_YET_HOME), "DRY_NOT_YET_HOME") == 0);
    REQUIRE(dry_set_error(DRY_IO, NULL) == DRY_IO && dry_last_error()[0] == 0);

    /* A container that is closed under its variables and writers. */
    OK(dry_writer_open(c, NULL, &w));
    OK(dry_container_close(c));
    axes[0].count = 4;
    data[3] = 4;
    OK(dry_put(w, "v", DRY_FLOAT64, data, sizeof data, 1, NULL, shape, NULL)); /* "the container is closed", it said */
    OK(dry_read(v, DRY_FLOAT64, data, sizeof data, 1, axes, NULL));
    OK(dry_variable_close(v));
    FAILS(DRY_INVALID_ARGUMENT, "closed before", dry_variable_close(v));
    OK(dry_writer_close(w));

    /* To read only. */
    OK(dry_open("misuse.dry", DRY_READ, &c));
    OK(dry_variable_open(c, "v", NULL, &v));
    OK(dry_read(v, DRY_FLOAT64, data, sizeof data, 1, axes, NULL));
    REQUIRE(data[3] == 4);
    OK(dry_variable_close(v));
    FAILS(DRY_INVALID_ARGUMENT, "for reading only", dry_writer_open(c, NULL, &w));
    FAILS(DRY_INVALID_ARGUMENT, "for reading only", dry_create_group(c, "g"));
    OK(dry_container_close(c));
    return 0;
}
