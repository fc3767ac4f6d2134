/* Points, cells by value, reduced accuracy, and publishing. */
#include "check.h"

enum { ROWS = 4000, COLUMNS = 50 };

/* Whole numbers in the first column; elsewhere low digits that no codec can compress. */
static double value(int row, int column) {
    const unsigned noise = (unsigned)(row * COLUMNS + column) * 2654435761u;
    return row + 0.01 * column + (column > 0 ? 1e-15 * (double)noise : 0);
}

static void points(dry_variable *v) {
    const uint64_t cells[3][3] = {{0, 39, 49}, {0, 0, 0}, {0, 7, 3}};
    double found[3];
    float wrong[3];
    OK(dry_read_points(v, DRY_FLOAT64, found, sizeof found, 3, &cells[0][0], 3, NULL));
    REQUIRE(found[0] == value(39, 49) && found[1] == value(0, 0) && found[2] == value(7, 3));
    OK(dry_read_points(v, DRY_FLOAT64, NULL, 0, 3, NULL, 0, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "do not fit", dry_read_points(v, DRY_FLOAT64, found, 8, 3, &cells[0][0], SIZE_MAX, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "coordinates", dry_read_points(v, DRY_FLOAT64, found, sizeof found, 2, &cells[0][0], 3, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "the points is NULL", dry_read_points(v, DRY_FLOAT64, found, sizeof found, 3, NULL, 3, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "bytes", dry_read_points(v, DRY_FLOAT64, found, 8, 3, &cells[0][0], 3, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "convert", dry_read_points(v, DRY_FLOAT32, wrong, sizeof wrong, 3, &cells[0][0], 3, NULL));
    FAILS(DRY_OUT_OF_RANGE, "are not in", dry_read_points(v, DRY_FLOAT64, found, sizeof found, 3, &cells[0][1], 2, NULL));
}

static void search(dry_variable *v) {
    const double low = 7.0, high = 7.025, nan = 0.0 / 0.0;
    const int64_t seven = 7;
    uint64_t cells[3][2];
    double values[3];
    size_t count = 9;
    dry_read_report cost = dry_read_report_new();
    OK(dry_find(v, 0, DRY_FLOAT64, &low, &high, NULL, NULL, 0, &count, NULL));
    REQUIRE(count == 3);
    OK(dry_find(v, 0, DRY_FLOAT64, &low, &high, &cells[0][0], values, 3, &count, &cost));
    REQUIRE(cells[2][0] == 7 && cells[2][1] == 2 && values[1] == value(7, 1) && cost.requests > 0);
    FAILS(DRY_BUFFER_TOO_SMALL, "3 are needed", dry_find(v, 0, DRY_FLOAT64, &low, &high, &cells[0][0], NULL, 2, &count, NULL));
    OK(dry_find(v, 0, DRY_INT64, &seven, &seven, NULL, values, 3, &count, NULL));
    REQUIRE(count == 1 && values[0] == 7);
    FAILS(DRY_INVALID_ARGUMENT, "NaN", dry_find(v, 0, DRY_FLOAT64, &low, &nan, NULL, NULL, 0, &count, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "limits are", dry_find(v, 0, DRY_FLOAT32, &low, &high, NULL, NULL, 0, &count, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "limit is NULL", dry_find(v, 0, DRY_FLOAT64, NULL, &high, NULL, NULL, 0, &count, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_find(v, 0, DRY_FLOAT64, &low, &high, NULL, NULL, 0, NULL, NULL));
    FAILS(DRY_INVALID_ARGUMENT, "steps", dry_find(v, DRY_NO_STEP, DRY_FLOAT64, &low, &high, NULL, NULL, 0, &count, NULL));
}

static void query(dry_container *c) {
    const dry_axis some[3] = {{0, 1, 1}, {5, 10, 1}, {0, COLUMNS, 1}};
    const dry_axis back[3] = {{0, 1, 1}, {14, 10, -1}, {COLUMNS - 1, COLUMNS, -1}};
    const char *const names[2] = {"u", "u"}, *const none[1] = {"nothing"};
    double values[2][7];
    void *const places[2] = {values[0], values[1]};
    const uint64_t sizes[2] = {sizeof values[0], sizeof values[1]}, small[2] = {sizeof values[0], 8};
    static unsigned char mask[10][COLUMNS], turned[10][COLUMNS];
    uint64_t shape[3], low, high, count;
    int64_t coords[7][3];
    size_t length, found, all = 0;
    char text[1000];
    dry_read_report cost = dry_read_report_new();
    dry_query *q, *r;
    OK(dry_query_open(c, "u >= 7 & u < 8.1", 0, NULL, &q));
    OK(dry_query_shape(q, shape, 3, &length));
    REQUIRE(length == 3 && shape[0] == 1 && shape[1] == ROWS && shape[2] == COLUMNS);
    OK(dry_query_bounds(q, &low, &high));
    OK(dry_query_count(q, &count, &cost));
    REQUIRE(low <= count && count <= high && count == COLUMNS + 10 && cost.read_bytes > 0);
    OK(dry_query_explain(q, text, sizeof text, &length));
    REQUIRE(strstr(text, "u >= 7") != NULL);
    OK(dry_query_select(q, 2, names));
    FAILS(DRY_INVALID_ARGUMENT, "hits need", dry_query_next(q, 7, NULL, places, small, &found, NULL));
    for (;;) {
        size_t n;
        OK(dry_query_next(q, 7, &coords[0][0], places, sizes, &found, &cost));
        if (found == 0) break;
        for (n = 0; n < found; n++) {
            REQUIRE(coords[n][0] == 0 && values[0][n] == value((int)coords[n][1], (int)coords[n][2]));
            REQUIRE(values[1][n] == values[0][n] && values[0][n] >= 7 && values[0][n] < 8.1);
        }
        all += found;
    }
    REQUIRE(all == count);
    OK(dry_query_close(q));
    FAILS(DRY_INVALID_ARGUMENT, "closed", dry_query_close(q));
    OK(dry_query_open(c, "u >= 7 & u < 8.1", 3, some, &q));
    OK(dry_query_mask(q, mask, sizeof mask, NULL));
    REQUIRE(mask[2][0] == 1 && mask[1][49] == 0 && mask[3][9] == 1 && mask[3][10] == 0);
    FAILS(DRY_INVALID_ARGUMENT, "mask", dry_query_mask(q, mask, 8, NULL));
    OK(dry_query_open(c, "u >= 7 & u < 8.1", 3, back, &r));
    OK(dry_query_mask(r, turned, sizeof turned, NULL));
    for (all = 0; all < sizeof mask; all++) REQUIRE((&turned[0][0])[all] == (&mask[0][0])[sizeof mask - 1 - all]);
    OK(dry_query_close(r));
    OK(dry_query_next(q, 7, &coords[0][0], NULL, NULL, &found, NULL));
    REQUIRE(found == 7 && coords[0][1] == 7 && coords[6][2] == 6);
    FAILS(DRY_INVALID_ARGUMENT, "room", dry_query_next(q, 0, NULL, NULL, NULL, &found, NULL));
    FAILS(DRY_NOT_FOUND, "nothing", dry_query_select(q, 1, none));
    OK(dry_query_close(q));
    FAILS(DRY_INVALID_ARGUMENT, "`w`", dry_query_open(c, "w > 1", 0, NULL, &q));
    FAILS(DRY_INVALID_ARGUMENT, "compare", dry_query_open(c, "u + 1", 0, NULL, &q));
    FAILS(DRY_INVALID_ARGUMENT, "axes", dry_query_open(c, "u > 1", 2, some, &q));
    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_query_open(c, NULL, 0, NULL, &q));
    FAILS(DRY_INVALID_ARGUMENT, "", dry_query_count(NULL, &count, NULL));
}

static void precision(dry_variable *v) {
    static double some[ROWS][COLUMNS];
    dry_read_options options = dry_read_options_new();
    dry_read_report exact = dry_read_report_new(), less = dry_read_report_new();
    int i;
    options.report = &exact;
    OK(dry_read_box(v, 0, DRY_FLOAT64, some, sizeof some, 2, NULL, NULL, &options));
    REQUIRE(exact.max_error == 0);
    options.report = &less;
    options.accuracy = DRY_WITHIN;
    options.max_error = 0.01;
    OK(dry_read_box(v, 0, DRY_FLOAT64, some, sizeof some, 2, NULL, NULL, &options));
    REQUIRE(less.read_bytes < exact.read_bytes && less.max_error <= 0.01);
    for (i = 0; i < ROWS * COLUMNS; i++) {
        const double off = some[i / COLUMNS][i % COLUMNS] - value(i / COLUMNS, i % COLUMNS);
        REQUIRE(off <= 0.01 && off >= -0.01);
    }
}

static int32_t stop(void *context, uint64_t done, uint64_t total) {
    (void)context;
    (void)done;
    (void)total;
    return 1;
}

static void publish(dry_container *c) {
    const char *const all[1] = {"u"}, *const none[1] = {"nothing"};
    dry_publish_options options = dry_publish_options_new();
    dry_publish_report report = dry_publish_report_new();
    FILE *document;
    FAILS(DRY_CANCELLED, "", dry_publish(c, NULL, stop, NULL, NULL));
    options.variables = none;
    options.variable_count = 1;
    FAILS(DRY_NOT_FOUND, "nothing", dry_publish(c, &options, NULL, NULL, NULL));
    options.variables = all;
    options.compressor = "lzma";
    FAILS(DRY_INVALID_ARGUMENT, "compressor", dry_publish(c, &options, NULL, NULL, NULL));
    options.compressor = "zstd:1";
    OK(dry_publish(c, &options, NULL, NULL, &report));
    REQUIRE(report.arrays == 1 && report.written + report.kept > 0 && report.snapshot > 0);
    OK(dry_publish(c, &options, NULL, NULL, &report));
    REQUIRE(report.written == 0);
    document = fopen("searching.dry/zarr/u/zarr.json", "r");
    REQUIRE(document != NULL);
    fclose(document);
    FAILS(DRY_INVALID_ARGUMENT, "NULL", dry_publish(NULL, NULL, NULL, NULL, NULL));
}

int main(void) {
    static double data[ROWS][COLUMNS];
    const uint64_t shape[2] = {ROWS, COLUMNS};
    dry_variable_options options = dry_variable_options_new();
    dry_writer_options one = dry_writer_options_new();
    dry_container *c;
    dry_writer *w;
    dry_variable *v;
    int i;

    for (i = 0; i < ROWS * COLUMNS; i++) data[i / COLUMNS][i % COLUMNS] = value(i / COLUMNS, i % COLUMNS);
    OK(dry_create("searching.dry", NULL, &c));
    options.type = DRY_FLOAT64;
    options.ndim = 2;
    options.shape = shape;
    options.has_steps = 1;
    options.transform = "aplod:2,1,1,4";
    OK(dry_create_variable(c, "u", &options));
    one.nranks = 1;
    OK(dry_writer_open(c, &one, &w));
    OK(dry_begin_step(w, DRY_NO_STEP, 0, NULL));
    OK(dry_put(w, "u", DRY_FLOAT64, data, sizeof data, 2, NULL, shape, NULL));
    OK(dry_end_step(w, NULL));
    OK(dry_writer_close(w));
    OK(dry_variable_open(c, "u", NULL, &v));
    points(v);
    search(v);
    query(c);
    precision(v);
    publish(c);
    OK(dry_variable_close(v));
    OK(dry_container_close(c));
    return 0;
}
