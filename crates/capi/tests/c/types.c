/* Values of every element type, dense and strided, whole and in parts, records and their members, strings. */
#include "check.h"

#include <math.h>

static dry_container *container;

/* Puts and reads six elements of a type, whose bytes count up. */
static void check_number(dry_type type, size_t item) {
    char name[32], text[64];
    unsigned char out[6 * 16], back[6 * 16], fill[16];
    uint64_t shape[2] = {2, 3}, all = 6 * item;
    size_t i, length;
    dry_variable_options options = dry_variable_options_new();
    dry_variable_info info = dry_variable_info_new();
    dry_variable *variable;
    dry_writer *writer;

    snprintf(name, sizeof name, "numbers/%d", (int)type);
    for (i = 0; i < sizeof out; i++) out[i] = type == DRY_BOOL ? i % 2 : (unsigned char)(i * 37 + 1);
    memset(fill, type == DRY_BOOL ? 1 : 3, sizeof fill);
    options.type = type;
    options.ndim = 2;
    options.shape = shape;
    options.fill = fill;
    options.fill_size = item;
    OK(dry_create_variable(container, name, &options));
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put(writer, name, type, out, all, 2, NULL, shape, NULL));
    OK(dry_writer_close(writer));

    OK(dry_variable_open(container, name, NULL, &variable));
    OK(dry_variable_describe(variable, &info));
    REQUIRE(info.type == type && info.item_size == item && info.ndim == 2 && info.shape[1] == 3 && !info.has_steps);
    OK(dry_variable_text(variable, DRY_TEXT_TYPE, text, sizeof text, &length));
    REQUIRE(length == strlen(text) && length > 0);
    OK(dry_read_box(variable, DRY_NO_STEP, type, back, all, 2, NULL, NULL, NULL));
    REQUIRE(memcmp(out, back, all) == 0);
    OK(dry_variable_fill(variable, back, sizeof back, &length));
    REQUIRE(length == item && memcmp(back, fill, item) == 0);
    FAILS(DRY_INVALID_ARGUMENT, "convert it first",
          dry_read_box(variable, DRY_NO_STEP, type == DRY_INT8 ? DRY_UINT8 : DRY_INT8, back, all, 2, NULL, NULL, NULL));
    OK(dry_variable_close(variable));
}

