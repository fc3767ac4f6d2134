/*
 * The Fortran module's C part: arrays of any type, rank and memory layout, by the descriptors of Fortran 2018.
 * Compile it with the C compiler that belongs to your Fortran compiler: it uses that compiler's ISO_Fortran_binding.h.
 *
 * Fortran's first index varies fastest, so Fortran's dimensions are drystone's in reverse order. This file reverses
 * them.
 */
#include <drystone.h>

#include <ISO_Fortran_binding.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = CFI_MAX_RANK };

/* An array in the form that drystone.h takes. */
struct array {
    dry_type type;
    uint32_t ndim;
    uint64_t size;
    uint64_t shape[RANKS];
    int64_t strides[RANKS];
};

static dry_type type_of(CFI_type_t type) {
    if (type == CFI_type_double) return DRY_FLOAT64;
    if (type == CFI_type_float) return DRY_FLOAT32;
    if (type == CFI_type_int32_t) return DRY_INT32;
    if (type == CFI_type_int64_t) return DRY_INT64;
    if (type == CFI_type_int16_t) return DRY_INT16;
    if (type == CFI_type_int8_t) return DRY_INT8;
    if (type == CFI_type_double_Complex) return DRY_COMPLEX128;
    if (type == CFI_type_float_Complex) return DRY_COMPLEX64;
    if (type == CFI_type_Bool) return DRY_BOOL;
    if (type == CFI_type_char) return DRY_BYTES;
    if (type == CFI_type_struct || type == CFI_type_other) return DRY_RECORD;
    return 0; /* none */
}

/* Reports that the library has no such type, and which one to use. */
static dry_status no_type(const CFI_cdesc_t *given) {
    char text[200];
    const char *kind = "this type", *instead = "use real, complex or integer of up to 64 bits, logical(c_bool) or character";
#if defined(CFI_type_mask) && defined(CFI_type_Logical) && defined(CFI_type_Real)
    const int family = (int)(given->type & CFI_type_mask);
    if (family == CFI_type_Logical) kind = "logical", instead = "use logical(c_bool), of 1 byte";
    if (family == CFI_type_Real) kind = "real", instead = "use real32 or real64";
    if (family == CFI_type_Complex) kind = "complex", instead = "use complex of real32 or real64";
    if (family == CFI_type_Integer) kind = "integer", instead = "use up to 64 bits";
    if (family == CFI_type_Character) kind = "character", instead = "use character of kind c_char";
#endif
    snprintf(text, sizeof text, "no array of %s of %lu bytes can be stored: %s", kind, (unsigned long)given->elem_len, instead);
    return dry_set_error(DRY_INVALID_ARGUMENT, text);
}

/* Refuses arrays that cannot be put or read: of an unsupported type, or of unknown size. */
static dry_status unfit(const CFI_cdesc_t *given) {
    if (type_of(given->type) == 0) return no_type(given);
    if (given->base_addr == NULL)
        return dry_set_error(DRY_INVALID_ARGUMENT, "the array has no memory: it is not allocated, points nowhere, or is an empty constructor");
    if (given->rank > 0 && given->dim[given->rank - 1].extent == -1)
        return dry_set_error(DRY_INVALID_ARGUMENT, "the array is of assumed size (*): pass a section that ends, such as x(:, :n)");
    return DRY_OK;
}

/* Refuses a list that is not of integers, whose length differs from the array's number of dimensions, or that
 * has a negative number where none is allowed. A count of -1 means no list. */
