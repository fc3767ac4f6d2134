/* Random puts, steps, resizes and reads of every kind, against a plain model: arrays in memory, cell by cell: random
 * [SEEDS] [FIRST]. */
#include "check.h"

#include <stdbool.h>

#ifndef EXTENT
#define EXTENT 7 /* of the largest shape */
#define MOST 4   /* dimensions */
#endif
enum { VARIABLES = 8, STEPS = 4, ROUNDS = 12, KEPT = 3, CANARY = 0xA5 };

struct kind {
    dry_type type;
    uint32_t length;
    size_t item;
};

struct record {
    int8_t tag;
    double x;
    float v[2];
};

static const struct kind KINDS[] = {
    {DRY_BOOL, 0, 1},    {DRY_INT8, 0, 1},      {DRY_INT16, 0, 2},      {DRY_INT32, 0, 4},  {DRY_INT64, 0, 8},
    {DRY_UINT8, 0, 1},   {DRY_UINT16, 0, 2},    {DRY_UINT32, 0, 4},     {DRY_UINT64, 0, 8}, {DRY_FLOAT16, 0, 2},
    {DRY_FLOAT32, 0, 4}, {DRY_FLOAT64, 0, 8},   {DRY_COMPLEX64, 0, 8},  {DRY_COMPLEX128, 0, 16},
    {DRY_BYTES, 5, 5},   {DRY_RECORD, 0, sizeof(struct record)},
};

/* An entry of the model for each cell of the largest shape, row-major. */
struct array {
    unsigned char *cells;
    bool *written;
};

struct variable {
    char name[16];
    struct kind kind;
    unsigned char fill[sizeof(struct record)];
    uint32_t ndim, grows; /* bit d: dimension d grows */
    uint64_t shape[MOST];
    bool steps;
    struct array of[STEPS];
};

struct model {
    struct variable variables[VARIABLES];
};

/* Memory of a shape: its first element, strides in bytes, and total size. */
struct memory {
    unsigned char *whole, *first;
    size_t room, span, item;
    uint32_t ndim;
    uint64_t shape[MOST + 1];
    int64_t strides[MOST + 1];
    bool dense;
};

static uint64_t state;

static uint64_t any(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (state >> 11) % below : 0;
}

static size_t most_cells(uint32_t ndim) {
    size_t n = 1;
    while (ndim--) n *= EXTENT;
    return n;
}

