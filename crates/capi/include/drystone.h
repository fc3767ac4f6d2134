/*
 * Drystone in C: an array store for simulations and for the people who analyse them. docs/guide/c.md is the guide to this header.
 *
 * What holds everywhere
 * - Functions return a dry_status: DRY_OK, or what kind of failure it was; dry_last_error() is then its message.
 * - Handles (dry_container *, dry_writer *, ...) are opaque and never followed. NULL, closed and foreign handles, and those
 *   of another kind, are DRY_INVALID_ARGUMENT. Every handle that was given out is closed once; closing NULL does nothing.
 *   On failure a handle that would have been given out is NULL.
 * - Structures begin with struct_size: set it to sizeof of the structure and what you do not need to 0; the inline functions
 *   dry_..._new() do so. Header and library may so be of different versions. NULL in place of options: all as usual. A field
 *   named `reserved` is 0.
 * - Memory is the caller's. `size` is in bytes, from the first byte the library may touch to the last; what does not fit is
 *   refused before a byte moves. Nothing is kept after a function has returned.
 * - Results of unknown size go into (buffer, capacity, place for the number needed). To ask for the number give NULL and 0.
 *   A capacity that is too small is DRY_BUFFER_TOO_SMALL, and the number needed is stored all the same. Texts end with NUL:
 *   they need one char more than the length that is stored.
 * - Any thread may call any function, also with the same handle. A writer takes its calls one after the other.
 * - After fork() a child opens handles of its own; it may close those of its parent.
 * - Texts are UTF-8. Steps are numbers from 0 on; DRY_NO_STEP stands for none.
 */
#ifndef DRYSTONE_H
#define DRYSTONE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statuses and messages -------------------------------------------------------------------------------------- */

/** DRY_OK or a kind of failure. */
typedef int32_t dry_status;
enum {
    DRY_OK = 0,
    DRY_NOT_FOUND = 1,        /* a container, variable, step, block, snapshot or attribute that is not there */
    DRY_CORRUPT = 2,          /* stored bytes are not what was written */
    DRY_CONFLICT = 3,         /* somebody else did something that excludes this */
    DRY_UNSUPPORTED = 4,      /* this version, or this store, cannot do it */
    DRY_INVALID_ARGUMENT = 5, /* an argument is wrong: handles, sizes, types, names */
    DRY_OUT_OF_RANGE = 6,     /* cells outside of the array */
    DRY_IO = 7,               /* the medium failed */
    DRY_CANCELLED = 8,        /* the caller asked to stop */
    DRY_BUFFER_TOO_SMALL = 9, /* ask for the size, and give a larger buffer */
    DRY_INTERNAL = 10,        /* a mistake in drystone: please report it */
    DRY_PERMISSION = 11,      /* rights are missing: of a file, or at a store */
    DRY_DEADLINE = 12,        /* a request's time ran out; a change may have been done */
    DRY_NOT_YET_HOME = 13     /* the bytes are in a tier of another node, and on their way */
};

/** Message of this thread's last failure: what was attempted, what was found, what to do. Empty before the first; it stays
 *  where it is until the next failure in this thread. */
const char *dry_last_error(void);

/** The same, copied. It does not change the message itself. */
dry_status dry_error_message(char *text, size_t capacity, size_t *length);

/** Makes `message` this thread's last one and returns `status`; with DRY_OK it does nothing. For what stands on this library and
 *  refuses something itself, and before dry_team_agree, which tells it to the other ranks. */
dry_status dry_set_error(dry_status status, const char *message);

/** The name of a status, such as "DRY_NOT_FOUND". */
const char *dry_status_name(dry_status status);

/** The interface of this header; it is counted up by what older programs would not survive. */
#define DRY_ABI 1u

/** The version of the library, such as "0.1.0". */
const char *dry_version(void);

/** DRY_UNSUPPORTED if the library does not serve programs compiled with that header: dry_check_abi(DRY_ABI). */
dry_status dry_check_abi(uint32_t header);

enum {
    DRY_LOG_NOTE = 1,   /* such as a step that waits for some ranks */
    DRY_LOG_WARNING = 2 /* such as a snapshot that a power cut took */
};

/** Is told what a person should know although nothing failed. It is called by the thread whose call has something to tell,
 *  perhaps by several at once, must not throw or jump out, and may call the library. `message` is gone afterwards. */
typedef void (*dry_log_callback)(void *context, int32_t level, const char *message);

/** Sets who is told, for the whole process. NULL, as in the beginning: warnings go to standard error, notes nowhere. */
dry_status dry_set_log(dry_log_callback callback, void *context);

/* ---- element types ---------------------------------------------------------------------------------------------- */

/** The type of an element. In memory numbers are as the processor has them; complex numbers are real, imaginary. */
typedef int32_t dry_type;
enum {
    DRY_BOOL = 1, /* one byte, 0 or 1 */
    DRY_INT8 = 2,
    DRY_INT16 = 3,
    DRY_INT32 = 4,
    DRY_INT64 = 5,
    DRY_UINT8 = 6,
    DRY_UINT16 = 7,
    DRY_UINT32 = 8,
    DRY_UINT64 = 9,
    DRY_FLOAT16 = 10,
    DRY_BFLOAT16 = 11,
    DRY_FLOAT32 = 12,
    DRY_FLOAT64 = 13,
    DRY_COMPLEX64 = 14,
    DRY_COMPLEX128 = 15,
    DRY_BYTES = 16,   /* `length` bytes, filled up with 0 */
    DRY_UNICODE = 17, /* `length` code points of 4 bytes (UTF-32), filled up with 0 */
    DRY_STRING = 18,  /* UTF-8 of any length */
    DRY_RECORD = 19,  /* members at offsets, as in a C struct */
    DRY_RAGGED = 20   /* lists of numbers of any length; `length` is the dry_type of the numbers */
};