static dry_status refused(const char *what, int32_t count, const int64_t *values, uint32_t ndim) {
    char text[200];
    int32_t d;
    if (count < -1) {
        snprintf(text, sizeof text, "the %s is not a list of integers of 32 or 64 bits", what);
        return dry_set_error(DRY_INVALID_ARGUMENT, text);
    }
    if (count >= 0 && (uint32_t)count != ndim) {
        snprintf(text, sizeof text, "the %s has %ld entries, the array %lu dimensions", what, (long)count, (unsigned long)ndim);
        return dry_set_error(DRY_INVALID_ARGUMENT, text);
    }
    for (d = 0; d < count && values != NULL; d++)
        if (values[d] < 0) {
            snprintf(text, sizeof text, "the %s is %lld in dimension %ld: it counts cells from 0", what, (long long)values[d],
                     (long)d + 1);
            return dry_set_error(DRY_OUT_OF_RANGE, text);
        }
    return DRY_OK;
}

static struct array describe(const CFI_cdesc_t *given) {
    struct array out;
    int d;
    memset(&out, 0, sizeof out);
    out.type = type_of(given->type);
    out.ndim = (uint32_t)given->rank;
    out.size = given->elem_len;
    for (d = 0; d < given->rank; d++) {
        const int last = given->rank - 1 - d;
        const int64_t stride = (int64_t)given->dim[last].sm;
        out.shape[d] = given->dim[last].extent > 0 ? (uint64_t)given->dim[last].extent : 0;
        out.strides[d] = stride;
        if (out.shape[d] > 1) out.size += (uint64_t)(stride < 0 ? -stride : stride) * (out.shape[d] - 1);
    }
    for (d = 0; d < given->rank; d++)
        if (out.shape[d] == 0) out.size = 0;
    return out;
}

/* Bytes of a contiguous array; 0 for others, which the library then refuses by their size. */
static uint64_t dense_size(const CFI_cdesc_t *given) {
    const struct array a = describe(given);
    int64_t next = (int64_t)given->elem_len;
    uint32_t d;
    for (d = a.ndim; d-- > 0;) {
        if (a.shape[d] > 1 && a.strides[d] != next) return 0;
        next *= (int64_t)a.shape[d];
    }
    return a.size;
}

/* Copies `values`, one per dimension of the array, in reverse order. */
static const uint64_t *reversed(const int64_t *values, uint32_t ndim, uint64_t *out) {
    uint32_t d;
    if (values == NULL) return NULL;
    for (d = 0; d < ndim; d++) out[d] = (uint64_t)values[ndim - 1 - d];
    return out;
}

/* Bytes of an element, if the type does not determine them. */
static uint64_t item_size(const struct array *a, const CFI_cdesc_t *given) {
    return a->type == DRY_BYTES || a->type == DRY_RECORD ? given->elem_len : 0;
}

/* Refuses characters, with which a compiler may pass a length where that of the member's name is expected. It may also
 * describe a single character as an integer. */
dry_status dry_fortran_fits_member(const CFI_cdesc_t *data) {
    const dry_type type = type_of(data->type);
    if (type != DRY_BYTES && !(data->rank == 0 && data->elem_len == 1)) return DRY_OK;
    return dry_set_error(DRY_INVALID_ARGUMENT,
                         "put with member= takes no characters, and no single byte: call put_member(path, member, data)");
}

dry_status dry_fortran_put(dry_writer *writer, const char *path, const char *member, const CFI_cdesc_t *data,
                           int32_t offset_count, const int64_t *offset) {
    const struct array a = describe(data);
    uint64_t place[RANKS];
    dry_put_options options = dry_put_options_new();
    dry_status status = unfit(data);
    if (status == DRY_OK) status = refused("offset", offset_count, offset, a.ndim);
    if (status != DRY_OK) return status;
    options.strides = a.strides;
    options.member = member;
    options.item_size = item_size(&a, data);
    return dry_put(writer, path, a.type, data->base_addr, a.size, a.ndim, reversed(offset, a.ndim, place), a.shape, &options);
}

/* The box at `offset` with the array's shape, or every `stride`-th cell of it; one step of a variable with
 * steps. */