/* Any memory layout: transposed, backwards, with holes. */
static void check_strides(void) {
    double memory[4][5], back[3][4];
    uint64_t shape[2] = {3, 4}, part[2] = {2, 2}, offset[2] = {1, 1};
    int64_t transposed[2] = {sizeof(double), 5 * sizeof(double)};
    int64_t backwards[2] = {-(int64_t)(4 * sizeof(double)), -(int64_t)sizeof(double)};
    int i, j;
    dry_variable_options options = dry_variable_options_new();
    dry_put_options put = dry_put_options_new();
    dry_read_options read = dry_read_options_new();
    dry_read_report cost = dry_read_report_new();
    dry_axis axes[2] = {{2, 2, -2}, {0, 2, 3}};
    dry_variable *variable;
    dry_writer *writer;

    for (i = 0; i < 4; i++)
        for (j = 0; j < 5; j++) memory[i][j] = 10 * i + j;
    options.type = DRY_FLOAT64;
    options.ndim = 2;
    options.shape = shape;
    options.transform = "shuffle,zstd:1";
    OK(dry_create_variable(container, "strided", &options));
    OK(dry_writer_open(container, NULL, &writer));
    put.strides = transposed;
    OK(dry_put(writer, "strided", DRY_FLOAT64, memory, sizeof memory, 2, NULL, shape, &put));
    OK(dry_writer_close(writer));
    OK(dry_variable_open(container, "/strided/", NULL, &variable));

    OK(dry_read_box(variable, DRY_NO_STEP, DRY_FLOAT64, back, sizeof back, 2, NULL, NULL, NULL));
    for (i = 0; i < 3; i++)
        for (j = 0; j < 4; j++) REQUIRE(back[i][j] == 10 * j + i);

    read.strides = backwards;
    read.report = &cost;
    OK(dry_read_box(variable, DRY_NO_STEP, DRY_FLOAT64, &back[2][3], sizeof back, 2, NULL, shape, &read));
    for (i = 0; i < 3; i++)
        for (j = 0; j < 4; j++) REQUIRE(back[2 - i][3 - j] == 10 * j + i);
    REQUIRE(cost.wanted_bytes == sizeof back && cost.requests >= 1 && cost.blocks == 1);

    memset(back, 0, sizeof back);
    OK(dry_read_box(variable, DRY_NO_STEP, DRY_FLOAT64, back, 4 * sizeof(double), 2, offset, part, NULL));
    REQUIRE((&back[0][0])[0] == 11 && (&back[0][0])[1] == 21 && (&back[0][0])[3] == 22 && (&back[0][0])[4] == 0);

    read = dry_read_options_new();
    read.level = 1;
    FAILS(DRY_INVALID_ARGUMENT, "accuracy does not ask", dry_read(variable, DRY_FLOAT64, back, sizeof back, 2, axes, &read));
    read.level = 0;
    read.accuracy = DRY_WITHIN;
    read.max_error = -1;
    FAILS(DRY_INVALID_ARGUMENT, "-1", dry_read(variable, DRY_FLOAT64, back, sizeof back, 2, axes, &read));
    read.max_error = 1e-3; /* this transform has no levels: the values are exact */
    OK(dry_read(variable, DRY_FLOAT64, back, sizeof back, 2, axes, &read));
    REQUIRE((&back[0][0])[0] == 2 && (&back[0][0])[1] == 32 && (&back[0][0])[2] == 0 && (&back[0][0])[3] == 30);
    OK(dry_variable_close(variable));
}

struct particle {
    uint32_t id;
    double position[3];
    struct {
        float mass;
        char name[6];
    } body;
};