typedef struct dry_record dry_record;

/** A member of a record: `ndim` = 0 for one element, else an array of `shape`. */
typedef struct dry_member {
    const char *name;
    dry_type type;
    uint32_t length;          /* of DRY_BYTES and DRY_UNICODE, else 0 */
    uint64_t offset;          /* offsetof */
    const dry_record *record; /* of DRY_RECORD, else NULL */
    const uint64_t *shape;
    uint32_t ndim;
    uint32_t reserved;
} dry_member;

/** A record: the members of a C struct. */
struct dry_record {
    uint32_t struct_size;
    uint32_t member_size; /* sizeof(dry_member) */
    uint64_t item_size;   /* sizeof of the C struct */
    const dry_member *members;
    uint32_t member_count;
    uint32_t reserved;
};

/* ---- containers ------------------------------------------------------------------------------------------------- */

typedef struct dry_container dry_container;

/** What is promised about crashes; chosen once, for ever. */
enum {
    DRY_ASYNC = 0,   /* nothing committed is lost by a kill; a power cut may take what came after the last flush */
    DRY_DURABLE = 1, /* what is committed is on stable storage */
    DRY_MEMORY = 2   /* never synced */
};

enum {
    DRY_READ = 0,       /* to read; the container exists */
    DRY_READ_WRITE = 1, /* to read and write; the container exists */
    DRY_APPEND = 2      /* to read and write; created if it is not there */
};

typedef struct dry_create_options {
    uint32_t struct_size;
    int32_t durability;
    const char *redundancy; /* "partner", "xor:8", "rs:8+2": how steps in tiers survive the loss of nodes; NULL: "none" */
    uint32_t tiers;         /* 1: blocks may lie in tiers before they are in the container's store; `redundancy` needs it */
    uint32_t reserved;
} dry_create_options;

/** A container at the snapshot of its handle. */
typedef struct dry_container_info {
    uint32_t struct_size;
    int32_t durability;
    uint64_t snapshot;       /* its number; 0 before the first commit */
    uint64_t time;           /* nanoseconds since 1970 at which it was committed */
    uint64_t step_axis;      /* last step + 1; 0 before any */
    uint64_t step_count;     /* steps that are present */
    uint64_t variable_count;
    uint8_t uuid[16];
    uint32_t writable;
    uint32_t reserved;
} dry_container_info;

typedef struct dry_commit_report {
    uint32_t struct_size;
    uint32_t changed;    /* was anything new? */
    uint64_t snapshot;   /* which now holds it */
    uint64_t incomplete; /* steps that some ranks have closed and others not; the log tells which */
} dry_commit_report;

/** Creates a container: a folder, or at a URL such as s3://bucket/run.dry, with options from the environment (docs/guide/far-stores.md).
 *  DRY_CONFLICT if there is one. */
dry_status dry_create(const char *path, const dry_create_options *options, dry_container **container);

/** Opens a container, by its path or a URL. DRY_NOT_FOUND if there is none, DRY_UNSUPPORTED if a newer version wrote it. */
dry_status dry_open(const char *path, int32_t mode, dry_container **container);

/** Opens an earlier snapshot for reading; it never changes. 0 is the empty one before the first commit. */
dry_status dry_open_snapshot(dry_container *container, uint64_t snapshot, dry_container **earlier);

/** Closes the handle. Variables, fragments and writers opened from it go on until they are closed. What lies in its tiers is brought home. */
dry_status dry_container_close(dry_container *container);

dry_status dry_container_describe(dry_container *container, dry_container_info *info);

/** Moves the handle to the newest snapshot; `changed` (or NULL) gets 1 if it is another one. Handles of variables and
 *  fragments stay at theirs. */
dry_status dry_refresh(dry_container *container, int32_t *changed);

/** Numbers of the snapshots that can be read, ascending. */
dry_status dry_snapshots(dry_container *container, uint64_t *snapshots, size_t capacity, size_t *count);

/** Committed steps of the handle's snapshot, ascending. */
dry_status dry_steps(dry_container *container, uint64_t *steps, size_t capacity, size_t *count);

/** Makes visible what writers have closed: steps that all their ranks have closed, and all steps of writers without ranks.
 *  One process does it. With nothing new the snapshot stays. DRY_CONFLICT if one rank of a step was closed twice. */
dry_status dry_commit(dry_container *container, dry_commit_report *report);

/** Makes everything committed so far survive a power cut; `snapshot` (or NULL) gets its number. */
dry_status dry_flush(dry_container *container, uint64_t *snapshot);

/** What to do with steps that a dead run completed but did not commit. */
enum {
    DRY_ADOPT_ALL = 0,
    DRY_ADOPT_NONE = 1,
    DRY_ADOPT_THESE = 2,
    DRY_ADOPT_OTHERS = 3 /* all but these */
};

typedef struct dry_recover_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t run;        /* that begins now */
    uint64_t snapshot;
    uint64_t adopted;    /* steps that became visible */
    uint64_t discarded;  /* complete steps that were dropped as asked */
    uint64_t incomplete; /* steps dropped because some rank had not closed them */
    uint64_t rebuilt;    /* steps of which parts were rebuilt from what other nodes kept, and none is lost */
} dry_recover_report;

/** Settles what a dead run left, shuts its writers out, and begins a new run, on any number of ranks. */
dry_status dry_recover(dry_container *container, int32_t decision, const uint64_t *steps, size_t step_count,
                       dry_recover_report *report);

/** The same where these nodes are lost for good: what only their tiers had is rebuilt from other nodes, or given up. */
dry_status dry_recover_without(dry_container *container, int32_t decision, const uint64_t *steps, size_t step_count,
                               const char *const *lost_nodes, size_t lost_count, dry_recover_report *report);

/* ---- tiers and levels (docs/guide/tiers.md, docs/guide/levels.md, docs/guide/redundancy.md) -------------------------- */