dry_status dry_fortran_read(dry_team *team, dry_variable *variable, int64_t step, CFI_cdesc_t *data, int32_t offset_count,
                            const int64_t *offset, int32_t stride_count, const int64_t *stride) {
    const struct array a = describe(data);
    dry_axis axes[RANKS + 1];
    int64_t strides[RANKS + 1] = {0};
    uint32_t first = step == DRY_NO_STEP ? 0 : 1, d;
    dry_read_options options = dry_read_options_new();
    dry_status status = unfit(data);
    if (status == DRY_OK) status = refused("offset", offset_count, offset, a.ndim);
    if (status == DRY_OK) status = refused("stride", stride_count, NULL, a.ndim);
    for (d = 0; status == DRY_OK && stride != NULL && d < a.ndim; d++)
        if (stride[d] == 0) status = dry_set_error(DRY_INVALID_ARGUMENT, "a stride is 0: it leads from one cell to the next");
    if (status != DRY_OK && team == NULL) return status;
    if (status != DRY_OK) /* the other ranks are told too: by a selection that no variable has */
        return dry_team_read(team, variable, a.type, data->base_addr, 0, RANKS + 2, NULL, NULL);
    memset(axes, 0, sizeof axes);
    axes[0].start = (uint64_t)step;
    axes[0].count = 1;
    for (d = 0; d < a.ndim; d++) {
        axes[first + d].start = offset == NULL ? 0 : (uint64_t)offset[a.ndim - 1 - d];
        axes[first + d].count = a.shape[d];
        axes[first + d].step = stride == NULL ? 1 : stride[a.ndim - 1 - d];
        strides[first + d] = a.strides[d];
    }
    options.strides = strides;
    options.item_size = item_size(&a, data);
    if (team != NULL) return dry_team_read(team, variable, a.type, data->base_addr, a.size, first + a.ndim, axes, &options);
    return dry_read(variable, a.type, data->base_addr, a.size, first + a.ndim, axes, &options);
}

dry_status dry_fortran_set_attribute(dry_container *container, const char *owner, const char *name,
                                     const CFI_cdesc_t *value) {
    const struct array a = describe(value);
    const dry_status status = unfit(value);
    if (status != DRY_OK) return status;
    return dry_set_attribute(container, owner, name, a.type, a.ndim, a.shape, value->base_addr, dense_size(value));
}

dry_status dry_fortran_get_attribute(dry_container *container, const char *owner, const char *name, CFI_cdesc_t *value) {
    const dry_status status = unfit(value);
    if (status != DRY_OK) return status;
    return dry_get_attribute(container, owner, name, type_of(value->type), value->base_addr, dense_size(value));
}

dry_status dry_fortran_fragment_read(dry_fragment *fragment, int64_t step, CFI_cdesc_t *memory) {
    return dry_fragment_read(fragment, step, memory->base_addr, dense_size(memory), NULL);
}

dry_status dry_fortran_fragment_write(dry_fragment *fragment, dry_writer *writer, const CFI_cdesc_t *memory) {
    return dry_fragment_write(fragment, writer, memory->base_addr, dense_size(memory));
}

/* `extents`, `dims` and `chunks` in Fortran's order. */
dry_status dry_fortran_create_variable(dry_container *container, const char *path, dry_type type, int32_t length,
                                       int32_t ndim, const int64_t *extents, int32_t dims_count,
                                       const char *const *dims, int32_t has_steps, int32_t is_local, const char *transform, int32_t chunk_ndim,
                                       const int64_t *chunks, const char *access) {
    dry_variable_options options = dry_variable_options_new();
    uint64_t shape[RANKS], cut[RANKS];
    const char *names[RANKS];
    int32_t d;
    if (ndim < 0) return refused("shape", ndim, NULL, 0);
    if (chunk_ndim < -1) return refused("list of chunks", chunk_ndim, NULL, 0);
    if (ndim > RANKS || chunk_ndim > RANKS) ndim = RANKS + 1; /* refused below */
    options.type = type;
    options.length = (uint32_t)length;
    options.local = is_local != 0;
    options.ndim = (uint32_t)ndim;
    options.shape = ndim > RANKS ? NULL : reversed(extents, (uint32_t)ndim, shape);
    if (dims != NULL && dims_count == ndim && ndim <= RANKS) {
        for (d = 0; d < ndim; d++) names[d] = dims[ndim - 1 - d];
        options.dims = names;
    }
    options.dims_count = (uint32_t)dims_count; /* another number is refused */
    options.has_steps = has_steps != 0;
    options.transform = transform;
    options.access = access;
    if (chunks != NULL && ndim <= RANKS) {
        options.chunk_ndim = (uint32_t)chunk_ndim;
        options.chunks = reversed(chunks, (uint32_t)chunk_ndim, cut);
    }
    return dry_create_variable(container, path, &options);
}