static void check_records(void) {
    static const uint64_t three[1] = {3};
    dry_member inner[2], members[3];
    dry_record body, particle;
    struct particle out[4], back[4];
    double positions[4][3];
    float masses[4];
    uint64_t shape[1] = {4};
    size_t count, length, i;
    char names[64];
    dry_variable_options options = dry_variable_options_new();
    dry_variable_info info = dry_variable_info_new();
    dry_put_options put = dry_put_options_new();
    dry_read_options read = dry_read_options_new();
    dry_variable *variable;
    dry_writer *writer;

    memset(inner, 0, sizeof inner);
    inner[0].name = "mass";
    inner[0].type = DRY_FLOAT32;
    inner[1].name = "name";
    inner[1].type = DRY_BYTES;
    inner[1].length = 6;
    inner[1].offset = offsetof(struct particle, body.name) - offsetof(struct particle, body);
    body = dry_record_new(sizeof out[0].body, inner, 2);
    memset(members, 0, sizeof members);
    members[0].name = "id";
    members[0].type = DRY_UINT32;
    members[0].offset = offsetof(struct particle, id);
    members[1].name = "position";
    members[1].type = DRY_FLOAT64;
    members[1].offset = offsetof(struct particle, position);
    members[1].ndim = 1;
    members[1].shape = three;
    members[2].name = "body";
    members[2].type = DRY_RECORD;
    members[2].record = &body;
    members[2].offset = offsetof(struct particle, body);
    particle = dry_record_new(sizeof(struct particle), members, 3);

    memset(out, 0, sizeof out);
    for (i = 0; i < 4; i++) {
        out[i].id = (uint32_t)i + 1;
        out[i].position[0] = (double)i;
        out[i].position[2] = 0.5 * (double)i;
        out[i].body.mass = 2.5f * (float)i;
        strcpy(out[i].body.name, "ab");
    }
    options.type = DRY_RECORD;
    options.record = &particle;
    options.ndim = 1;
    options.shape = shape;
    OK(dry_create_variable(container, "particles", &options));
    OK(dry_writer_open(container, NULL, &writer));
    FAILS(DRY_INVALID_ARGUMENT, "set item_size",
          dry_put(writer, "particles", DRY_RECORD, out, sizeof out, 1, NULL, shape, NULL));
    put.item_size = sizeof(struct particle);
    OK(dry_put(writer, "particles", DRY_RECORD, out, sizeof out, 1, NULL, shape, &put));
    for (i = 0; i < 4; i++) masses[i] = out[i].body.mass = 7.0f;
    put = dry_put_options_new();
    put.member = "body.mass";
    OK(dry_put(writer, "particles", DRY_FLOAT32, masses, sizeof masses, 1, NULL, shape, &put));
    OK(dry_writer_close(writer));

    OK(dry_variable_open(container, "particles", NULL, &variable));
    OK(dry_variable_names(variable, DRY_NAMES_MEMBERS, names, sizeof names, &length, &count));
    REQUIRE(count == 3 && strcmp(names, "id") == 0 && strcmp(names + 3, "position") == 0);
    memset(back, 0, sizeof back);
    read.item_size = sizeof(struct particle);
    OK(dry_read_box(variable, DRY_NO_STEP, DRY_RECORD, back, sizeof back, 1, NULL, NULL, &read));
    for (i = 0; i < 4; i++) {
        REQUIRE(back[i].id == out[i].id && back[i].position[2] == out[i].position[2]);
        REQUIRE(back[i].body.mass == 7.0f && strcmp(back[i].body.name, "ab") == 0);
    }
    OK(dry_variable_close(variable));

    OK(dry_variable_open(container, "particles", "position", &variable));
    OK(dry_variable_describe(variable, &info));
    REQUIRE(info.type == DRY_FLOAT64 && info.member_ndim == 1 && info.member_shape[0] == 3 && info.item_size == 24);
    read.item_size = sizeof positions[0];
    OK(dry_read_box(variable, DRY_NO_STEP, DRY_FLOAT64, positions, sizeof positions, 1, NULL, NULL, &read));
    REQUIRE(positions[3][0] == 3.0 && positions[3][2] == 1.5);
    OK(dry_variable_close(variable));
    FAILS(DRY_NOT_FOUND, "no member \"speed\"", dry_variable_open(container, "particles", "speed", &variable));
    REQUIRE(variable == NULL);

    inner[0].type = DRY_RECORD; /* a record that holds itself */
    inner[0].record = &body;
    FAILS(DRY_INVALID_ARGUMENT, "nested deeper", dry_create_variable(container, "endless", &options));
}

static void check_strings(void) {
    static const char *const words[4] = {"wall", "", "stein", "l\xc3\xa1mh"};
    static const char *const broken[4] = {"a", "b", "\xff", "d"};
    static const char *const missing[4] = {"a", "b", NULL, "d"};
    uint64_t shape[2] = {2, 2}, ends[4], lengths[4] = {1, 0, 2, 5};
    char text[32];
    size_t length;
    dry_axis axes[2] = {{0, 2, 1}, {0, 2, 1}};
    dry_variable_options options = dry_variable_options_new();
    dry_variable *variable;
    dry_writer *writer;

    options.type = DRY_STRING;
    options.ndim = 2;
    options.shape = shape;
    OK(dry_create_variable(container, "words", &options));
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put_strings(writer, "words", words, NULL, 2, NULL, shape));
    FAILS(DRY_INVALID_ARGUMENT, "not UTF-8", dry_put_strings(writer, "words", broken, NULL, 2, NULL, shape));
    FAILS(DRY_INVALID_ARGUMENT, "text 2 of the block is NULL",
          dry_put_strings(writer, "words", missing, NULL, 2, NULL, shape));
    FAILS(DRY_INVALID_ARGUMENT, "dry_put_strings",
          dry_put(writer, "words", DRY_STRING, text, sizeof text, 2, NULL, shape, NULL));
    OK(dry_writer_close(writer));
    OK(dry_variable_open(container, "words", NULL, &variable));
    FAILS(DRY_BUFFER_TOO_SMALL, "14 are needed", dry_read_strings(variable, 2, axes, text, 3, &length, ends, 4));
    REQUIRE(length == 14);
    OK(dry_read_strings(variable, 2, axes, text, sizeof text, &length, ends, 4));
    REQUIRE(length == 14 && memcmp(text, "wallsteinl\xc3\xa1mh", 14) == 0);
    REQUIRE(ends[0] == 4 && ends[1] == 4 && ends[2] == 9 && ends[3] == 14);
    OK(dry_read_block_strings(variable, DRY_NO_STEP, 0, text, sizeof text, &length, NULL, 0));
    REQUIRE(length == 14);
    OK(dry_variable_close(variable));
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put_strings(writer, "words", words, lengths, 2, NULL, shape));
    OK(dry_writer_close(writer));
    OK(dry_variable_open(container, "words", NULL, &variable));
    OK(dry_read_strings(variable, 2, axes, text, sizeof text, &length, ends, 4));
    REQUIRE(length == 8 && memcmp(text, "wstl\xc3\xa1mh", 8) == 0);
    OK(dry_variable_close(variable));
}