/** How safe a step is, ascending; each level includes the ones before it. */
enum {
    DRY_RECEIVED = 0, /* in the memory of an engine or a server */
    DRY_NODE = 1,     /* in a tier of its node: it survives the process */
    DRY_PARTNER = 2,  /* kept by other nodes, too */
    DRY_HOME = 3,     /* in the container's store */
    DRY_STABLE = 4    /* on stable storage there */
};

/** Lays down what is written from now on in folders nearer than the container's store, nearest first, from which a thread of the handle
 *  brings it home; what dead processes of this node left in them goes home, too. `budgets` (or NULL): the most bytes of the container in
 *  each, 0: as there is room. In a team every rank calls it with folders of its node. DRY_UNSUPPORTED if the container was created without
 *  tiers. */
dry_status dry_use_tiers(dry_container *container, const char *const *folders, const uint64_t *budgets, size_t count);

/** The level of each committed step, ascending by step; either array may be NULL. */
dry_status dry_levels(dry_container *container, uint64_t *steps, int32_t *levels, size_t capacity, size_t *count);

/** Waits until a step is committed and has this level or a higher one; DRY_DEADLINE after `timeout` seconds, if that is not negative. */
dry_status dry_wait(dry_container *container, uint64_t step, int32_t level, double timeout);

/** Brings home what lies in the handle's tiers; DRY_DEADLINE after `timeout` seconds, if that is not negative. */
dry_status dry_drain(dry_container *container, double timeout);

typedef struct dry_verify_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t entries;   /* of the index */
    uint64_t bytes;     /* of payload */
    uint64_t manifests;
    uint64_t damaged;   /* places that cannot be read as they were written; the log tells which */
} dry_verify_report;

/** Is told how far it is; anything but 0 stops (DRY_CANCELLED). */
typedef int32_t (*dry_progress)(void *context, uint64_t done, uint64_t total);

/** Checks every byte the handle's snapshot refers to. Damage is counted, not a failure of this call. */
dry_status dry_verify(dry_container *container, dry_progress progress, void *context, dry_verify_report *report);

/* ---- publishing: the replica that other tools read (docs/guide/publishing.md) ------------------------------------------ */

typedef struct dry_publish_options {
    uint32_t struct_size;
    uint32_t variable_count;
    const char *const *variables; /* their paths; NULL: all */
    uint64_t memory;              /* bytes that may be used; 0: as usual */
    const char *compressor;       /* "auto", "none" or "zstd:LEVEL"; NULL: auto */
} dry_publish_options;

typedef struct dry_publish_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t snapshot;     /* that is published now */
    uint64_t arrays;       /* of the Zarr hierarchy */
    uint64_t written;      /* shards written */
    uint64_t kept;         /* shards that were right already */
    uint64_t stored_bytes; /* of the shards written */
    uint64_t skipped;      /* variables that have no such form; the log tells why */
} dry_publish_report;

/** Publishes what is committed as Zarr arrays in the container's folder; again, and only what changed is written. One process
 *  at a time, else DRY_CONFLICT. `progress` may be NULL. */
dry_status dry_publish(dry_container *container, const dry_publish_options *options, dry_progress progress, void *context,
                       dry_publish_report *report);

/* ---- schema ----------------------------------------------------------------------------------------------------- */

/** An extent that grows as blocks are put. */
#define DRY_GROWS UINT64_MAX

typedef struct dry_variable_options {
    uint32_t struct_size;
    dry_type type;
    uint32_t length;          /* of DRY_BYTES, DRY_UNICODE and DRY_RAGGED */
    uint32_t ndim;            /* without the step axis; at most 8 */
    const dry_record *record; /* of DRY_RECORD */
    const uint64_t *shape;    /* ndim extents, or DRY_GROWS */
    const char *const *dims;  /* ndim names, or NULL */
    const char *transform;    /* such as "shuffle,zstd:1", or NULL */
    const uint64_t *chunks;   /* into which blocks are cut, or NULL */
    uint32_t chunk_ndim;      /* entries of chunks */
    uint32_t has_steps;       /* one array per output time */
    uint32_t local;           /* one value or array of any shape per writer and step; ndim is 0 */
    uint32_t dims_count;      /* entries of dims, of which another number than ndim is refused; 0 for ndim */
    const void *fill;         /* one element, or NULL for zeros */
    uint64_t fill_size;
    const char *access;       /* the expected mix of reads, such as "plane:z 60%, box:64", or NULL (docs/reference/language.md) */
} dry_variable_options;

/** Creates a variable and the groups above it; "group/name" is a path. The identical one again changes nothing, another one
 *  is DRY_CONFLICT. Committed on return. */
dry_status dry_create_variable(dry_container *container, const char *path, const dry_variable_options *options);

dry_status dry_create_group(dry_container *container, const char *path);

/** Sets the shape, without the step axis. Cells that are cut off and grow back read as fill. */
dry_status dry_resize(dry_container *container, const char *path, uint32_t ndim, const uint64_t *shape);

dry_status dry_rename(dry_container *container, const char *from, const char *to);

/** Removes a name; of a group, everything below. Earlier snapshots keep it. */
dry_status dry_delete(dry_container *container, const char *path);

/** Makes `path` stand for `target`. */
dry_status dry_link(dry_container *container, const char *path, const char *target);

/** Collects the changes of the schema that follow on this handle, until dry_end_batch makes them one commit.
 *  Values are put to what it makes when it has ended. */
dry_status dry_begin_batch(dry_container *container);

/** `commit` 0 forgets what was collected. */
dry_status dry_end_batch(dry_container *container, int32_t commit);

enum { DRY_NOTHING = 0, DRY_VARIABLE = 1, DRY_GROUP = 2 };