dry_status dry_fortran_create(const char *path, int32_t durability, dry_container **container) {
    dry_create_options options = dry_create_options_new();
    options.durability = durability;
    return dry_create(path, &options, container);
}

dry_status dry_fortran_writer_open(dry_container *container, int32_t rank, int32_t nranks, dry_writer **writer) {
    dry_writer_options options = dry_writer_options_new();
    options.rank = (uint32_t)rank;
    options.nranks = (uint32_t)nranks;
    return dry_writer_open(container, &options, writer);
}

/* The shape of a variable in Fortran's order, at most 8 dimensions, and the length of its step axis. */
dry_status dry_fortran_shape(dry_variable *variable, int32_t *ndim, int64_t *extents, int64_t *step_axis) {
    dry_variable_info info = dry_variable_info_new();
    const dry_status status = dry_variable_describe(variable, &info);
    uint32_t d;
    if (status != DRY_OK) return status;
    *ndim = (int32_t)info.ndim;
    *step_axis = info.has_steps ? (int64_t)info.step_axis : -1;
    for (d = 0; d < info.ndim; d++) extents[d] = (int64_t)info.shape[info.ndim - 1 - d];
    return status;
}

dry_status dry_fortran_commit(dry_container *container, int64_t *snapshot) {
    dry_commit_report report = dry_commit_report_new();
    const dry_status status = dry_commit(container, &report);
    *snapshot = (int64_t)report.snapshot;
    return status;
}

dry_status dry_fortran_recover(dry_container *container, int32_t decision, int64_t *adopted) {
    dry_recover_report report = dry_recover_report_new();
    const dry_status status = dry_recover(container, decision, NULL, 0, &report);
    *adopted = (int64_t)report.adopted;
    return status;
}

dry_status dry_fortran_create_records(dry_container *container, const char *path, const dry_member *members,
                                      int32_t member_count, int64_t size, int32_t ndim, const int64_t *extents,
                                      int32_t has_steps, const char *transform) {
    const dry_record record = dry_record_new((uint64_t)size, members, (uint32_t)member_count);
    dry_variable_options options = dry_variable_options_new();
    uint64_t shape[RANKS];
    if (ndim < 0) return refused("shape", ndim, NULL, 0);
    options.type = DRY_RECORD;
    options.record = &record;
    options.ndim = (uint32_t)(ndim > RANKS ? RANKS + 1 : ndim);
    options.shape = ndim > RANKS ? NULL : reversed(extents, (uint32_t)ndim, shape);
    options.has_steps = has_steps != 0;
    options.transform = transform;
    return dry_create_variable(container, path, &options);
}

/* Texts without trailing blanks, in the order of their elements: the row-major order of the reversed
 * dimensions. */
