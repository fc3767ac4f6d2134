/* Declared fragments, written from their own memory and read into another's; rules between boxes of arrays. */
#include "check.h"

static const char *const text =
    "const n = 4\n"
    "dataset { var T[n, n] float64 steps }\n"
    "fragment rows(r) { var T[i:2, j:n] = T[i + 2*r, j] }\n"
    "fragment columns(c) { var T[j:2, i:n] = T[i, j + 2*c] }\n";

static dry_fragment *open_part(dry_container *c, const char *name, const char *parameter, int64_t value) {
    dry_parameter given;
    dry_fragment *f;
    given.name = parameter;
    given.value = value;
    OK(dry_fragment_open(c, name, &given, 1, &f));
    return f;
}

static void check_fragments(void) {
    double rows[8], columns[8];
    int i, r;
    size_t length;
    char name[8], plan[1024];
    dry_create_options memory = dry_create_options_new();
    dry_fragment_info info = dry_fragment_info_new();
    dry_fragment_array array = dry_fragment_array_new();
    dry_coverage coverage = dry_coverage_new();
    dry_read_report cost = dry_read_report_new();
    dry_writer_options one = dry_writer_options_new();
    dry_container *c;
    dry_fragment *f;
    dry_writer *w;

    memory.durability = DRY_MEMORY;
    OK(dry_create("fragments.dry", &memory, &c));
    FAILS(DRY_INVALID_ARGUMENT, "expected", dry_declare(c, "dataset { var }", NULL, 0));
    OK(dry_declare(c, text, NULL, 0));
    FAILS(DRY_NOT_FOUND, "rows(r)", dry_fragment_open(c, "tiles", NULL, 0, &f));
    FAILS(DRY_INVALID_ARGUMENT, "r", dry_fragment_open(c, "rows", NULL, 0, &f));
    one.nranks = 1;
    OK(dry_writer_open(c, &one, &w));
    OK(dry_begin_step(w, DRY_NO_STEP, 0, NULL));
    for (r = 0; r < 2; r++) {
        f = open_part(c, "rows", "r", r);
        OK(dry_fragment_describe(f, &info));
        REQUIRE(info.size == sizeof rows && info.array_count == 1 && info.has_steps);
        for (i = 0; i < 8; i++) rows[i] = 8 * r + i;
        FAILS(DRY_INVALID_ARGUMENT, "bytes", dry_fragment_write(f, w, rows, sizeof rows - 1));
        OK(dry_fragment_write(f, w, rows, sizeof rows));
        OK(dry_fragment_close(f));
    }
    OK(dry_end_step(w, NULL));
    OK(dry_writer_close(w));

    f = open_part(c, "columns", "c", 1);
    OK(dry_fragment_array_at(f, 0, &array, name, sizeof name, &length));
    REQUIRE(strcmp(name, "T") == 0 && array.type == DRY_FLOAT64 && array.ndim == 2 && array.shape[1] == 4);
    REQUIRE(array.has_strides && array.strides[0] == 32 && array.offset == 0 && array.item_size == 8);
    FAILS(DRY_NOT_FOUND, "no array 1", dry_fragment_array_at(f, 1, &array, NULL, 0, NULL));
    OK(dry_fragment_read(f, 0, columns, sizeof columns, &cost));
    for (i = 0; i < 8; i++) REQUIRE(columns[i] == 4 * (i % 4) + 2 + i / 4);
    REQUIRE(cost.wanted_bytes == sizeof columns);
    OK(dry_fragment_coverage(f, 0, &coverage));
    REQUIRE(coverage.wanted == 8 && coverage.covered == 8 && coverage.missing == 0);
    OK(dry_fragment_explain(f, 0, plan, sizeof plan, &length));
    REQUIRE(strstr(plan, "columns") != NULL);
    OK(dry_fragment_close(f));
    OK(dry_container_close(c));
}