/** What stands at a path (links are followed); DRY_NOTHING is no failure. */
dry_status dry_kind_of(dry_container *container, const char *path, int32_t *kind);

/** Paths of all variables (DRY_VARIABLE) or groups (DRY_GROUP), sorted, each followed by NUL; `length` counts the bytes. */
dry_status dry_names(dry_container *container, int32_t kind, char *names, size_t capacity, size_t *length, size_t *count);

/* ---- attributes ------------------------------------------------------------------------------------------------- */
/* `owner` is the path of a variable or group; "" is the container itself.                                           */

typedef struct dry_attribute_info {
    uint32_t struct_size;
    dry_type type;     /* DRY_STRING: a text, or with ndim 1 a list of texts */
    uint32_t length;   /* of DRY_BYTES and DRY_UNICODE */
    uint32_t ndim;
    uint64_t shape[8];
    uint64_t size;     /* bytes that a buffer needs; of texts with their NULs */
} dry_attribute_info;

/** Sets a text. */
dry_status dry_set_text_attribute(dry_container *container, const char *owner, const char *name, const char *value);

/** Sets a list of texts. */
dry_status dry_set_texts_attribute(dry_container *container, const char *owner, const char *name,
                                   const char *const *values, size_t count);

/** Sets a number (ndim 0) or a dense row-major array of numbers. */
dry_status dry_set_attribute(dry_container *container, const char *owner, const char *name, dry_type type, uint32_t ndim,
                             const uint64_t *shape, const void *data, uint64_t size);

dry_status dry_remove_attribute(dry_container *container, const char *owner, const char *name);

/** Names, sorted, each followed by NUL; `length` counts the bytes. */
dry_status dry_attribute_names(dry_container *container, const char *owner, char *names, size_t capacity, size_t *length,
                               size_t *count);

/** DRY_UNSUPPORTED for what only other languages have: nested lists and dictionaries. */
dry_status dry_attribute_describe(dry_container *container, const char *owner, const char *name,
                                  dry_attribute_info *info);

/** Copies a text; a list of texts one after the other, each with its NUL, all counted by `length`. */
dry_status dry_get_text_attribute(dry_container *container, const char *owner, const char *name, char *text,
                                  size_t capacity, size_t *length);

/** Copies numbers of exactly this type and size. */
dry_status dry_get_attribute(dry_container *container, const char *owner, const char *name, dry_type type, void *data,
                             uint64_t size);

/* ---- writers ---------------------------------------------------------------------------------------------------- */

typedef struct dry_writer dry_writer;

typedef struct dry_writer_options {
    uint32_t struct_size;
    uint32_t rank;          /* of this process, below nranks */
    uint32_t nranks;        /* 0: a writer without ranks, which waits for nobody */
    uint32_t has_run;       /* is `run` given? */
    uint64_t run;           /* of these ranks together; by default the number of the last recovery */
    uint64_t segment_limit; /* bytes after which a new file begins; 0: as usual */
} dry_writer_options;

/** No step; where a step begins, the next. */
#define DRY_NO_STEP INT64_C(-1)

typedef struct dry_put_options {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t item_size;     /* bytes of an element; needed for DRY_BYTES, DRY_UNICODE, DRY_RECORD and member arrays */
    const int64_t *strides; /* bytes between neighbours per dimension; NULL: dense, row-major */
    const char *member;     /* of a record, as "velocity.x"; NULL: the whole element */
} dry_put_options;

/** Opens a writer. Each has a log of its own, so writers never wait for each other. DRY_CONFLICT where a dead run left steps
 *  of other ranks: dry_recover settles them. */
dry_status dry_writer_open(dry_container *container, const dry_writer_options *options, dry_writer **writer);

/** Closes the writer and commits its values without step. An open step is dropped, which is DRY_INVALID_ARGUMENT; the handle
 *  is closed whatever is returned. */
dry_status dry_writer_close(dry_writer *writer);

/** Begins a step: the given one, or with DRY_NO_STEP the next. `replace` 1 hides what the step held before; 0 lays over it.
 *  `begun` (or NULL) gets the number. */
dry_status dry_begin_step(dry_writer *writer, int64_t step, int32_t replace, uint64_t *begun);

/** Ends the step. With one rank it is committed; with several, one of them calls dry_commit when all have ended it. */
dry_status dry_end_step(dry_writer *writer, dry_commit_report *report);

/** Ends the step and returns when it has this level (DRY_NODE to DRY_STABLE) or a higher one. */
dry_status dry_end_step_at(dry_writer *writer, int32_t level, dry_commit_report *report);

/** Drops the open step: nothing of it will be visible. */
dry_status dry_abort_step(dry_writer *writer);

/** Writes a block: `count` cells per dimension from `offset` on (NULL: from 0). `data` is its first element, and `size` the
 *  bytes between its lowest and highest. When it returns, the memory may be changed. Needs a step if the variable has steps. */
dry_status dry_put(dry_writer *writer, const char *path, dry_type type, const void *data, uint64_t size, uint32_t ndim,
                   const uint64_t *offset, const uint64_t *count, const dry_put_options *options);

/** Writes a block of a DRY_STRING or DRY_RAGGED variable, row-major. `lengths` in bytes, or NULL: each text ends with NUL. */
dry_status dry_put_strings(dry_writer *writer, const char *path, const char *const *values, const uint64_t *lengths,
                           uint32_t ndim, const uint64_t *offset, const uint64_t *count);

/** Writes a block of a DRY_RAGGED variable, row-major: `numbers` of `type`, which is that of the variable's numbers, list behind
 *  list, and in `lengths` how many each list has. */
dry_status dry_put_lists(dry_writer *writer, const char *path, dry_type type, const void *numbers, const uint64_t *lengths,
                         uint32_t ndim, const uint64_t *offset, const uint64_t *count);

/** Hands everything staged to the system. Nothing becomes visible by it. */
dry_status dry_writer_flush(dry_writer *writer);

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct dry_variable dry_variable;