dry_status dry_fortran_put_strings(dry_writer *writer, const char *path, const char *member, const CFI_cdesc_t *texts,
                                   int32_t offset_count, const int64_t *offset) {
    const struct array a = describe(texts);
    uint64_t place[RANKS], index[RANKS] = {0}, cells = 1, i, *lengths;
    const uint64_t *offset_given;
    const char **values;
    uint32_t d;
    dry_status status;

    if (texts->type != CFI_type_char) return dry_set_error(DRY_INVALID_ARGUMENT, "the texts are no array of character");
    status = unfit(texts);
    if (status == DRY_OK) status = refused("offset", offset_count, offset, a.ndim);
    if (status != DRY_OK) return status;
    for (d = 0; d < a.ndim; d++) cells *= a.shape[d];
    values = (const char **)malloc((cells + 1) * sizeof *values);
    lengths = (uint64_t *)malloc((cells + 1) * sizeof *lengths);
    if (values == NULL || lengths == NULL) {
        free(values);
        free(lengths);
        return dry_set_error(DRY_IO, "there is no memory for the list of texts");
    }
    for (i = 0; i < cells; i++) {
        int64_t at = 0;
        for (d = 0; d < a.ndim; d++) at += (int64_t)index[d] * a.strides[d];
        values[i] = (const char *)texts->base_addr + at;
        for (lengths[i] = texts->elem_len; lengths[i] > 0 && values[i][lengths[i] - 1] == ' ';) lengths[i]--;
        for (d = a.ndim; d-- > 0 && ++index[d] == a.shape[d];) index[d] = 0;
    }
    offset_given = reversed(offset, a.ndim, place);
    if (member == NULL)
        status = dry_put_strings(writer, path, values, lengths, a.ndim, offset_given, a.shape);
    else
        status = dry_put_member_strings(writer, path, member, values, lengths, (size_t)cells, a.ndim, offset_given, a.shape);
    free(values);
    free(lengths);
    return status;
}

/* The axes of a box, in C's order. */
static dry_status box_axes(int64_t step, int32_t ndim, const int64_t *offset, const int64_t *counts, dry_axis *axes,
                           uint32_t *naxes) {
    const int32_t first = step == DRY_NO_STEP ? 0 : 1;
    int32_t d;
    dry_status status;
    if (ndim < -1) return refused("offset or the count", ndim, NULL, 0);
    if (ndim < 0 || ndim > RANKS)
        return dry_set_error(DRY_INVALID_ARGUMENT, "the offset and the count have different numbers of entries, or too many");
    status = refused("offset", ndim, offset, (uint32_t)ndim);
    if (status == DRY_OK) status = refused("count", ndim, counts, (uint32_t)ndim);
    if (status != DRY_OK) return status;
    memset(axes, 0, (RANKS + 1) * sizeof *axes);
    axes[0].start = (uint64_t)step;
    axes[0].count = 1;
    for (d = 0; d < ndim; d++) {
        axes[first + d].start = (uint64_t)offset[ndim - 1 - d];
        axes[first + d].count = (uint64_t)counts[ndim - 1 - d];
        axes[first + d].step = 1;
    }
    *naxes = (uint32_t)(first + ndim);
    return DRY_OK;
}

dry_status dry_fortran_read_strings(dry_variable *variable, int64_t step, int32_t ndim, const int64_t *offset,
                                    const int64_t *counts, char *text, size_t capacity, size_t *length, uint64_t *ends,
                                    size_t cells) {
    dry_axis axes[RANKS + 1];
    uint32_t naxes;
    const dry_status status = box_axes(step, ndim, offset, counts, axes, &naxes);
    if (status != DRY_OK) return status;
    return dry_read_strings(variable, naxes, axes, text, capacity, length, ends, cells);
}

