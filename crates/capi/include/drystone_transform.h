/*
 * Codecs of your own for Drystone: the interface between the engine and a plug-in. docs/guide/plugins.md is its guide.
 *
 * A plug-in is a shared library that exports drystone_codec(). The engine loads it if the configuration file that
 * DRYSTONE_CONFIG names lists it. Its codecs can then be used in transforms like any other. See examples/plugin.
 *
 * What holds everywhere
 * - A codec turns the bytes of one subchunk (at most 16 MiB) into other bytes, and back. The engine cuts blocks, runs
 *   threads, verifies checksums before decoding, and stores the applied chain with the data.
 * - Several threads may call a function at once, with the same state, which functions do not change.
 * - The caller owns all memory: a function reads its input, writes at most `capacity` bytes, and keeps no pointer.
 * - Functions return DRY_CODEC_OK or an error code; dry_codec_host.say takes a sentence about it. Encoded bytes and
 *   metadata are untrusted: whatever they contain, a function returns, and touches no other memory.
 * - Structures begin with struct_size, so both sides may differ in version. Fields named `reserved` are 0.
 */
#ifndef DRYSTONE_TRANSFORM_H
#define DRYSTONE_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface. Each incompatible change increments it. */
#define DRYSTONE_TRANSFORM_ABI 1u

/** The result of a function. */
enum {
    DRY_CODEC_OK = 0,
    DRY_CODEC_DAMAGED = 1,    /* encoded bytes or metadata that this codec cannot have made */
    DRY_CODEC_INVALID = 2,    /* invalid parameters, or an unsupported kind of data */
    DRY_CODEC_UNSUPPORTED = 3 /* made by a newer version of the codec */
};

/** The kind of a scalar. */
enum {
    DRY_CODEC_OTHER = 0, /* text, records, anything without an order */
    DRY_CODEC_BOOL = 1,
    DRY_CODEC_INT8 = 2,
    DRY_CODEC_INT16 = 3,
    DRY_CODEC_INT32 = 4,
    DRY_CODEC_INT64 = 5,
    DRY_CODEC_UINT8 = 6,
    DRY_CODEC_UINT16 = 7,
    DRY_CODEC_UINT32 = 8,
    DRY_CODEC_UINT64 = 9,
    DRY_CODEC_FLOAT16 = 10,
    DRY_CODEC_BFLOAT16 = 11,
    DRY_CODEC_FLOAT32 = 12,
    DRY_CODEC_FLOAT64 = 13
};

/** dry_codec.flags. */
enum {
    DRY_CODEC_LOSSY = 1,       /* decoding is not exact; readers are told that the error is unknown */
    DRY_CODEC_MAY_GROW = 2,    /* may be longer than the data, for the sake of partial reads */
    DRY_CODEC_KEEPS_VALUES = 4 /* the encoded bytes contain every value in its place */
};

/** Receives error messages. */
typedef struct dry_codec_host {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    void (*say)(void *context, const char *sentence);
} dry_codec_host;

/** A subchunk. All codecs of a chain get the same description, though only the first one gets these elements. */
typedef struct dry_codec_subchunk {
    uint32_t struct_size;
    uint32_t kind;         /* of a scalar */
    uint64_t element_size; /* in bytes; a complex number or vector counts whole */
    uint64_t scalar_size;
    uint64_t ndim;
    const uint64_t *shape; /* elements along each axis, slowest first */
} dry_codec_subchunk;

/** A half-open range of bytes. */
typedef struct dry_codec_range {
    uint64_t start;
    uint64_t end;
} dry_codec_range;

/** Encoded bytes that have not been read yet. */
typedef struct dry_codec_stored {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t length;
    uint64_t decoded_length;
    const uint8_t *meta; /* the first meta_length() bytes of the encoded bytes */
    uint64_t meta_length;
} dry_codec_stored;

/** dry_codec_want.precision. */
enum { DRY_CODEC_EXACT = 0, DRY_CODEC_ABSOLUTE = 1, DRY_CODEC_RELATIVE = 2, DRY_CODEC_LEVEL = 3 };

/** What is wanted of a subchunk: ranges of decoded bytes, ascending and disjoint, and the required accuracy. */
typedef struct dry_codec_want {
    uint32_t struct_size;
    uint32_t precision;
    double max_error; /* with DRY_CODEC_ABSOLUTE and DRY_CODEC_RELATIVE */
    uint32_t level;   /* with DRY_CODEC_LEVEL: number of components, at least 1 */
    uint32_t reserved;
    uint64_t count;
    const dry_codec_range *ranges;
} dry_codec_want;

/** Receives the needs of plan_read(). */
typedef struct dry_codec_plan {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    /** Requests encoded bytes; ranges ascend. If the result is not DRY_CODEC_OK, return it. */
    int32_t (*read)(void *context, uint64_t start, uint64_t end);
    /** Reports the largest error of the values, compared with the encoded ones. If not called: exact. */
    void (*bound)(void *context, double absolute, double relative);
} dry_codec_plan;

/** The input and output of decode_part(). */
typedef struct dry_codec_parts {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    /** Encoded bytes within what plan_read() requested; NULL for others. */
    const uint8_t *(*fetched)(void *context, uint64_t start, uint64_t end);
    /** Memory for decoded bytes, to be filled completely; NULL outside the subchunk. May exceed the want. */
    uint8_t *(*place)(void *context, uint64_t start, uint64_t end);
} dry_codec_parts;

/** One codec. It must stay valid as long as the process runs. */
typedef struct dry_codec {
    uint32_t struct_size; /* sizeof(dry_codec) */
    uint32_t abi;         /* DRYSTONE_TRANSFORM_ABI */
    const char *name;     /* in transforms: a lower-case letter, then letters, digits, '_', '.' and '-' */
    uint64_t flags;
    /** Parses the parameters after the name and ':' in the transform, such as `3,mode="fast"`; empty if there are none.
     *  NULL: the codec takes none, and state is NULL. */
    int32_t (*open)(const char *parameters, void **state, const dry_codec_host *host);
    void (*close)(void *state); /* may be NULL */
    /** Longest encoded form of a number of bytes. The engine allows at most three times as many bytes and 64 KiB. */
    uint64_t (*max_encoded_length)(const void *state, uint64_t decoded_length);
    int32_t (*encode)(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *data, uint64_t length, uint8_t *out,
                      uint64_t capacity, uint64_t *written, const dry_codec_host *host);
    /** Fills `out`, whose length is exactly the decoded one, or reports damage. */
    int32_t (*decode)(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *encoded, uint64_t length,
                      uint8_t *out, uint64_t decoded_length, const dry_codec_host *host);

    /* The following functions make partial reads possible: define all three, or none. */

    /** Length of the metadata at the start of `encoded` that plan_read() needs; the engine stores it beside the
     *  subchunk. */
    uint64_t (*meta_length)(const void *state, const uint8_t *encoded, uint64_t length);
    /** Computes from the metadata which encoded bytes the want needs. */
    int32_t (*plan_read)(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                         const dry_codec_want *want, const dry_codec_plan *plan, const dry_codec_host *host);
    /** Decodes what is wanted from the bytes that plan_read() requested, given the same arguments. */
    int32_t (*decode_part)(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                           const dry_codec_want *want, const dry_codec_parts *parts, const dry_codec_host *host);
} dry_codec;

/** The codecs of a plug-in, by number from 0; NULL after the last one. `abi` is the engine's
 *  DRYSTONE_TRANSFORM_ABI. */
const dry_codec *drystone_codec(uint32_t abi, uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