/** A condition on cells. One thread at a time takes hits from it. */
typedef struct dry_query dry_query;

typedef struct dry_variable_info {
    uint32_t struct_size;
    dry_type type;
    uint32_t length;          /* of DRY_BYTES, DRY_UNICODE and DRY_RAGGED */
    uint32_t ndim;            /* without the step axis */
    uint64_t item_size;       /* bytes of an element as it is read */
    uint64_t snapshot;
    uint64_t step_axis;       /* length of the step axis: last step + 1; 0 without steps */
    uint64_t shape[8];        /* without the step axis */
    uint64_t chunks[8];
    uint64_t member_shape[8]; /* of the member that is read, if it is an array */
    uint64_t member_offset;
    uint64_t fill_size;       /* 0: zeros */
    uint32_t chunk_ndim;      /* 0: blocks are cut as the library sees fit */
    uint32_t member_ndim;
    uint32_t has_steps;
    uint32_t local;
    uint32_t grows;           /* bit d: dimension d grows */
    uint32_t reserved;
} dry_variable_info;

/** The cells start, start + step, ..., `count` of them; a step of 0 is 1. */
typedef struct dry_axis {
    uint64_t start;
    uint64_t count;
    int64_t step;
} dry_axis;

typedef struct dry_read_report {
    uint32_t struct_size;
    uint32_t readers;      /* ranks that read for all, in dry_team_read; 0: each for itself */
    uint64_t wanted_bytes; /* of the selected cells that blocks hold */
    uint64_t read_bytes;   /* from storage */
    uint64_t requests;     /* to storage */
    uint64_t blocks;       /* that show */
    double max_error;      /* guaranteed, with what a lossy transform lost at writing; infinite: none is guaranteed */
    double max_relative_error;
} dry_read_report;

/** How close to what was written; less may need fewer bytes, where the transform has levels (docs/guide/transforms.md). */
enum {
    DRY_EXACT = 0,
    DRY_WITHIN = 1,          /* no value further from the one written than max_error; DRY_INVALID_ARGUMENT where it may be */
    DRY_WITHIN_RELATIVE = 2, /* the same times the magnitude of the value written */
    DRY_LEVEL = 3            /* the levels 1 to `level` of the transform */
};

typedef struct dry_read_options {
    uint32_t struct_size;
    uint32_t accuracy;
    uint64_t item_size;      /* as in dry_put_options */
    const int64_t *strides;  /* as in dry_put_options; no two elements may share a byte */
    dry_read_report *report; /* what it cost, or NULL */
    double max_error;
    uint32_t level;
    uint32_t readers;        /* in dry_team_read: so many ranks read for all, DRY_ALONE each for itself; 0: as is cheapest */
} dry_read_options;

/** A written block. */
typedef struct dry_block {
    uint32_t struct_size;
    uint32_t ndim;
    int64_t step;
    uint64_t offset[8];
    uint64_t count[8];
    uint64_t cut[8];       /* shape of the pieces that are encoded by themselves */
    uint64_t snapshot;     /* by whose commit it became visible */
    uint64_t writer;       /* rank, or the number of a writer without rank */
    uint64_t put;          /* which put of its writer */
    uint64_t stored_bytes;
    uint64_t nans;
    uint64_t min, max;     /* bytes of an int64_t, uint64_t or double, as the type is signed, unsigned or floating */
    uint32_t has_min_max;
    uint32_t reserved;
} dry_block;

/** Opens a variable of the snapshot that the container's handle has now, or one member of its records (else NULL). */
dry_status dry_variable_open(dry_container *container, const char *path, const char *member, dry_variable **variable);

dry_status dry_variable_close(dry_variable *variable);

dry_status dry_variable_describe(dry_variable *variable, dry_variable_info *info);

enum {
    DRY_TEXT_TYPE = 0,      /* such as "float32" or "record{x: float64, y: float64}" */
    DRY_TEXT_TRANSFORM = 1, /* empty: none */
    DRY_TEXT_ACCESS = 2     /* the expected mix of reads; empty: not said */
};
dry_status dry_variable_text(dry_variable *variable, int32_t which, char *text, size_t capacity, size_t *length);

enum {
    DRY_NAMES_DIMS = 0,   /* of the dimensions, if they have names */
    DRY_NAMES_MEMBERS = 1 /* of the record's members */
};
/** Names, each followed by NUL; `length` counts the bytes. */
dry_status dry_variable_names(dry_variable *variable, int32_t which, char *names, size_t capacity, size_t *length,
                              size_t *count);

/** Bytes of one element where nothing was written; none for zeros. */
dry_status dry_variable_fill(dry_variable *variable, void *fill, size_t capacity, size_t *size);

/** Committed steps in which the variable has a block. */
dry_status dry_variable_steps(dry_variable *variable, uint64_t *steps, size_t capacity, size_t *count);

/** Reads a box of one step (DRY_NO_STEP for a variable without). `offset` NULL: from 0; `count` NULL: to the end. Cells that
 *  nobody wrote read as fill. */
dry_status dry_read_box(dry_variable *variable, int64_t step, dry_type type, void *data, uint64_t size, uint32_t ndim,
                        const uint64_t *offset, const uint64_t *count, const dry_read_options *options);

/** Reads one cell, slice or strided slice per axis; for a variable with steps the first axis is the step. `data` has the
 *  counts of the axes as its shape. */
dry_status dry_read(dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes, const dry_axis *axes,
                    const dry_read_options *options);

/** Reads texts of a DRY_STRING variable, or lists of a DRY_RAGGED variable, one after the other without NULs, into `text`; `ends`
 *  (or NULL), of `cells` entries, gets for each cell at which byte its text or list ends. */