/* Lists of numbers: all numbers, concatenated, and the length of each list in the shape of the block. */
dry_status dry_fortran_put_lists(dry_writer *writer, const char *path, const char *member, const CFI_cdesc_t *numbers,
                                 const CFI_cdesc_t *lengths, int32_t offset_count, const int64_t *offset) {
    const struct array row = describe(numbers), a = describe(lengths);
    uint64_t place[RANKS], index[RANKS] = {0}, cells = 1, sum = 0, i, *counts;
    const uint64_t *offset_given;
    uint32_t d;
    dry_status status = unfit(numbers);
    if (status == DRY_OK) status = unfit(lengths);
    if (status != DRY_OK) return status;
    if (a.type != DRY_INT32 && a.type != DRY_INT64)
        return dry_set_error(DRY_INVALID_ARGUMENT, "the lengths of the lists are no integers of 32 or 64 bits");
    if (row.ndim != 1 || (row.shape[0] > 0 && dense_size(numbers) == 0))
        return dry_set_error(DRY_INVALID_ARGUMENT, "the numbers of the lists are not one contiguous array");
    status = refused("offset", offset_count, offset, a.ndim);
    if (status != DRY_OK) return status;
    for (d = 0; d < a.ndim; d++) cells *= a.shape[d];
    counts = (uint64_t *)malloc((cells + 1) * sizeof *counts);
    if (counts == NULL) return dry_set_error(DRY_IO, "there is no memory for the lengths");
    for (i = 0; i < cells; i++) {
        const char *at = (const char *)lengths->base_addr;
        int64_t length;
        for (d = 0; d < a.ndim; d++) at += (int64_t)index[d] * a.strides[d];
        length = a.type == DRY_INT32 ? *(const int32_t *)at : *(const int64_t *)at;
        if (length < 0 || (uint64_t)length > row.shape[0] - sum) break;
        counts[i] = (uint64_t)length;
        sum += counts[i];
        for (d = a.ndim; d-- > 0 && ++index[d] == a.shape[d];) index[d] = 0;
    }
    offset_given = reversed(offset, a.ndim, place);
    if (i != cells || sum != row.shape[0])
        status = dry_set_error(DRY_INVALID_ARGUMENT, "the lengths of the lists do not add up to the number of numbers");
    else if (member == NULL)
        status = dry_put_lists(writer, path, row.type, numbers->base_addr, counts, a.ndim, offset_given, a.shape);
    else
        status = dry_put_member_lists(writer, path, member, row.type, numbers->base_addr, counts, (size_t)cells, a.ndim,
                                      offset_given, a.shape);
    free(counts);
    return status;
}

dry_status dry_fortran_list_lengths(dry_variable *variable, int64_t step, int32_t ndim, const int64_t *offset,
                                    const int64_t *counts, uint64_t *lengths, size_t cells) {
    dry_axis axes[RANKS + 1];
    dry_variable_info info = dry_variable_info_new();
    size_t length;
    uint32_t naxes;
    dry_status status = box_axes(step, ndim, offset, counts, axes, &naxes);
    if (status == DRY_OK) status = dry_variable_describe(variable, &info);
    if (status != DRY_OK) return status;
    return dry_read_lists(variable, (dry_type)info.length, naxes, axes, NULL, 0, &length, lengths, cells);
}

dry_status dry_fortran_read_lists(dry_variable *variable, int64_t step, int32_t ndim, const int64_t *offset,
                                  const int64_t *counts, CFI_cdesc_t *numbers) {
    const struct array row = describe(numbers);
    dry_axis axes[RANKS + 1];
    size_t length = 0;
    uint32_t naxes;
    dry_status status = box_axes(step, ndim, offset, counts, axes, &naxes);
    if (status == DRY_OK) status = unfit(numbers);
    if (status != DRY_OK) return status;
    if (row.ndim != 1 || (row.shape[0] > 0 && dense_size(numbers) == 0))
        return dry_set_error(DRY_INVALID_ARGUMENT, "the numbers of the lists are read into one contiguous array");
    status = dry_read_lists(variable, row.type, naxes, axes, NULL, 0, &length, NULL, 0);
    if (status != DRY_OK) return status;
    if (length != row.shape[0])
        return dry_set_error(DRY_INVALID_ARGUMENT, "the array does not have as many elements as the lists: list_lengths returns their lengths");
    return length == 0 ? DRY_OK
                       : dry_read_lists(variable, row.type, naxes, axes, numbers->base_addr, row.shape[0], &length, NULL, 0);
}

