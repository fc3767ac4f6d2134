/* Functions that run over tiles of variables: the binary interface, version 1.
 *
 * A program passes Drystone the address of a struct drystone_function. In Python, a PyCapsule named "drystone_function"
 * holds it; drystone.function makes a capsule from an address, as numba's cfunc and ctypes provide it. A program that
 * defines functions needs this header only, and no Drystone library.
 *
 * Rules
 * - Structures begin with struct_size: the size known to the side that fills them. Later versions only append members.
 * - The function reads the input tile, and writes every element of the output tile and nothing else. It frees any
 *   memory that it allocates.
 * - It returns 0. After a failure it writes a NUL-terminated text of less than message_size bytes to message, and
 *   returns another number.
 * - DRYSTONE_FUNCTION_PURE: the result depends only on the elements of the input tile.
 * - DRYSTONE_FUNCTION_THREAD_SAFE: several threads may call it at once, with the same state.
 */
#ifndef DRYSTONE_FUNCTION_H
#define DRYSTONE_FUNCTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DRYSTONE_FUNCTION_VERSION 1
#define DRYSTONE_FUNCTION_NAME "drystone_function"
#define DRYSTONE_FUNCTION_MAX_NDIM 8
#define DRYSTONE_FUNCTION_PURE 1u
#define DRYSTONE_FUNCTION_THREAD_SAFE 2u

/* Element types: the letter of NumPy's kind, then the size in bytes, as 'f' << 8 | 4. */
#define DRYSTONE_TYPE(kind, bytes) ((uint32_t)(kind) << 8 | (uint32_t)(bytes))

/* A box of elements in memory. */
struct drystone_tile {
    uint32_t struct_size;
    uint32_t type;          /* DRYSTONE_TYPE */
    uint32_t ndim;          /* dimensions, at most 8, without the step axis */
    uint32_t message_size;  /* of an output tile: bytes at message */
    int64_t step;           /* the step, or -1 */
    void *data;             /* the first element; input tiles are read-only */
    const int64_t *origin;  /* index of the first element in the variable; negative in the halo of the first tile */
    const uint64_t *shape;  /* elements along each dimension, halo included */
    const int64_t *strides; /* bytes from one element to the next along each dimension */
    char *message;          /* of an output tile: memory for an error message */
};

/* The function: n_in input tiles (1 in this version), one output tile without halo, and its own state. */
typedef int (*drystone_function_call)(
    const struct drystone_tile *in, size_t n_in, struct drystone_tile *out, void *state);

struct drystone_function {
    uint32_t struct_size;
    uint32_t version;   /* DRYSTONE_FUNCTION_VERSION */
    uint32_t flags;     /* DRYSTONE_FUNCTION_PURE, DRYSTONE_FUNCTION_THREAD_SAFE */
    uint32_t in_type;   /* the type that it reads */
    uint32_t out_type;  /* the type that it writes */
    uint32_t ndim;      /* dimensions of its tiles */
    uint32_t halo[DRYSTONE_FUNCTION_MAX_NDIM]; /* elements on each side, by dimension */
    drystone_function_call call;
    void *state;
};

#ifdef __cplusplus
}
#endif

#endif
