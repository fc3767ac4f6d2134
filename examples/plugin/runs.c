/*
 * Two example codecs, as a plug-in.
 *
 * `runs` writes runs of equal bytes as (count, byte): an opaque codec with the minimal functions. `runs:N` limits a run to
 * N bytes. `mirror` reverses the data, last byte first: any part can be read separately.
 *
 *     cc -std=c99 -shared -fPIC -I crates/capi/include -o runs.so examples/plugin/runs.c
 */
#include <drystone_transform.h>
#include <stdlib.h>

/* ---- runs ---- */

static int32_t runs_open(const char *parameters, void **state, const dry_codec_host *host) {
    char *end = NULL;
    long longest = *parameters ? strtol(parameters, &end, 10) : 255;
    if ((end && *end) || longest < 1 || longest > 255) {
        host->say(host->context, "takes the length of the longest run, 1 to 255, as in runs:64");
        return DRY_CODEC_INVALID;
    }
    *state = malloc(sizeof longest);
    if (!*state) return DRY_CODEC_INVALID;
    *(long *)*state = longest;
    return DRY_CODEC_OK;
}

static uint64_t runs_most(const void *state, uint64_t length) {
    (void)state;
    return 2 * length;
}

static int32_t runs_encode(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *data, uint64_t length,
                           uint8_t *out, uint64_t capacity, uint64_t *written, const dry_codec_host *host) {
    const uint64_t longest = (uint64_t) * (const long *)state;
    uint64_t at = 0, to = 0;
    (void)subchunk;
    while (at < length) {
        uint64_t n = 1;
        while (n < longest && at + n < length && data[at + n] == data[at]) n++;
        if (capacity - to < 2) {
            host->say(host->context, "there is too little room");
            return DRY_CODEC_INVALID;
        }
        out[to++] = (uint8_t)n;
        out[to++] = data[at];
        at += n;
    }
    *written = to;
    return DRY_CODEC_OK;
}

static int32_t runs_decode(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *encoded, uint64_t length,
                           uint8_t *out, uint64_t decoded_length, const dry_codec_host *host) {
    uint64_t at = 0, to = 0;
    (void)state, (void)subchunk;
    for (; at + 2 <= length; at += 2) {
        uint64_t n = encoded[at];
        if (n == 0 || n > decoded_length - to) break;
        while (n--) out[to++] = encoded[at + 1];
    }
    if (at != length || to != decoded_length) {
        host->say(host->context, "the runs do not make up the data");
        return DRY_CODEC_DAMAGED;
    }
    return DRY_CODEC_OK;
}

static const dry_codec runs = {
    sizeof(dry_codec), DRYSTONE_TRANSFORM_ABI, "runs", 0, runs_open, free, runs_most, runs_encode, runs_decode, NULL, NULL, NULL,
};

/* ---- mirror ---- */

static uint64_t mirror_most(const void *state, uint64_t length) {
    (void)state;
    return length;
}

static void turn(const uint8_t *from, uint64_t length, uint8_t *to) {
    uint64_t i;
    for (i = 0; i < length; i++) to[i] = from[length - 1 - i];
}

static int32_t mirror_encode(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *data, uint64_t length,
                             uint8_t *out, uint64_t capacity, uint64_t *written, const dry_codec_host *host) {
    (void)state, (void)subchunk, (void)host;
    if (capacity < length) return DRY_CODEC_INVALID;
    turn(data, length, out);
    *written = length;
    return DRY_CODEC_OK;
}

static int32_t mirror_decode(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *encoded, uint64_t length,
                             uint8_t *out, uint64_t decoded_length, const dry_codec_host *host) {
    (void)state, (void)subchunk, (void)host;
    if (length != decoded_length) return DRY_CODEC_DAMAGED;
    turn(encoded, length, out);
    return DRY_CODEC_OK;
}

static uint64_t mirror_meta(const void *state, const uint8_t *encoded, uint64_t length) {
    (void)state, (void)encoded, (void)length;
    return 0;
}

static int32_t mirror_plan(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                           const dry_codec_want *want, const dry_codec_plan *plan, const dry_codec_host *host) {
    uint64_t i;
    (void)state, (void)subchunk, (void)host;
    if (stored->length != stored->decoded_length) return DRY_CODEC_DAMAGED;
    for (i = want->count; i-- > 0;) {
        const dry_codec_range r = want->ranges[i];
        int32_t status = plan->read(plan->context, stored->length - r.end, stored->length - r.start);
        if (status != DRY_CODEC_OK) return status;
    }
    return DRY_CODEC_OK;
}

static int32_t mirror_part(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                           const dry_codec_want *want, const dry_codec_parts *parts, const dry_codec_host *host) {
    uint64_t i;
    (void)state, (void)subchunk, (void)host;
    for (i = 0; i < want->count; i++) {
        const dry_codec_range r = want->ranges[i];
        const uint8_t *from = parts->fetched(parts->context, stored->length - r.end, stored->length - r.start);
        uint8_t *to = parts->place(parts->context, r.start, r.end);
        if (!from || !to) return DRY_CODEC_DAMAGED;
        turn(from, r.end - r.start, to);
    }
    return DRY_CODEC_OK;
}

static const dry_codec mirror = {
    sizeof(dry_codec), DRYSTONE_TRANSFORM_ABI, "mirror", 0, NULL, NULL, mirror_most, mirror_encode,
    mirror_decode, mirror_meta, mirror_plan, mirror_part,
};

/* ---- both ---- */

const dry_codec *drystone_codec(uint32_t abi, uint32_t number) {
    static const dry_codec *const all[] = {&runs, &mirror};
    return abi == DRYSTONE_TRANSFORM_ABI && number < sizeof all / sizeof *all ? all[number] : NULL;
}