/* Listed cells, one element each; `naxes` coordinates per cell, in C's order. */
dry_status dry_fortran_read_points(dry_variable *variable, CFI_cdesc_t *data, int32_t naxes, const uint64_t *cells,
                                   int64_t count) {
    const struct array a = describe(data);
    dry_read_options options = dry_read_options_new();
    const dry_status status = unfit(data);
    if (status != DRY_OK) return status;
    options.strides = a.strides;
    options.item_size = item_size(&a, data);
    /* A list whose length differs from the array's is refused by the size of its memory. */
    return dry_read_points(variable, a.type, data->base_addr, a.ndim == 1 && a.shape[0] == (uint64_t)count ? a.size : 0,
                           (uint32_t)naxes, cells, (size_t)count, &options);
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */

dry_status dry_fortran_publish(dry_container *container, int32_t count, const char *const *variables, const char *compressor,
                               int64_t told[4]) {
    dry_publish_options options = dry_publish_options_new();
    dry_publish_report report = dry_publish_report_new();
    dry_status status;
    options.variable_count = (uint32_t)count;
    options.variables = variables;
    options.compressor = compressor;
    status = dry_publish(container, &options, NULL, NULL, &report);
    told[0] = (int64_t)report.snapshot;
    told[1] = (int64_t)report.written;
    told[2] = (int64_t)report.kept;
    told[3] = (int64_t)report.skipped;
    return status;
}

/* ---- rules: one box into another ---------------------------------------------------------------------------------- */

static dry_layout layout_of(const struct array *a, const int64_t *start) {
    dry_layout out;
    memset(&out, 0, sizeof out);
    out.type = a->type;
    out.ndim = a->ndim;
    out.start = start;
    out.shape = a->shape;
    out.strides = a->strides;
    return out;
}

dry_status dry_fortran_rule_compile(const CFI_cdesc_t *src, const CFI_cdesc_t *dst, int32_t start_count,
                                    const int64_t *src_start, const int64_t *dst_start, int32_t narrowing,
                                    dry_rule **rule) {
    const struct array a = describe(src), b = describe(dst);
    int64_t from[RANKS] = {0}, to[RANKS] = {0};
    dry_layout one, other;
    uint32_t d;
    dry_status status = unfit(src);
    if (status == DRY_OK) status = unfit(dst);
    if (status == DRY_OK) status = refused("start", start_count, NULL, a.ndim);
    if (status == DRY_OK) status = refused("start", start_count, NULL, b.ndim);
    if (status != DRY_OK) return status;
    for (d = 0; d < a.ndim && src_start != NULL; d++) from[d] = src_start[a.ndim - 1 - d];
    for (d = 0; d < b.ndim && dst_start != NULL; d++) to[d] = dst_start[b.ndim - 1 - d];
    one = layout_of(&a, from);
    other = layout_of(&b, to);
    return dry_rule_compile(&one, 1, &other, 1, narrowing, rule);
}

dry_status dry_fortran_rule_apply(dry_rule *rule, const CFI_cdesc_t *src, CFI_cdesc_t *dst) {
    return dry_rule_apply(rule, src->base_addr, describe(src).size, dst->base_addr, describe(dst).size);
}

/* ---- teams ------------------------------------------------------------------------------------------------------ */

dry_status dry_fortran_team_create(const char *path, int32_t durability, const dry_communicator *communicator,
                                   dry_team **team) {
    dry_create_options options = dry_create_options_new();
    options.durability = durability;
    return dry_team_create(path, &options, communicator, team);
}

dry_status dry_fortran_team_writer(dry_team *team, int32_t writers, dry_writer **writer) {
    dry_team_writer_options options = dry_team_writer_options_new();
    options.writers = (uint32_t)writers;
    return dry_team_writer_open(team, &options, writer);
}