dry_status dry_read_strings(dry_variable *variable, uint32_t naxes, const dry_axis *axes, char *text, size_t capacity,
                            size_t *length, uint64_t *ends, size_t cells);

/** Reads lists of a DRY_RAGGED variable, list behind list, into `numbers` of `type`, which has room for `capacity` of them; `length`
 *  gets how many there are, and `lengths` (or NULL), of `cells` entries, how many each list has. With NULL and 0 for `numbers` and
 *  `capacity` it asks for `length` alone. */
dry_status dry_read_lists(dry_variable *variable, dry_type type, uint32_t naxes, const dry_axis *axes, void *numbers,
                          size_t capacity, size_t *length, uint64_t *lengths, size_t cells);

/** Reads `count` listed cells, one element each, in the order of the list: `naxes` coordinates per cell, for a variable with
 *  steps the step first. `data` has one dimension. */
dry_status dry_read_points(dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes,
                           const uint64_t *cells, size_t count, const dry_read_options *options);

/** Finds the cells of a step (DRY_NO_STEP for a variable without) whose values lie between two limits, both included; what
 *  cannot hold such a value is not read. The limits are of `type`: DRY_INT64, DRY_UINT64 or DRY_FLOAT64. `count` gets how many
 *  there are; with room for them (`capacity` cells; NULL, NULL and 0 to ask), `cells` gets ndim coordinates each and `values`
 *  their elements, either of which may be NULL. Cells that nobody wrote are not found. */
dry_status dry_find(dry_variable *variable, int64_t step, dry_type type, const void *low, const void *high,
                    uint64_t *cells, void *values, size_t capacity, size_t *count, dry_read_report *report);

/** A condition on the cells of the snapshot that the container shows, as "p > 3e-5 & abs(u) < 1" (docs/guide/expressions.md), on the
 *  selected cells: an axis each, for a condition on variables with steps the step first; 0 and NULL for all. */
dry_status dry_query_open(dry_container *container, const char *condition, uint32_t naxes, const dry_axis *axes,
                          dry_query **query);

/** Ends a query. */
dry_status dry_query_close(dry_query *query);

/** The shape of the selected cells, the steps first where there are steps. Its length is the number of coordinates of a hit. */
dry_status dry_query_shape(dry_query *query, uint64_t *shape, size_t capacity, size_t *naxes);

/** The least and the greatest number of hits that there can be, from statistics alone: no value is read. */
dry_status dry_query_bounds(dry_query *query, uint64_t *low, uint64_t *high);

/** The number of hits. `report` (or NULL) gets the bytes and requests that it took. */
dry_status dry_query_count(dry_query *query, uint64_t *count, dry_read_report *report);

/** Which of the selected cells are hits: a byte each, 1 or 0, in the shape of dry_query_shape. */
dry_status dry_query_mask(dry_query *query, void *mask, uint64_t size, dry_read_report *report);

/** Names the variables (members behind a dot) whose values dry_query_next gives, and begins again with the first hit. */
dry_status dry_query_select(dry_query *query, size_t count, const char *const *names);

/** The next hits in row-major order, at most `capacity`; `count` gets how many, 0 behind the last. `coords` (or NULL) gets the
 *  coordinates of each. `values` has memory for each variable that was named, or NULL, and `sizes` its bytes: `capacity` elements as they are
 *  in memory; both are NULL where none was named. Cells that nobody wrote have the fill value. */
dry_status dry_query_next(dry_query *query, size_t capacity, int64_t *coords, void *const *values, const uint64_t *sizes,
                          size_t *count, dry_read_report *report);

/** What a query would read, and what statistics decide, as text. */
dry_status dry_query_explain(dry_query *query, char *text, size_t capacity, size_t *length);

/** What dry_read would do: ranges, requests, bytes. */
dry_status dry_explain(dry_variable *variable, uint32_t naxes, const dry_axis *axes, char *text, size_t capacity,
                       size_t *length);

/** The blocks written in a step, oldest first. `struct_size` is sizeof(dry_block). */
dry_status dry_blocks(dry_variable *variable, int64_t step, dry_block *blocks, size_t struct_size, size_t capacity,
                      size_t *count);

/** Reads block `number` of dry_blocks as it was written; `count` is its count. The only way to read local variables. */
dry_status dry_read_block(dry_variable *variable, int64_t step, size_t number, dry_type type, void *data, uint64_t size,
                          uint32_t ndim, const uint64_t *count, const dry_read_options *options);

/** The same for texts, as dry_read_strings gives them. */
dry_status dry_read_block_strings(dry_variable *variable, int64_t step, size_t number, char *text, size_t capacity,
                                  size_t *length, uint64_t *ends, size_t cells);

/* ---- fragments: declared memory layouts (docs/reference/language.md) ------------------------------------------------------ */

typedef struct dry_fragment dry_fragment;

/** A parameter of a text or fragment, such as "rank" or "nranks". */
typedef struct dry_parameter {
    const char *name;
    int64_t value;
} dry_parameter;

typedef struct dry_fragment_info {
    uint32_t struct_size;
    uint32_t has_steps;
    uint64_t size;        /* bytes of its memory */
    uint64_t align;
    uint64_t array_count;
} dry_fragment_info;

typedef struct dry_fragment_array {
    uint32_t struct_size;
    dry_type type;
    uint32_t length;        /* of DRY_BYTES */
    uint32_t ndim;
    uint64_t offset;        /* bytes from the fragment's beginning */
    uint64_t item_size;
    uint64_t shape[16];
    uint64_t strides[16];   /* bytes */
    int64_t iteration;      /* value of the counter, if a `for` made it */
    uint32_t has_iteration;
    uint32_t has_strides;   /* 0: the elements lie along a curve */
} dry_fragment_array;

typedef struct dry_coverage {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t wanted;   /* values of the fragment */
    uint64_t covered;  /* those that a block has written */
    uint64_t unmapped; /* those without counterpart in the dataset */
    uint64_t missing;  /* those that nobody wrote */
} dry_coverage;