/* Lists of numbers: the bytes of each, with a length. */
static void check_lists(void) {
    float values[4] = {1.5f, 2.5f, 3.5f, 4.5f}, back[4];
    const char *lists[3] = {(const char *)values, NULL, (const char *)(values + 2)};
    float five[5];
    uint64_t shape[1] = {3}, ends[3], lengths[3] = {8, 0, 8}, wrong[3] = {8, 0, 7};
    uint64_t counts[1], one[1] = {1}, place[1] = {1}, huge[3] = {UINT64_MAX / 4, 1, 1};
    dry_axis axes[1] = {{0, 3, 1}};
    size_t length;
    dry_variable_options options = dry_variable_options_new();
    dry_variable_info info = dry_variable_info_new();
    dry_variable *variable;
    dry_writer *writer;

    options.type = DRY_RAGGED;
    options.ndim = 1;
    options.shape = shape;
    FAILS(DRY_INVALID_ARGUMENT, "DRY_RAGGED needs the type", dry_create_variable(container, "lists", &options));
    options.length = DRY_STRING;
    FAILS(DRY_INVALID_ARGUMENT, "DRY_RAGGED needs the type", dry_create_variable(container, "lists", &options));
    options.length = DRY_FLOAT32;
    OK(dry_create_variable(container, "lists", &options));
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put_strings(writer, "lists", lists, lengths, 1, NULL, shape));
    FAILS(DRY_INVALID_ARGUMENT, "list 2 of the block", dry_put_strings(writer, "lists", lists, wrong, 1, NULL, shape));
    counts[0] = 1;
    OK(dry_put_lists(writer, "lists", DRY_FLOAT32, values, counts, 1, place, one));
    FAILS(DRY_INVALID_ARGUMENT, "has lists of float32, the memory is said to have float64",
          dry_put_lists(writer, "lists", DRY_FLOAT64, values, counts, 1, place, one));
    FAILS(DRY_INVALID_ARGUMENT, "the lengths are too large",
          dry_put_lists(writer, "lists", DRY_FLOAT32, values, huge, 1, NULL, shape));
    FAILS(DRY_INVALID_ARGUMENT, "the numbers is NULL", dry_put_lists(writer, "lists", DRY_FLOAT32, NULL, counts, 1, place, one));
    OK(dry_writer_close(writer));
    OK(dry_variable_open(container, "lists", NULL, &variable));
    FAILS(DRY_INVALID_ARGUMENT, "said to have int32",
          dry_read_lists(variable, DRY_INT32, 1, axes, NULL, 0, &length, NULL, 0));
    OK(dry_read_lists(variable, DRY_FLOAT32, 1, axes, NULL, 0, &length, NULL, 0));
    REQUIRE(length == 5);
    FAILS(DRY_BUFFER_TOO_SMALL, "the numbers", dry_read_lists(variable, DRY_FLOAT32, 1, axes, five, 4, &length, NULL, 0));
    OK(dry_read_lists(variable, DRY_FLOAT32, 1, axes, five, 5, &length, ends, 3));
    REQUIRE(ends[0] == 2 && ends[1] == 1 && ends[2] == 2);
    REQUIRE(memcmp(five, values, 8) == 0 && five[2] == values[0] && memcmp(five + 3, values + 2, 8) == 0);
    /* An empty list again, which is what the rest expects. */
    counts[0] = 0;
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put_lists(writer, "lists", DRY_FLOAT32, NULL, counts, 1, place, one));
    OK(dry_writer_close(writer));
    OK(dry_variable_close(variable));
    OK(dry_variable_open(container, "lists", NULL, &variable));
    OK(dry_variable_describe(variable, &info));
    REQUIRE(info.type == DRY_RAGGED && info.length == DRY_FLOAT32);
    OK(dry_read_strings(variable, 1, axes, (char *)back, sizeof back, &length, ends, 3));
    REQUIRE(length == sizeof back && memcmp(back, values, sizeof back) == 0);
    REQUIRE(ends[0] == 8 && ends[1] == 8 && ends[2] == 16);
    OK(dry_variable_close(variable));
}