static void check_rules(void) {
    static const uint64_t whole[2] = {4, 6}, part[2] = {2, 2};
    static const int64_t inside[2] = {1, 2}, transposed[2] = {8, 16};
    int32_t src[4][6];
    double dst[4], again[4];
    unsigned char encoded[1024];
    char said[512];
    size_t size, length;
    int i, j;
    dry_layout from, to;
    dry_rule_info info = dry_rule_info_new(), same = dry_rule_info_new();
    dry_rule *rule, *copy;

    for (i = 0; i < 4; i++)
        for (j = 0; j < 6; j++) src[i][j] = 10 * i + j;
    memset(&from, 0, sizeof from);
    from.type = DRY_INT32;
    from.ndim = 2;
    from.shape = whole;
    memset(&to, 0, sizeof to);
    to.type = DRY_FLOAT64;
    to.ndim = 2;
    to.shape = part;
    to.start = inside;
    to.strides = transposed;
    OK(dry_rule_compile(&from, 1, &to, 1, DRY_REFUSE, &rule));
    OK(dry_rule_describe(rule, &info));
    REQUIRE(info.src_size == sizeof src && info.dst_size == sizeof dst && info.moved == sizeof dst);
    OK(dry_rule_apply(rule, src, sizeof src, dst, sizeof dst));
    REQUIRE(dst[0] == 12 && dst[1] == 22 && dst[2] == 13 && dst[3] == 23);
    OK(dry_rule_text(rule, said, sizeof said, &length));
    REQUIRE(length > 0);

    OK(dry_rule_encode(rule, encoded, sizeof encoded, &size));
    OK(dry_rule_decode(encoded, size, sizeof src, sizeof dst, &copy));
    OK(dry_rule_describe(copy, &same));
    REQUIRE(memcmp(info.hash, same.hash, sizeof info.hash) == 0);
    OK(dry_rule_apply(copy, src, sizeof src, again, sizeof again));
    REQUIRE(memcmp(dst, again, sizeof dst) == 0);
    REQUIRE(dry_rule_decode(encoded, size, sizeof src - 9 * sizeof src[0][0], sizeof dst, &copy) == DRY_INVALID_ARGUMENT);
    REQUIRE(copy == NULL);

    REQUIRE(dry_rule_apply(rule, src, 4, dst, sizeof dst) == DRY_INVALID_ARGUMENT);
    FAILS(DRY_INVALID_ARGUMENT, "share memory", dry_rule_apply(rule, src, sizeof src, &src[1][0], sizeof dst));
    to.type = DRY_INT8;
    to.strides = NULL;
    REQUIRE(dry_rule_compile(&from, 1, &to, 1, DRY_REFUSE, &copy) == DRY_INVALID_ARGUMENT);
    FAILS(DRY_INVALID_ARGUMENT, "dry_narrowing", dry_rule_compile(&from, 1, &to, 1, 3, &copy));
    OK(dry_rule_close(rule));
}

/* A past error: these rules copied float16, bfloat16 and complex floats as opaque bytes, while Python converted
 * them. */
static void check_conversion_of_every_number(void) {
    static const uint64_t three[1] = {3};
    static const uint16_t half[3] = {0x3c00, 0xc100, 0x7bff}; /* 1, -2.5, 65504 */
    static const uint16_t brain[3] = {0x3f80, 0xc020, 0x4780}; /* 1, -2.5, 65536 */
    static const float complexes[6] = {1, -2, 3, -4, 5, -6};
    float out[3];
    double wide[6];
    int i;
    dry_layout from, to;
    dry_rule *rule;

    memset(&from, 0, sizeof from);
    from.ndim = 1;
    from.shape = three;
    to = from;
    from.type = DRY_FLOAT16;
    to.type = DRY_FLOAT32;
    OK(dry_rule_compile(&from, 1, &to, 1, DRY_REFUSE, &rule));
    OK(dry_rule_apply(rule, half, sizeof half, out, sizeof out));
    REQUIRE(out[0] == 1 && out[1] == -2.5f && out[2] == 65504);
    OK(dry_rule_close(rule));
    from.type = DRY_BFLOAT16;
    OK(dry_rule_compile(&from, 1, &to, 1, DRY_REFUSE, &rule));
    OK(dry_rule_apply(rule, brain, sizeof brain, out, sizeof out));
    REQUIRE(out[0] == 1 && out[1] == -2.5f && out[2] == 65536);
    OK(dry_rule_close(rule));
    from.type = DRY_COMPLEX64;
    to.type = DRY_COMPLEX128;
    OK(dry_rule_compile(&from, 1, &to, 1, DRY_REFUSE, &rule));
    OK(dry_rule_apply(rule, complexes, sizeof complexes, wide, sizeof wide));
    for (i = 0; i < 6; i++) REQUIRE(wide[i] == complexes[i]);
    OK(dry_rule_close(rule));
}

int main(void) {
    check_fragments();
    check_rules();
    check_conversion_of_every_number();
    return 0;
}