/** Declares a text in the dataset language: creates its variables and keeps its fragments, in one commit. */
dry_status dry_declare(dry_container *container, const char *text, const dry_parameter *parameters, size_t count);

/** Opens an instance of a declared fragment, at the snapshot that the container's handle has now. */
dry_status dry_fragment_open(dry_container *container, const char *name, const dry_parameter *parameters, size_t count,
                             dry_fragment **fragment);

dry_status dry_fragment_close(dry_fragment *fragment);

dry_status dry_fragment_describe(dry_fragment *fragment, dry_fragment_info *info);

/** Array `number` in the order of memory, and (unless both are NULL) its name. */
dry_status dry_fragment_array_at(dry_fragment *fragment, size_t number, dry_fragment_array *array, char *name,
                                 size_t capacity, size_t *length);

/** Fills `size` bytes, which are the fragment's. Bytes that stand for nothing in the dataset are left alone. */
dry_status dry_fragment_read(dry_fragment *fragment, int64_t step, void *data, uint64_t size, dry_read_report *report);

/** Puts the fragment's memory through a writer, into its open step where variables have steps. */
dry_status dry_fragment_write(dry_fragment *fragment, dry_writer *writer, const void *data, uint64_t size);

dry_status dry_fragment_coverage(dry_fragment *fragment, int64_t step, dry_coverage *coverage);

dry_status dry_fragment_explain(dry_fragment *fragment, int64_t step, char *text, size_t capacity, size_t *length);

/* ---- rules: conversions between memory layouts (docs/guide/rules.md) -------------------------------------------------- */

typedef struct dry_rule dry_rule;

/** A box of an array of numbers, and how it lies in memory. */
typedef struct dry_layout {
    dry_type type;
    uint32_t ndim;
    const int64_t *start;   /* the box's first cell in the array; NULL: 0 */
    const uint64_t *shape;  /* of the box */
    const int64_t *strides; /* bytes, not negative; NULL: dense, row-major */
    uint64_t offset;        /* bytes from the memory's beginning to the box's first element */
} dry_layout;

typedef struct dry_rule_info {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t src_size; /* bytes the source has */
    uint64_t dst_size; /* bytes the destination has */
    uint64_t moved;    /* bytes written */
    uint8_t hash[16];  /* which equal rules share, in every process */
} dry_rule_info;

/** What becomes of numbers that do not fit the destination's type. */
enum { DRY_REFUSE = 0, DRY_SATURATE = 1, DRY_WRAP = 2 };

/** Compiles the conversion of the boxes in one memory to those in another: cells that both hold are moved. */
dry_status dry_rule_compile(const dry_layout *src, size_t src_count, const dry_layout *dst, size_t dst_count,
                            int32_t narrowing, dry_rule **rule);

/** A rule that dry_rule_encode made, perhaps elsewhere; checked against the sizes of both memories. */
dry_status dry_rule_decode(const void *encoded, uint64_t size, uint64_t src_size, uint64_t dst_size, dry_rule **rule);

dry_status dry_rule_close(dry_rule *rule);

dry_status dry_rule_encode(dry_rule *rule, void *encoded, size_t capacity, size_t *size);

dry_status dry_rule_describe(dry_rule *rule, dry_rule_info *info);

dry_status dry_rule_text(dry_rule *rule, char *text, size_t capacity, size_t *length);

/** Runs the rule. Both memories are at least as large as it says, and apart from each other. */
dry_status dry_rule_apply(dry_rule *rule, const void *src, uint64_t src_size, void *dst, uint64_t dst_size);

/* ---- programs of many ranks (drystone_mpi.h makes the communicator from MPI's) ----------------------------------- */

/** Gives every rank what each of them sends, in their order: `size` bytes of every rank, into `receive` one after the other.
 *  Returns 0, or a code of its own. */
typedef int32_t (*dry_all_gather)(void *context, const void *send, uint64_t size, void *receive);

/** Sends each rank its part of `send`: `send_sizes` bytes for every rank, one after the other; receives likewise. */
typedef int32_t (*dry_exchange)(void *context, const void *send, const uint64_t *send_sizes, void *receive,
                                const uint64_t *receive_sizes);

/** How the ranks of a program reach each other. `context` and the callbacks serve until the team's handles are closed. */
typedef struct dry_communicator {
    uint32_t struct_size;
    uint32_t rank; /* of this process, below size */
    uint32_t size; /* how many there are */
    uint32_t reserved;
    uint64_t node; /* a number that the ranks on one machine share */
    void *context;
    dry_all_gather all_gather;
    dry_exchange exchange;
} dry_communicator;

/** A container that all ranks have opened. Its functions are collective: all ranks call them, in one order, and a failure of one
 *  is an error of all; wrong arguments are one, but not a wrong handle, through which nobody can be told. */
typedef struct dry_team dry_team;

/** Creates a container: rank 0 does, then the others open it. */
dry_status dry_team_create(const char *path, const dry_create_options *options, const dry_communicator *communicator,
                           dry_team **team);

/** Opens a container, rank 0 before the others. With DRY_READ all ranks see the same snapshot, for ever. */
dry_status dry_team_open(const char *path, int32_t mode, const dry_communicator *communicator, dry_team **team);

/** Closes the team's handle and its container's; not collective. Writers are closed before. */
dry_status dry_team_close(dry_team *team);

/** A handle of this rank's container, to read, or on one rank to change the schema; it is closed by its own. Not collective. */
dry_status dry_team_container(dry_team *team, dry_container **container);

/** Tells all ranks how each has fared: `mine` is the status of what this rank did last. All get the status of the first rank that
 *  failed. If none did, all move to the newest snapshot and so see what one of them did: variables it created, a recovery. */