static void check_local(void) {
    float out[5] = {1, 2, 3, 4, NAN}, back[5];
    uint64_t shape[1] = {5};
    size_t count;
    dry_block block;
    dry_variable_options options = dry_variable_options_new();
    dry_variable *variable;
    dry_writer *writer;
    double low;

    options.type = DRY_FLOAT32;
    options.local = 1;
    OK(dry_create_variable(container, "local", &options));
    OK(dry_writer_open(container, NULL, &writer));
    OK(dry_put(writer, "local", DRY_FLOAT32, out, sizeof out, 1, NULL, shape, NULL));
    OK(dry_writer_close(writer));
    OK(dry_variable_open(container, "local", NULL, &variable));
    OK(dry_blocks(variable, DRY_NO_STEP, NULL, 0, 0, &count));
    REQUIRE(count == 1);
    OK(dry_blocks(variable, DRY_NO_STEP, &block, sizeof block, 1, &count));
    REQUIRE(block.struct_size == sizeof block && block.ndim == 1 && block.count[0] == 5 && block.step == DRY_NO_STEP);
    REQUIRE(block.has_min_max && block.nans == 1);
    memcpy(&low, &block.min, sizeof low);
    REQUIRE(low == 1.0);
    OK(dry_read_block(variable, DRY_NO_STEP, 0, DRY_FLOAT32, back, sizeof back, 1, block.count, NULL));
    REQUIRE(memcmp(out, back, sizeof out) == 0);
    FAILS(DRY_NOT_FOUND, "no block 1",
          dry_read_block(variable, DRY_NO_STEP, 1, DRY_FLOAT32, back, sizeof back, 1, block.count, NULL));
    OK(dry_variable_close(variable));
}