static uint64_t product(const uint64_t *shape, uint32_t ndim) {
    uint64_t n = 1, d;
    for (d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

/* The n-th cell of a shape, row-major. */
static void place(uint64_t n, const uint64_t *shape, uint32_t ndim, uint64_t *at) {
    while (ndim--) {
        at[ndim] = n % shape[ndim];
        n /= shape[ndim];
    }
}

static size_t cell_of(const struct variable *v, const uint64_t *at) {
    size_t cell = 0;
    uint32_t d;
    for (d = 0; d < v->ndim; d++) cell = cell * EXTENT + at[d];
    return cell;
}

static void some_value(const struct kind *kind, unsigned char *out) {
    size_t i;
    bool few = any(2);
    for (i = 0; i < kind->item; i++) out[i] = (unsigned char)(few ? any(3) : any(256));
    if (kind->type == DRY_BOOL) out[0] &= 1;
    if (kind->type == DRY_RECORD) {
        struct record r;
        memset(&r, 0, sizeof r); /* what lies between members is nobody's */
        r.tag = (int8_t)out[0];
        r.x = (double)any(1000) / 7;
        r.v[0] = (float)any(100);
        r.v[1] = -(float)any(9);
        memcpy(out, &r, sizeof r);
    }
}

static bool same(const struct kind *kind, const unsigned char *a, const unsigned char *b) {
    if (kind->type == DRY_RECORD) {
        struct record r, s;
        memcpy(&r, a, sizeof r);
        memcpy(&s, b, sizeof s);
        return r.tag == s.tag && memcmp(&r.x, &s.x, sizeof r.x) == 0 && memcmp(r.v, s.v, sizeof r.v) == 0;
    }
    return memcmp(a, b, kind->item) == 0;
}

/* Memory in any order of dimensions, with gaps, forwards and backwards, or dense. */
static struct memory some_memory(size_t item, uint32_t ndim, const uint64_t *shape) {
    struct memory m;
    uint32_t order[MOST + 1] = {0}, d;
    size_t stride = item + (any(3) ? 0 : any(9)), back = 0;
    memset(&m, 0, sizeof m);
    m.item = item;
    m.ndim = ndim;
    m.dense = any(3) == 0;
    m.span = product(shape, ndim) ? item : 0;
    for (d = 0; d < ndim; d++) {
        uint32_t other = (uint32_t)any(d + 1);
        m.shape[d] = shape[d];
        order[d] = order[other];
        order[other] = d;
    }
    if (m.dense) stride = item;
    for (d = ndim; d--;) {
        uint32_t axis = m.dense ? d : order[d];
        bool backwards = !m.dense && any(3) == 0;
        size_t reach = shape[axis] ? (shape[axis] - 1) * stride : 0;
        m.strides[axis] = backwards ? -(int64_t)stride : (int64_t)stride;
        if (m.span) m.span += reach;
        if (backwards) back += reach;
        stride *= shape[axis] ? shape[axis] : 1;
        if (!m.dense) stride += any(3) ? 0 : any(17);
    }
    m.room = m.span + 32;
    m.whole = malloc(m.room);
    REQUIRE(m.whole != NULL);
    memset(m.whole, CANARY, m.room);
    m.first = m.whole + 16 + (m.span ? back : 0);
    return m;
}

static unsigned char *element(const struct memory *m, const uint64_t *at) {
    unsigned char *out = m->first;
    uint32_t d;
    for (d = 0; d < m->ndim; d++) out += m->strides[d] * (int64_t)at[d];
    return out;
}

static const int64_t *strides(const struct memory *m) { return m->dense ? NULL : m->strides; }

/* Checks that only the elements were changed: overwrites them, and compares all bytes with the earlier ones. */
static void check_rest(struct memory *m) {
    uint64_t n, at[MOST + 1];
    size_t i;
    for (n = 0; n < product(m->shape, m->ndim); n++) {
        place(n, m->shape, m->ndim, at);
        memset(element(m, at), CANARY, m->item);
    }
    for (i = 0; i < m->room; i++) REQUIRE(m->whole[i] == CANARY);
    free(m->whole);
}

static void clear(struct variable *v, struct array *a) {
    size_t i;
    for (i = 0; i < most_cells(v->ndim); i++) {
        memcpy(a->cells + i * v->kind.item, v->fill, v->kind.item);
        a->written[i] = false;
    }
}

static void create(dry_container *c, struct variable *v, unsigned number) {
    static const char *const transforms[] = {NULL, NULL, "zstd:1", "shuffle,zstd:1", "lz4", "shuffle,lz4", "auto"};
    const dry_member members[3] = {
        {"tag", DRY_INT8, 0, offsetof(struct record, tag), NULL, NULL, 0, 0},
        {"x", DRY_FLOAT64, 0, offsetof(struct record, x), NULL, NULL, 0, 0},
        {"v", DRY_FLOAT32, 0, offsetof(struct record, v), NULL, (const uint64_t[]){2}, 1, 0},
    };
    dry_record record = dry_record_new(sizeof(struct record), members, 3);
    dry_variable_options options = dry_variable_options_new();
    uint64_t chunks[MOST], shape[MOST];
    uint32_t d, s;

    memset(v, 0, sizeof *v);
    sprintf(v->name, "g%u/v%u", number % 2, number);
    v->kind = KINDS[any(sizeof KINDS / sizeof *KINDS)];
    v->ndim = (uint32_t)any(MOST + 1);
    v->steps = any(2);
    for (d = 0; d < v->ndim; d++) {
        bool grows = any(4) == 0;
        v->grows |= (uint32_t)grows << d;
        v->shape[d] = grows ? 0 : 1 + any(EXTENT);
        shape[d] = grows ? DRY_GROWS : v->shape[d];
        chunks[d] = 1 + any(EXTENT);
    }
    options.type = v->kind.type;
    options.length = v->kind.length;
    options.ndim = v->ndim;
    options.shape = shape;
    options.record = v->kind.type == DRY_RECORD ? &record : NULL;
    options.has_steps = v->steps;
    options.transform = transforms[any(sizeof transforms / sizeof *transforms)];
    if (any(2) && v->ndim) {
        options.chunks = chunks;
        options.chunk_ndim = v->ndim;
    }
    if (any(2)) {
        some_value(&v->kind, v->fill);
        options.fill = v->fill;
        options.fill_size = v->kind.item;
    }
    OK(dry_create_variable(c, v->name, &options));
    for (s = 0; s < STEPS; s++) {
        v->of[s].cells = malloc(most_cells(v->ndim) * v->kind.item);
        v->of[s].written = malloc(most_cells(v->ndim) * sizeof(bool));
        REQUIRE(v->of[s].cells != NULL && v->of[s].written != NULL);
        clear(v, &v->of[s]);
    }
}

static struct model copy_of(const struct model *m) {
    struct model out = *m;
    unsigned n, s;
    for (n = 0; n < VARIABLES; n++) {
        for (s = 0; s < STEPS; s++) {
            struct variable *v = &out.variables[n];
            struct array a = v->of[s];
            size_t cells = most_cells(v->ndim);
            v->of[s].cells = malloc(cells * v->kind.item);
            v->of[s].written = malloc(cells * sizeof(bool));
            REQUIRE(v->of[s].cells != NULL && v->of[s].written != NULL);
            memcpy(v->of[s].cells, a.cells, cells * v->kind.item);
            memcpy(v->of[s].written, a.written, cells * sizeof(bool));
        }
    }
    return out;
}

static void release(struct model *m) {
    unsigned n, s;
    for (n = 0; n < VARIABLES; n++) {
        for (s = 0; s < STEPS; s++) {
            free(m->variables[n].of[s].cells);
            free(m->variables[n].of[s].written);
        }
    }
}

/* Puts a block of whole elements or of one member, from memory of any layout. */
static void put(dry_writer *w, struct variable *v, unsigned step) {
    static const struct {
        const char *name;
        dry_type type;
        size_t offset, size;
    } members[] = {{"tag", DRY_INT8, offsetof(struct record, tag), 1},
                   {"x", DRY_FLOAT64, offsetof(struct record, x), 8},
                   {"v", DRY_FLOAT32, offsetof(struct record, v), 8}};
    dry_put_options options = dry_put_options_new();
    uint64_t offset[MOST], count[MOST], at[MOST], n;
    size_t from = 0, item = v->kind.item;
    dry_type type = v->kind.type;
    struct memory m;
    uint32_t d;

    if (type == DRY_RECORD && any(2)) {
        size_t one = any(3);
        options.member = members[one].name;
        type = members[one].type;
        from = members[one].offset;
        item = members[one].size;
    }
    for (d = 0; d < v->ndim; d++) {
        uint64_t room = v->grows >> d & 1 ? EXTENT : v->shape[d];
        offset[d] = any(room + 1);
        count[d] = any(room - offset[d] + 1);
        if (any(4) == 0) offset[d] = 0, count[d] = room;
    }
    m = some_memory(item, v->ndim, count);
    options.item_size = item;
    options.strides = strides(&m);
    for (n = 0; n < product(count, v->ndim); n++) {
        unsigned char value[sizeof(struct record)];
        size_t cell;
        place(n, count, v->ndim, at);
        some_value(&v->kind, value);
        memcpy(element(&m, at), value + from, item);
        for (d = 0; d < v->ndim; d++) at[d] += offset[d];
        cell = cell_of(v, at);
        memcpy(v->of[step].cells + cell * v->kind.item + from, value + from, item);
        v->of[step].written[cell] = true;
    }
    OK(dry_put(w, v->name, type, m.first, m.span, v->ndim, offset, count, &options));
    memset(m.whole, 0, m.room); /* it is the caller's again */
    free(m.whole);
    for (d = 0; d < v->ndim; d++)
        if ((v->grows >> d & 1) && count[d] && v->shape[d] < offset[d] + count[d]) v->shape[d] = offset[d] + count[d];
}

/* One writer: values without step, and steps, some of which are dropped. */
static void write(dry_container *c, struct model *m) {
    dry_writer_options options = dry_writer_options_new();
    dry_writer *w;
    bool seen[STEPS] = {false};
    uint64_t puts = any(6), steps = any(3), i, k;

    options.nranks = (uint32_t)any(2);
    if (any(3) == 0) options.segment_limit = 1 << 12;
    OK(dry_writer_open(c, &options, &w));
    for (i = 0; i < puts; i++) {
        struct variable *v = &m->variables[any(VARIABLES)];
        if (!v->steps) put(w, v, 0);
    }
    for (k = 0; k < steps; k++) {
        uint64_t step = any(STEPS);
        /* If a replaced step is never committed, not even its growth is visible. */
        bool replace = any(3) == 0 && (options.nranks || !seen[step]), drop = any(4) == 0;
        struct model before = copy_of(m);
        OK(dry_begin_step(w, (int64_t)step, replace, NULL));
        for (i = 0; replace && i < VARIABLES; i++)
            if (m->variables[i].steps) clear(&m->variables[i], &m->variables[i].of[step]);
        seen[step] = true;
        for (i = any(8); i--;) {
            struct variable *v = &m->variables[any(VARIABLES)];
            if (v->steps) put(w, v, (unsigned)step);
        }
        if (drop) {
            OK(dry_abort_step(w));
            release(m);
            *m = before;
        } else {
            OK(dry_end_step(w, NULL));
            release(&before);
        }
    }
    OK(dry_writer_close(w));
    OK(dry_commit(c, NULL));
}

static void resize(dry_container *c, struct variable *v) {
    uint64_t shape[MOST], at[MOST], n, full[MOST];
    uint32_t d, s;
    for (d = 0; d < v->ndim; d++) {
        shape[d] = any(3) ? v->shape[d] : any(EXTENT + 1);
        full[d] = EXTENT;
    }
    OK(dry_resize(c, v->name, v->ndim, shape));
    memcpy(v->shape, shape, sizeof shape);
    for (n = 0; n < product(full, v->ndim); n++) {
        bool inside = true;
        place(n, full, v->ndim, at);
        for (d = 0; d < v->ndim; d++) inside = inside && at[d] < shape[d];
        for (s = 0; !inside && s < STEPS; s++) {
            memcpy(v->of[s].cells + cell_of(v, at) * v->kind.item, v->fill, v->kind.item);
            v->of[s].written[cell_of(v, at)] = false;
        }
    }
}

static void check_cell(const struct variable *v, const unsigned char *found, uint64_t step, const uint64_t *at) {
    const unsigned char *expected = v->of[step].cells + cell_of(v, at) * v->kind.item;
    uint32_t d;
    if (same(&v->kind, found, expected)) return;
    fprintf(stderr, "%s, type %d, step %d, cell", v->name, (int)v->kind.type, (int)step);
    for (d = 0; d < v->ndim; d++) fprintf(stderr, " %d", (int)at[d]);
    fprintf(stderr, " is not what was put\n");
    exit(1);
}

static void check_box(dry_variable *h, const struct variable *v, uint64_t step, bool whole) {
    dry_read_options options = dry_read_options_new();
    uint64_t offset[MOST], count[MOST], at[MOST], n;
    struct memory m;
    uint32_t d;
    for (d = 0; d < v->ndim; d++) {
        offset[d] = whole ? 0 : any(v->shape[d] + 1);
        count[d] = whole ? v->shape[d] : any(v->shape[d] - offset[d] + 1);
    }
    m = some_memory(v->kind.item, v->ndim, count);
    options.item_size = v->kind.item;
    options.strides = strides(&m);
    OK(dry_read_box(h, v->steps ? (int64_t)step : DRY_NO_STEP, v->kind.type, m.first, m.span, v->ndim, offset, count, &options));
    for (n = 0; n < product(count, v->ndim); n++) {
        unsigned char *found;
        place(n, count, v->ndim, at);
        found = element(&m, at);
        for (d = 0; d < v->ndim; d++) at[d] += offset[d];
        check_cell(v, found, step, at);
    }
    check_rest(&m);
}

/* Existing cells of one axis, forwards or backwards. */
static dry_axis some_axis(uint64_t extent) {
    dry_axis out = {0, 0, 1};
    if (extent == 0) return out;
    out.start = any(extent);
    out.step = (int64_t)any(3) + 1;
    if (any(2)) out.step = -out.step;
    out.count = (out.step < 0 ? out.start : extent - 1 - out.start) / (uint64_t)(out.step < 0 ? -out.step : out.step) + 1;
    out.count = any(4) ? any(out.count + 1) : out.count;
    return out;
}

static void check_selection(dry_variable *h, const struct variable *v, uint64_t steps) {
    dry_read_options options = dry_read_options_new();
    dry_axis axes[MOST + 1];
    uint64_t shape[MOST + 1], at[MOST + 1], where[MOST + 1], n;
    uint32_t naxes = v->ndim + v->steps, d;
    struct memory m;
    if (v->steps) axes[0] = some_axis(steps);
    for (d = 0; d < v->ndim; d++) axes[v->steps + d] = some_axis(v->shape[d]);
    for (d = 0; d < naxes; d++) shape[d] = axes[d].count;
    m = some_memory(v->kind.item, naxes, shape);
    options.item_size = v->kind.item;
    options.strides = strides(&m);
    OK(dry_read(h, v->kind.type, m.first, m.span, naxes, axes, &options));
    for (n = 0; n < product(shape, naxes); n++) {
        place(n, shape, naxes, at);
        for (d = 0; d < naxes; d++) where[d] = axes[d].start + (uint64_t)axes[d].step * at[d];
        check_cell(v, element(&m, at), v->steps ? where[0] : 0, where + v->steps);
    }
    check_rest(&m);
}

static void check_points(dry_variable *h, const struct variable *v, uint64_t steps) {
    dry_read_options options = dry_read_options_new();
    uint64_t cells[20 * (MOST + 1)], count = any(20), n;
    uint32_t naxes = v->ndim + v->steps, d;
    struct memory m;
    if (naxes == 0 || product(v->shape, v->ndim) == 0) return;
    for (n = 0; n < count; n++) {
        if (v->steps) cells[n * naxes] = any(steps);
        for (d = 0; d < v->ndim; d++) cells[n * naxes + v->steps + d] = any(v->shape[d]);
    }
    m = some_memory(v->kind.item, 1, &count);
    options.item_size = v->kind.item;
    options.strides = strides(&m);
    OK(dry_read_points(h, v->kind.type, m.first, m.span, naxes, cells, count, &options));
    for (n = 0; n < count; n++) {
        const uint64_t *cell = cells + n * naxes;
        check_cell(v, element(&m, &n), v->steps ? cell[0] : 0, cell + v->steps);
    }
    check_rest(&m);
}

/* Values between limits: as many as in the model, and each one occurs in it. */
static void check_find(dry_variable *h, const struct variable *v, uint64_t step) {
    const double low = (double)any(40) - 20, high = low + (double)any(60);
    uint64_t *cells = NULL, full[MOST], at[MOST], n;
    const bool real = v->kind.type == DRY_FLOAT64;
    size_t found = 0, expected = 0;
    uint32_t d;
    if (v->kind.type != DRY_INT8 && !real) return;
    for (d = 0; d < v->ndim; d++) full[d] = EXTENT;
    for (n = 0; n < product(full, v->ndim); n++) {
        size_t cell = (place(n, full, v->ndim, at), cell_of(v, at));
        double x;
        if (real) memcpy(&x, v->of[step].cells + cell * 8, 8);
        else x = (double)(int8_t)v->of[step].cells[cell];
        expected += v->of[step].written[cell] && x >= low && x <= high;
    }
    cells = malloc((expected + 1) * (v->ndim + 1) * sizeof *cells);
    REQUIRE(cells != NULL);
    OK(dry_find(h, v->steps ? (int64_t)step : DRY_NO_STEP, DRY_FLOAT64, &low, &high, cells, NULL, expected + 1, &found, NULL));
    REQUIRE(found == expected);
    for (n = 0; n < found; n++) REQUIRE(v->of[step].written[cell_of(v, cells + n * v->ndim)]);
    free(cells);
}

/* The newest block reads as it was put. */
static void check_newest(dry_variable *h, const struct variable *v, uint64_t step) {
    dry_block blocks[256];
    dry_read_options options = dry_read_options_new();
    const int64_t of = v->steps ? (int64_t)step : DRY_NO_STEP;
    uint64_t at[MOST], n;
    struct memory m;
    size_t count;
    uint32_t d;
    if (v->kind.type == DRY_RECORD || dry_blocks(h, of, blocks, sizeof *blocks, 256, &count) != DRY_OK || count == 0) return;
    REQUIRE(blocks[count - 1].ndim == v->ndim);
    m = some_memory(v->kind.item, v->ndim, blocks[count - 1].count);
    options.item_size = v->kind.item;
    options.strides = strides(&m);
    OK(dry_read_block(h, of, count - 1, v->kind.type, m.first, m.span, v->ndim, m.shape, &options));
    for (n = 0; n < product(m.shape, v->ndim); n++) {
        unsigned char *found;
        bool there = true;
        place(n, m.shape, v->ndim, at);
        found = element(&m, at);
        for (d = 0; d < v->ndim; d++) at[d] += blocks[count - 1].offset[d], there = there && at[d] < v->shape[d];
        there = there && v->of[step].written[cell_of(v, at)]; /* it may have been cut off */
        if (there) check_cell(v, found, step, at);
    }
    check_rest(&m);
}

static void check(dry_container *c, const struct model *m, unsigned times) {
    unsigned n, i;
    for (n = 0; n < VARIABLES; n++) {
        const struct variable *v = &m->variables[n];
        dry_variable_info info = dry_variable_info_new();
        dry_variable *h;
        uint64_t steps = 1, s;
        OK(dry_variable_open(c, v->name, NULL, &h));
        OK(dry_variable_describe(h, &info));
        REQUIRE(info.ndim == v->ndim && info.item_size == v->kind.item && info.grows == v->grows);
        REQUIRE(memcmp(info.shape, v->shape, v->ndim * sizeof *v->shape) == 0);
        if (v->steps) steps = info.step_axis;
        REQUIRE(steps <= STEPS);
        for (s = 0; s < steps; s++) {
            check_box(h, v, s, true);
            if (any(2)) check_find(h, v, s);
            if (any(2)) check_newest(h, v, s);
        }
        for (s = steps; v->steps && s < STEPS; s++) {
            size_t cell;
            for (cell = 0; cell < most_cells(v->ndim); cell++) REQUIRE(!v->of[s].written[cell]);
        }
        for (i = 0; i < times && steps; i++) {
            check_box(h, v, any(steps), false);
            check_selection(h, v, steps);
            check_points(h, v, steps);
        }
        OK(dry_variable_close(h));
    }
}

static void check_seed(uint64_t seed) {
    struct model now = {0}, kept[KEPT];
    dry_container *earlier[KEPT] = {NULL};
    dry_create_options memory = dry_create_options_new();
    dry_container *c;
    char path[32];
    unsigned n, round;

    state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    sprintf(path, "random%d.dry", (int)seed);
    memory.durability = (int32_t)any(2) * DRY_MEMORY;
    OK(dry_create(path, &memory, &c));
    for (n = 0; n < VARIABLES; n++) create(c, &now.variables[n], n);
    for (round = 0; round < ROUNDS; round++) {
        write(c, &now);
        if (any(2)) resize(c, &now.variables[any(VARIABLES)]);
        if (any(4) == 0) {
            OK(dry_container_close(c));
            OK(dry_open(path, DRY_READ_WRITE, &c));
        }
        check(c, &now, 2);
        n = (unsigned)any(KEPT);
        if (earlier[n] != NULL) {
            check(earlier[n], &kept[n], 1);
            OK(dry_container_close(earlier[n]));
            release(&kept[n]);
            earlier[n] = NULL;
        } else {
            dry_container_info info = dry_container_info_new();
            OK(dry_container_describe(c, &info));
            OK(dry_open_snapshot(c, info.snapshot, &earlier[n]));
            kept[n] = copy_of(&now);
        }
    }
    for (n = 0; n < KEPT; n++) {
        if (earlier[n] == NULL) continue;
        check(earlier[n], &kept[n], 1);
        OK(dry_container_close(earlier[n]));
        release(&kept[n]);
    }
    OK(dry_container_close(c));
    release(&now);
}

int main(int argc, char **argv) {
    const uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 24, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t seed;
    for (seed = first; seed < first + seeds; seed++) {
        if (argc > 1) printf("%d\n", (int)seed), fflush(stdout);
        check_seed(seed);
    }
    return 0;
}
