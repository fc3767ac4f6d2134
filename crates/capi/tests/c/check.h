/* Checks that end the program with the source position and the library's message. */
#ifndef CHECK_H
#define CHECK_H

#include "drystone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The call succeeds. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        dry_status status_ = (call);                                                                                   \
        if (status_ != DRY_OK) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, dry_status_name(status_),                \
                    dry_last_error());                                                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The call fails with this status and a message that holds the text. */
#define FAILS(expected, text, call)                                                                                    \
    do {                                                                                                               \
        dry_status status_ = (call);                                                                                   \
        if (status_ != (expected) || strstr(dry_last_error(), text) == NULL) {                                         \
            fprintf(stderr, "%s:%d: %s: %s: %s\n  expected: %s: ...%s...\n", __FILE__, __LINE__, #call,                \
                    dry_status_name(status_), status_ == DRY_OK ? "" : dry_last_error(), dry_status_name(expected),    \
                    text);                                                                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
