/* Functions that run over tiles of variables: the binary interface, version 1.
 *
 * A program hands Drystone the address of a struct drystone_function. Python does so in a PyCapsule whose name is
 * "drystone_function" (drystone.function makes one of an address, as numba's cfunc and ctypes have it). The header has no other
 * part: whoever makes functions needs no library of Drystone's.
 *
 * Rules
 * - Structures begin with struct_size, the size that the side which fills them knows. Later versions append members only.
 * - The function reads the input tile and writes every element of the output tile, and nothing else. It allocates what it likes, and
 *   frees it.
 * - It returns 0, or another number after it has put a text of less than message_size bytes, ended by 0, into message.
 * - With DRYSTONE_FUNCTION_PURE the result depends on the elements of the input tile alone.
 * - With DRYSTONE_FUNCTION_THREAD_SAFE several threads may call it at once, with the same state.
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

/* Types of elements: the letter of NumPy's kind, then the bytes, as 'f' << 8 | 4. */
#define DRYSTONE_TYPE(kind, bytes) ((uint32_t)(kind) << 8 | (uint32_t)(bytes))

/* A box of elements in memory. */
struct drystone_tile {
    uint32_t struct_size;
    uint32_t type;          /* DRYSTONE_TYPE */
    uint32_t ndim;          /* dimensions, at most 8, without the step axis */
    uint32_t message_size;  /* of an output tile: bytes at message */
    int64_t step;           /* the step, or -1 */
    void *data;             /* the first element; of an input tile it is not to be written */
    const int64_t *origin;  /* the place of the first element in the variable; below 0 in the halo of the first tile */
    const uint64_t *shape;  /* elements along each dimension, the halo among them */
    const int64_t *strides; /* bytes from one element to the next along each dimension */
    char *message;          /* of an output tile: room for the text of an error */
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
