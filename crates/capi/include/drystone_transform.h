/*
 * Codecs of your own for Drystone: the interface between the engine and a plug-in. docs/guide/plugins.md is the guide to this header.
 *
 * A plug-in is a shared library that exports drystone_codec(). It is loaded if the configuration that DRYSTONE_CONFIG names lists
 * its file; its codecs are then names in transforms like any other. examples/plugin is one.
 *
 * What holds everywhere
 * - A codec turns the bytes of one subchunk (at most 16 MiB) into other bytes, and back. The engine cuts, threads, verifies
 *   checksums before anything is decoded, and keeps what was applied with the data.
 * - Functions are called from several threads at once, also with the same state, which they do not change.
 * - Memory is the caller's: a function reads what it is given, writes at most `capacity` bytes, and keeps no pointer.
 * - Functions give DRY_CODEC_OK or what went wrong, of which dry_codec_host.say takes a sentence. Encoded bytes and
 *   metadata come from outside: whatever they hold, a function returns, and touches nothing else.
 * - Structures begin with struct_size, so both sides may be of different versions. Fields named `reserved` are 0.
 */
#ifndef DRYSTONE_TRANSFORM_H
#define DRYSTONE_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this interface; it is counted up by what older plug-ins would not survive. */
#define DRYSTONE_TRANSFORM_ABI 1u

/** What a function found. */
enum {
    DRY_CODEC_OK = 0,
    DRY_CODEC_DAMAGED = 1,    /* encoded bytes or metadata are not what this codec makes */
    DRY_CODEC_INVALID = 2,    /* parameters, or data of a kind that it does not take */
    DRY_CODEC_UNSUPPORTED = 3 /* made by a newer version of the codec */
};

/** What a scalar is. */
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
    DRY_CODEC_LOSSY = 1,       /* decoding gives back something else; readers are told that the error is not known */
    DRY_CODEC_MAY_GROW = 2,    /* worth keeping though longer than the data, for what can be read of it */
    DRY_CODEC_KEEPS_VALUES = 4 /* the encoded bytes hold every value in its place */
};

/** Who is told what went wrong. */
typedef struct dry_codec_host {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    void (*say)(void *context, const char *sentence);
} dry_codec_host;

/** What a subchunk is. In a chain of codecs every one is told the same, though only the first one sees these very elements. */
typedef struct dry_codec_subchunk {
    uint32_t struct_size;
    uint32_t kind;         /* of a scalar */
    uint64_t element_size; /* in bytes; a complex number or vector counts whole */
    uint64_t scalar_size;
    uint64_t ndim;
    const uint64_t *shape; /* elements along each axis, slowest first */
} dry_codec_subchunk;

/** Bytes from start up to end, without end. */
typedef struct dry_codec_range {
    uint64_t start;
    uint64_t end;
} dry_codec_range;

/** Encoded bytes of which nothing was read yet. */
typedef struct dry_codec_stored {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t length;
    uint64_t decoded_length;
    const uint8_t *meta; /* what meta_length() counted, at the head of the encoded bytes */
    uint64_t meta_length;
} dry_codec_stored;

/** dry_codec_want.precision. */
enum { DRY_CODEC_EXACT = 0, DRY_CODEC_ABSOLUTE = 1, DRY_CODEC_RELATIVE = 2, DRY_CODEC_LEVEL = 3 };

/** What is asked of a subchunk: decoded bytes, ascending and disjoint, and how exact they have to be. */
typedef struct dry_codec_want {
    uint32_t struct_size;
    uint32_t precision;
    double max_error; /* with DRY_CODEC_ABSOLUTE and DRY_CODEC_RELATIVE */
    uint32_t level;   /* with DRY_CODEC_LEVEL: so many components, from 1 */
    uint32_t reserved;
    uint64_t count;
    const dry_codec_range *ranges;
} dry_codec_want;

/** Where plan_read() tells what it needs. */
typedef struct dry_codec_plan {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    /** Asks for encoded bytes; ranges ascend. Not DRY_CODEC_OK: give up with that. */
    int32_t (*read)(void *context, uint64_t start, uint64_t end);
    /** Tells the largest error that the values will have, against those that were encoded. Without it they are exact. */
    void (*bound)(void *context, double absolute, double relative);
} dry_codec_plan;

/** Where decode_part() finds what was asked for, and puts what it makes of it. */
typedef struct dry_codec_parts {
    uint32_t struct_size;
    uint32_t reserved;
    void *context;
    /** Encoded bytes that plan_read() asked for, or some of them; NULL if they were not. */
    const uint8_t *(*fetched)(void *context, uint64_t start, uint64_t end);
    /** The place of decoded bytes, to be filled whole; NULL outside of the subchunk. Pieces may be larger than what is wanted. */
    uint8_t *(*place)(void *context, uint64_t start, uint64_t end);
} dry_codec_parts;

/** One codec. A plug-in keeps it as long as it is loaded, which is as long as the process runs. */
typedef struct dry_codec {
    uint32_t struct_size; /* sizeof(dry_codec) */
    uint32_t abi;         /* DRYSTONE_TRANSFORM_ABI */
    const char *name;     /* in transforms: a lower-case letter, then letters, digits, '_', '.' and '-' */
    uint64_t flags;
    /** Reads the parameters as the transform has them behind the name and ':', such as `3,mode="fast"`; empty if there are none.
     *  NULL: the codec takes none, and state is NULL. */
    int32_t (*open)(const char *parameters, void **state, const dry_codec_host *host);
    void (*close)(void *state); /* may be NULL */
    /** Longest encoded form of so many bytes; at most three times as many and 64 KiB are used. */
    uint64_t (*max_encoded_length)(const void *state, uint64_t decoded_length);
    int32_t (*encode)(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *data, uint64_t length, uint8_t *out,
                      uint64_t capacity, uint64_t *written, const dry_codec_host *host);
    /** Fills `out`, whose length is the exact decoded one, or finds the bytes damaged. */
    int32_t (*decode)(const void *state, const dry_codec_subchunk *subchunk, const uint8_t *encoded, uint64_t length,
                      uint8_t *out, uint64_t decoded_length, const dry_codec_host *host);

    /* What follows is for codecs of which parts can be read: all three, or none. */

    /** How many bytes at the head of `encoded` have to be known for plan_read(); they are kept beside the subchunk. */
    uint64_t (*meta_length)(const void *state, const uint8_t *encoded, uint64_t length);
    /** Which encoded bytes the want needs: arithmetic on the metadata. */
    int32_t (*plan_read)(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                         const dry_codec_want *want, const dry_codec_plan *plan, const dry_codec_host *host);
    /** Decodes what is wanted from what plan_read() asked for with the same arguments. */
    int32_t (*decode_part)(const void *state, const dry_codec_subchunk *subchunk, const dry_codec_stored *stored,
                           const dry_codec_want *want, const dry_codec_parts *parts, const dry_codec_host *host);
} dry_codec;

/** The codecs of a plug-in, by number from 0; NULL behind the last one. `abi` is the engine's DRYSTONE_TRANSFORM_ABI. */
const dry_codec *drystone_codec(uint32_t abi, uint32_t number);

#ifdef __cplusplus
}
#endif

#endif