/* Texts and lists in records, which C puts and reads by their members. */
static void check_members_of_any_length(void) {
    static const char *const names[2] = {"wall", "l\xc3\xa1mh"}, *const words[4] = {"a", "", "stein", "b"};
    static const int16_t hits[3] = {-1, 2, 300};
    const uint64_t shape[1] = {3}, two[1] = {2}, one[1] = {1}, lengths[2] = {1, 2}, many[1] = {2};
    int32_t ids[2] = {7, 8}, id;
    char text[32];
    int16_t numbers[3];
    uint64_t ends[6];
    size_t length;
    dry_axis axes[1] = {{0, 3, 1}};
    dry_member members[4];
    dry_record event;
    dry_variable_options options = dry_variable_options_new();
    dry_put_options put = dry_put_options_new();
    dry_variable *variable;
    dry_writer *writer;

    memset(members, 0, sizeof members);
    members[0].name = "id";
    members[0].type = DRY_INT32;
    members[1].name = "name"; /* a text takes 16 bytes of the record */
    members[1].type = DRY_STRING;
    members[1].offset = 4;
    members[2].name = "words";
    members[2].type = DRY_STRING;
    members[2].offset = 20;
    members[2].ndim = 1;
    members[2].shape = many;
    members[3].name = "hits";
    members[3].type = DRY_RAGGED;
    members[3].length = DRY_INT16;
    members[3].offset = 52;
    event = dry_record_new(68, members, 4);
    options.type = DRY_RECORD;
    options.record = &event;
    options.ndim = 1;
    options.shape = shape;
    OK(dry_create_variable(container, "events", &options));
    OK(dry_writer_open(container, NULL, &writer));
    put.member = "id";
    OK(dry_put(writer, "events", DRY_INT32, ids, sizeof ids, 1, one, two, &put));
    OK(dry_put_member_strings(writer, "events", "name", names, NULL, 2, 1, one, two));
    OK(dry_put_member_strings(writer, "events", "words", words, NULL, 4, 1, one, two));
    OK(dry_put_member_strings(writer, "events", "words[0]", names, NULL, 1, 1, two, one));
    OK(dry_put_member_lists(writer, "events", "hits", DRY_INT16, hits, lengths, 2, 1, one, two));
    FAILS(DRY_INVALID_ARGUMENT, "", dry_put_member_strings(writer, "events", "words", words, NULL, 3, 1, one, two));
    FAILS(DRY_INVALID_ARGUMENT, "holds int32, not strings",
          dry_put_member_strings(writer, "events", "id", names, NULL, 2, 1, one, two));
    FAILS(DRY_NOT_FOUND, "no member \"nam\"",
          dry_put_member_strings(writer, "events", "nam", names, NULL, 2, 1, one, two));
    FAILS(DRY_INVALID_ARGUMENT, "has lists of int16, the memory is said to have int32",
          dry_put_member_lists(writer, "events", "hits", DRY_INT32, hits, lengths, 2, 1, one, two));
    FAILS(DRY_INVALID_ARGUMENT, "the member is NULL",
          dry_put_member_strings(writer, "events", NULL, names, NULL, 2, 1, one, two));
    OK(dry_writer_close(writer));

    OK(dry_variable_open(container, "events", "name", &variable));
    OK(dry_read_strings(variable, 1, axes, text, sizeof text, &length, ends, 3));
    REQUIRE(length == 9 && memcmp(text, "walll\xc3\xa1mh", 9) == 0 && ends[0] == 0 && ends[1] == 4 && ends[2] == 9);
    OK(dry_variable_close(variable));
    OK(dry_variable_open(container, "events", "words", &variable));
    OK(dry_read_strings(variable, 1, axes, text, sizeof text, &length, ends, 6));
    REQUIRE(length == 6 && memcmp(text, "awallb", 6) == 0);
    OK(dry_variable_close(variable));
    OK(dry_variable_open(container, "events", "hits", &variable));
    OK(dry_read_lists(variable, DRY_INT16, 1, axes, numbers, 3, &length, ends, 3));
    REQUIRE(length == 3 && memcmp(numbers, hits, sizeof hits) == 0 && ends[0] == 0 && ends[1] == 1 && ends[2] == 2);
    OK(dry_variable_close(variable));
    OK(dry_variable_open(container, "events", "id", &variable));
    axes[0].start = 2;
    axes[0].count = 1;
    OK(dry_read(variable, DRY_INT32, &id, sizeof id, 1, axes, NULL));
    REQUIRE(id == 8);
    OK(dry_variable_close(variable));
}

int main(void) {
    static const size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
    dry_create_options options = dry_create_options_new();
    dry_type type;

    options.durability = DRY_MEMORY;
    OK(dry_create("types.dry", &options, &container));
    for (type = DRY_BOOL; type <= DRY_COMPLEX128; type++) check_number(type, sizes[type - 1]);
    check_strides();
    check_records();
    check_strings();
    check_lists();
    check_members_of_any_length();
    check_local();
    OK(dry_container_close(container));
    return 0;
}