dry_status dry_team_agree(dry_team *team, dry_status mine);

typedef struct dry_team_writer_options {
    uint32_t struct_size;
    uint32_t writers; /* so many ranks write, at most all; 0: as many as are cheapest */
} dry_team_writer_options;

/** Opens the writer of all ranks together. It is used as any other, with dry_begin_step, dry_put, dry_end_step, dry_abort_step and
 *  dry_writer_close; all but the puts are collective. dry_end_step commits: when it returns, the step is visible, or it failed for
 *  all. Small blocks wait until then, and few ranks write them for the others. DRY_CONFLICT where a dead run left steps: dry_recover on one rank, and dry_team_agree. */
dry_status dry_team_writer_open(dry_team *team, const dry_team_writer_options *options, dry_writer **writer);

/** Each rank reads for itself. */
#define DRY_ALONE UINT32_MAX

/** As dry_read, on all ranks: each gives a handle of the same variable at the same snapshot, and asks for cells of its own, or
 *  for none. Where ranks want small interleaved parts, few of them read larger boxes and hand out what the others want; where
 *  parts are large, each reads for itself. A failure of one is an error of all. */
dry_status dry_team_read(dry_team *team, dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes,
                         const dry_axis *axes, const dry_read_options *options);

/** As dry_read_box, on all ranks. */
dry_status dry_team_read_box(dry_team *team, dry_variable *variable, int64_t step, dry_type type, void *data, uint64_t size,
                             uint32_t ndim, const uint64_t *offset, const uint64_t *count, const dry_read_options *options);

/* ---- regions (docs/guide/regions.md) ------------------------------------------------------------------------------ */

/** A box of a variable at one step, with memory for its values. One thread at a time uses it. */
typedef struct dry_region dry_region;

/** What a region is mapped or locked for; a map may have both. */
enum { DRY_MAP_READ = 1, DRY_MAP_WRITE = 2 };

/** Maps `count` cells per dimension from `offset` on (NULL: from 0, to the end), of one step, or with DRY_NO_STEP of a variable
 *  without. With DRY_MAP_READ the memory gets the values of the container's snapshot. The container is open to write. */
dry_status dry_map(dry_container *container, const char *path, int64_t step, uint32_t ndim, const uint64_t *offset,
                   const uint64_t *count, int32_t access, dry_region **region);

/** The region's memory: elements in row-major order, `size` bytes (or NULL). It is valid until dry_unmap. After a dry_release
 *  call this again before writing: it waits until the values have left the memory. */
dry_status dry_region_memory(dry_region *region, void **memory, uint64_t *size);

/** DRY_MAP_READ: reads the newest committed values into the memory, and waits for nobody. DRY_MAP_WRITE: locks the box once nobody
 *  else has a cell of it; DRY_DEADLINE after `timeout` seconds. The lock is renewed while the program lives. A region that is mapped to
 *  be read, too, then holds all that was released in it before, which is committed for that. */
dry_status dry_lock(dry_region *region, int32_t access, double timeout);

/** Hands the values over and ends the lock, if there is one; returns at `level`, DRY_RECEIVED at once. `transfer` (or NULL) gets
 *  the number to wait for. DRY_CONFLICT where the lock has ended before: nothing was written. */
dry_status dry_release(dry_region *region, int32_t level, uint64_t *transfer);

/** Ends the lock; the values go nowhere. */
dry_status dry_unlock(dry_region *region);

/** Ends the lock and gives the memory back. */
dry_status dry_unmap(dry_region *region);

/** Carries committed values of one variable to another, of one step or (DRY_NO_STEP) of all, where the container is; `rule` as
 *  "cast:dtype=f4", or NULL: as they are. */
dry_status dry_transfer(dry_container *container, const char *from, const char *to, const char *rule, int64_t step,
                        uint64_t *transfer);

/** Waits until a transfer has a level, or DRY_DEADLINE after `timeout` seconds; why it failed is told here. `reached` (or NULL) gets
 *  the level. DRY_STABLE is for releases that asked for it. */
dry_status dry_transfer_wait(dry_container *container, uint64_t transfer, int32_t level, double timeout, int32_t *reached);

/* ---- structures with struct_size set and everything else 0 ------------------------------------------------------ */

#define DRY_NEW(name)                                                                                                      \
    static inline name name##_new(void) {                                                                                  \
        name made;                                                                                                         \
        memset(&made, 0, sizeof made);                                                                                     \
        made.struct_size = (uint32_t)sizeof made;                                                                          \
        return made;                                                                                                       \
    }
DRY_NEW(dry_create_options)
DRY_NEW(dry_container_info)
DRY_NEW(dry_commit_report)
DRY_NEW(dry_recover_report)
DRY_NEW(dry_verify_report)
DRY_NEW(dry_variable_options)
DRY_NEW(dry_attribute_info)
DRY_NEW(dry_writer_options)
DRY_NEW(dry_put_options)
DRY_NEW(dry_variable_info)
DRY_NEW(dry_read_options)
DRY_NEW(dry_read_report)
DRY_NEW(dry_fragment_info)
DRY_NEW(dry_fragment_array)
DRY_NEW(dry_coverage)
DRY_NEW(dry_rule_info)
DRY_NEW(dry_communicator)
DRY_NEW(dry_team_writer_options)
DRY_NEW(dry_publish_options)
DRY_NEW(dry_publish_report)

/** The record of a C struct. */
static inline dry_record dry_record_new(uint64_t item_size, const dry_member *members, uint32_t member_count) {
    dry_record made;
    memset(&made, 0, sizeof made);
    made.struct_size = (uint32_t)sizeof made;
    made.member_size = (uint32_t)sizeof(dry_member);
    made.item_size = item_size;
    made.members = members;
    made.member_count = member_count;
    return made;
}
#undef DRY_NEW

#ifdef __cplusplus
}
#endif
#endif
