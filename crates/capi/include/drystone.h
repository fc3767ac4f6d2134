/*
 * Drystone in C: an array store for simulations and for the people who analyse them. docs/guide/c.md is its guide.
 *
 * What holds everywhere
 * - Functions return a dry_status: DRY_OK, or the kind of failure. dry_last_error() then returns the message.
 * - Handles (dry_container *, dry_writer *, ...) are opaque and never dereferenced. A handle that is NULL, closed,
 *   foreign or of another kind gives DRY_INVALID_ARGUMENT. Close every handle once; closing NULL does nothing. A
 *   function that fails sets the handle that it would have returned to NULL.
 * - Structures begin with struct_size. Set it to sizeof of the structure, and unused fields to 0; the inline functions
 *   dry_..._new() do so. Header and library may then differ in version. NULL instead of options means defaults. Fields
 *   named `reserved` are 0.
 * - The caller owns all memory. `size` is in bytes, from the lowest to the highest byte that the library may touch. A
 *   size that does not fit is refused before any byte is copied. The library keeps no pointer after a function returns.
 * - Results of unknown size take (buffer, capacity, pointer to the needed number). To ask for the number, pass NULL and
 *   0. A capacity that is too small gives DRY_BUFFER_TOO_SMALL, and the needed number is stored. Texts end with NUL:
 *   they need one char more than the stored length.
 * - Any thread may call any function, even with the same handle. A writer serialises its calls.
 * - After fork(), a child opens its own handles; it may close those of its parent.
 * - Texts are UTF-8. Steps are numbered from 0; DRY_NO_STEP means no step.
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
    DRY_NOT_FOUND = 1,        /* a container, variable, step, block, snapshot or attribute does not exist */
    DRY_CORRUPT = 2,          /* stored bytes are not what was written */
    DRY_CONFLICT = 3,         /* an action of another process makes this impossible */
    DRY_UNSUPPORTED = 4,      /* this version, or this store, cannot do it */
    DRY_INVALID_ARGUMENT = 5, /* an argument is wrong: handles, sizes, types, names */
    DRY_OUT_OF_RANGE = 6,     /* cells outside the array */
    DRY_IO = 7,               /* an I/O error */
    DRY_CANCELLED = 8,        /* the caller asked to stop */
    DRY_BUFFER_TOO_SMALL = 9, /* ask for the size, and give a larger buffer */
    DRY_INTERNAL = 10,        /* an error in drystone: please report it */
    DRY_PERMISSION = 11,      /* permission denied by the file system or the store */
    DRY_DEADLINE = 12,        /* a request timed out; its change may have been made */
    DRY_NOT_YET_HOME = 13     /* the bytes are still in a tier of another node */
};

/** Message of this thread's last failure: what was attempted, what was found, what to do. Empty before the first
 *  failure; valid until the thread's next failure. */
const char *dry_last_error(void);

/** Copies the message of dry_last_error(). The message does not change. */
dry_status dry_error_message(char *text, size_t capacity, size_t *length);

/** Sets this thread's last message and returns `status`; DRY_OK: does nothing. For code on top of this library that
 *  refuses something itself, and before dry_team_agree, which sends the message to the other ranks. */
dry_status dry_set_error(dry_status status, const char *message);

/** The name of a status, such as "DRY_NOT_FOUND". */
const char *dry_status_name(dry_status status);

/** The interface version of this header. Each incompatible change increments it. */
#define DRY_ABI 1u

/** The version of the library, such as "0.1.0". */
const char *dry_version(void);

/** DRY_UNSUPPORTED if the library does not support programs compiled with that header. Call
 *  dry_check_abi(DRY_ABI). */
dry_status dry_check_abi(uint32_t header);

enum {
    DRY_LOG_NOTE = 1,   /* for example, a step still waits for some ranks */
    DRY_LOG_WARNING = 2 /* for example, a power cut lost a snapshot */
};

/** Receives messages that are not failures. The thread whose call causes a message calls it, perhaps several threads at
 *  once. It must not throw or longjmp, and may call the library. `message` is valid only during the call. */
typedef void (*dry_log_callback)(void *context, int32_t level, const char *message);

/** Sets the callback of the whole process. NULL, the default: warnings go to standard error, notes are dropped. */
dry_status dry_set_log(dry_log_callback callback, void *context);

/* ---- element types ---------------------------------------------------------------------------------------------- */

/** The type of an element. Numbers are in native byte order; complex numbers are (real, imaginary). */
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
    DRY_BYTES = 16,   /* `length` bytes, padded with 0 */
    DRY_UNICODE = 17, /* `length` code points of 4 bytes (UTF-32), padded with 0 */
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

/** What survives a crash. Chosen at creation and never changed. */
enum {
    DRY_ASYNC = 0,   /* a kill loses nothing committed; a power cut may lose what came after the last flush */
    DRY_DURABLE = 1, /* what is committed is on stable storage */
    DRY_MEMORY = 2   /* never synced */
};

enum {
    DRY_READ = 0,       /* read; the container must exist */
    DRY_READ_WRITE = 1, /* read and write; the container must exist */
    DRY_APPEND = 2      /* read and write; created if it does not exist */
};

typedef struct dry_create_options {
    uint32_t struct_size;
    int32_t durability;
    const char *redundancy; /* "partner", "xor:8", "rs:8+2": how steps in tiers survive a lost node; NULL: "none" */
    uint32_t tiers;         /* 1: blocks may stay in tiers before they reach the container's store; `redundancy` needs it */
    uint32_t reserved;
} dry_create_options;

/** The state of a container at the snapshot of its handle. */
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
    uint32_t changed;    /* 1 if there was anything to commit */
    uint64_t snapshot;   /* the snapshot that now contains it */
    uint64_t incomplete; /* steps that only some ranks have closed; the log lists them */
} dry_commit_report;

/** Creates a container in a folder, or at a URL such as s3://bucket/run.dry, with options from the environment
 *  (docs/guide/far-stores.md). DRY_CONFLICT if there is one already. */
dry_status dry_create(const char *path, const dry_create_options *options, dry_container **container);

/** Opens a container by its path or URL. DRY_NOT_FOUND if there is none, DRY_UNSUPPORTED if a newer version wrote
 *  it. */
dry_status dry_open(const char *path, int32_t mode, dry_container **container);

/** Opens an earlier snapshot, read-only; the handle stays at it. 0 is the empty snapshot before the first commit. */
dry_status dry_open_snapshot(dry_container *container, uint64_t snapshot, dry_container **earlier);

/** Closes the handle. Variables, fragments and writers opened from it stay usable until they are closed. The content of
 *  its tiers is drained to the container's store. */
dry_status dry_container_close(dry_container *container);

dry_status dry_container_describe(dry_container *container, dry_container_info *info);

/** Moves the handle to the newest snapshot. `changed` (or NULL) gets 1 if that is another one. Handles of variables and
 *  fragments stay at theirs. */
dry_status dry_refresh(dry_container *container, int32_t *changed);

/** Numbers of the readable snapshots, ascending. */
dry_status dry_snapshots(dry_container *container, uint64_t *snapshots, size_t capacity, size_t *count);

/** Committed steps of the handle's snapshot, ascending. */
dry_status dry_steps(dry_container *container, uint64_t *steps, size_t capacity, size_t *count);

/** Commits: makes visible the steps that all their ranks have closed, and all steps of writers without ranks. Call it
 *  from one process. If there is nothing new, the snapshot stays. DRY_CONFLICT if one rank of a step was closed
 *  twice. */
dry_status dry_commit(dry_container *container, dry_commit_report *report);

/** Makes everything committed so far survive a power cut. `snapshot` (or NULL) gets its number. */
dry_status dry_flush(dry_container *container, uint64_t *snapshot);

/** What to do with steps that a dead run completed but did not commit. */
enum {
    DRY_ADOPT_ALL = 0,
    DRY_ADOPT_NONE = 1,
    DRY_ADOPT_THESE = 2,
    DRY_ADOPT_OTHERS = 3 /* all except these */
};

typedef struct dry_recover_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t run;        /* the new run */
    uint64_t snapshot;
    uint64_t adopted;    /* steps that became visible */
    uint64_t discarded;  /* complete steps dropped on request */
    uint64_t incomplete; /* steps dropped because some rank had not closed them */
    uint64_t rebuilt;    /* steps rebuilt without loss from data that other nodes kept */
} dry_recover_report;

/** Settles the uncommitted steps of a dead run, fences its writers, and begins a new run with any number of ranks. */
dry_status dry_recover(dry_container *container, int32_t decision, const uint64_t *steps, size_t step_count,
                       dry_recover_report *report);

/** The same if these nodes are lost for good: data that only their tiers held is rebuilt from other nodes, or given
 *  up. */
dry_status dry_recover_without(dry_container *container, int32_t decision, const uint64_t *steps, size_t step_count,
                               const char *const *lost_nodes, size_t lost_count, dry_recover_report *report);

/* ---- tiers and levels (docs/guide/tiers.md, docs/guide/levels.md, docs/guide/redundancy.md) -------------------------- */

/** The safety level of a step, ascending. Each level includes the ones before it. */
enum {
    DRY_LOST = -1,    /* its tiers do not have it any more; only dry_levels gives this */
    DRY_RECEIVED = 0, /* in the memory of an engine or a server */
    DRY_NODE = 1,     /* in a tier of its node: survives the end of the process */
    DRY_PARTNER = 2,  /* also kept by other nodes */
    DRY_HOME = 3,     /* in the container's store */
    DRY_STABLE = 4    /* on stable storage there */
};

/** Writes new data to folders nearer than the container's store, nearest first. A thread of the handle drains them to
 *  the store, and also drains what dead processes of this node left in them. `budgets` (or NULL): the most bytes of the
 *  container in each folder; 0: as much as fits. In a team, every rank calls it with folders of its node.
 *  DRY_UNSUPPORTED if the container was created without tiers. */
dry_status dry_use_tiers(dry_container *container, const char *const *folders, const uint64_t *budgets, size_t count);

/** The level of each committed step, ascending by step. Either array may be NULL. */
dry_status dry_levels(dry_container *container, uint64_t *steps, int32_t *levels, size_t capacity, size_t *count);

/** Waits until a step is committed and has at least this level. DRY_DEADLINE after `timeout` seconds, unless
 *  negative. DRY_NOT_YET_HOME at once if the tiers of this node have lost a part of it: the message says what to do. */
dry_status dry_wait(dry_container *container, uint64_t step, int32_t level, double timeout);

/** Drains the handle's tiers to the container's store. DRY_DEADLINE after `timeout` seconds, unless negative. */
dry_status dry_drain(dry_container *container, double timeout);

typedef struct dry_verify_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t entries;   /* of the index */
    uint64_t bytes;     /* of payload */
    uint64_t manifests;
    uint64_t damaged;   /* damaged places; the log lists them */
} dry_verify_report;

/** Receives the progress. A result other than 0 stops the work (DRY_CANCELLED). */
typedef int32_t (*dry_progress)(void *context, uint64_t done, uint64_t total);

/** Checks every byte that the handle's snapshot refers to. Damage is counted and is not a failure of this call. */
dry_status dry_verify(dry_container *container, dry_progress progress, void *context, dry_verify_report *report);

/* ---- publishing: the replica that other tools read (docs/guide/publishing.md) ------------------------------------------ */

typedef struct dry_publish_options {
    uint32_t struct_size;
    uint32_t variable_count;
    const char *const *variables; /* their paths; NULL: all */
    uint64_t memory;              /* memory limit in bytes; 0: the default */
    const char *compressor;       /* "auto", "none" or "zstd:LEVEL"; NULL: auto */
} dry_publish_options;

typedef struct dry_publish_report {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t snapshot;     /* that is now published */
    uint64_t arrays;       /* of the Zarr hierarchy */
    uint64_t written;      /* shards written */
    uint64_t kept;         /* shards that were already up to date */
    uint64_t stored_bytes; /* of the shards written */
    uint64_t skipped;      /* variables that Zarr cannot represent; the log gives the reasons */
} dry_publish_report;

/** Publishes the committed steps as Zarr arrays in the container's folder. A repeated call writes only what changed.
 *  One process at a time, else DRY_CONFLICT. `progress` may be NULL. */
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
    const uint64_t *chunks;   /* shape into which blocks are cut, or NULL */
    uint32_t chunk_ndim;      /* entries of chunks */
    uint32_t has_steps;       /* one array per output time */
    uint32_t local;           /* one value or array of any shape per writer and step; ndim is 0 */
    uint32_t dims_count;      /* entries of dims: ndim, or 0, which means ndim */
    const void *fill;         /* one element, or NULL for zeros */
    uint64_t fill_size;
    const char *access;       /* the expected mix of reads, such as "plane:z 60%, box:64", or NULL (docs/reference/language.md) */
} dry_variable_options;

/** Creates a variable and the groups above it; "group/name" is a path. Creating an identical one again changes nothing;
 *  a different one is DRY_CONFLICT. Committed on return. */
dry_status dry_create_variable(dry_container *container, const char *path, const dry_variable_options *options);

dry_status dry_create_group(dry_container *container, const char *path);

/** Sets the shape, without the step axis. Cells that are cut off, and later added again, read as fill. */
dry_status dry_resize(dry_container *container, const char *path, uint32_t ndim, const uint64_t *shape);

dry_status dry_rename(dry_container *container, const char *from, const char *to);

/** Removes a name; for a group, everything below. Earlier snapshots keep it. */
dry_status dry_delete(dry_container *container, const char *path);

/** Makes `path` a link to `target`. */
dry_status dry_link(dry_container *container, const char *path, const char *target);

/** Starts a batch: schema changes on this handle are collected until dry_end_batch commits them together. Values can be
 *  put to new variables only after the batch has ended. */
dry_status dry_begin_batch(dry_container *container);

/** Ends the batch; `commit` 0 drops its changes. */
dry_status dry_end_batch(dry_container *container, int32_t commit);

enum { DRY_NOTHING = 0, DRY_VARIABLE = 1, DRY_GROUP = 2 };

/** The kind of object at a path, after following links. DRY_NOTHING is not a failure. */
dry_status dry_kind_of(dry_container *container, const char *path, int32_t *kind);

/** Paths of all variables (DRY_VARIABLE) or groups (DRY_GROUP), sorted, each followed by NUL. `length` counts bytes. */
dry_status dry_names(dry_container *container, int32_t kind, char *names, size_t capacity, size_t *length, size_t *count);

/* ---- attributes ------------------------------------------------------------------------------------------------- */
/* `owner` is the path of a variable or group; "" is the container itself.                                           */

typedef struct dry_attribute_info {
    uint32_t struct_size;
    dry_type type;     /* DRY_STRING: a text, or with ndim 1 a list of texts */
    uint32_t length;   /* of DRY_BYTES and DRY_UNICODE */
    uint32_t ndim;
    uint64_t shape[8];
    uint64_t size;     /* bytes that a buffer needs, NULs of texts included */
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

/** Names, sorted, each followed by NUL. `length` counts bytes. */
dry_status dry_attribute_names(dry_container *container, const char *owner, char *names, size_t capacity, size_t *length,
                               size_t *count);

/** DRY_UNSUPPORTED for values that C has no form for: nested lists and dictionaries. */
dry_status dry_attribute_describe(dry_container *container, const char *owner, const char *name,
                                  dry_attribute_info *info);

/** Copies a text, or a list of texts, concatenated, each with its NUL. `length` counts all bytes. */
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
    uint32_t nranks;        /* 0: a writer without ranks, whose steps wait for no other rank */
    uint32_t has_run;       /* 1 if `run` is given */
    uint64_t run;           /* the run of these ranks; by default that of the last recovery */
    uint64_t segment_limit; /* bytes after which a new file starts; 0: the default */
} dry_writer_options;

/** No step; for dry_begin_step, the next one. */
#define DRY_NO_STEP INT64_C(-1)

typedef struct dry_put_options {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t item_size;     /* bytes of an element; needed for DRY_BYTES, DRY_UNICODE, DRY_RECORD and member arrays */
    const int64_t *strides; /* bytes between neighbours per dimension; NULL: dense, row-major */
    const char *member;     /* of a record, as "velocity.x"; NULL: the whole element */
} dry_put_options;

/** Opens a writer. Each writer has its own log, so writers never wait for each other. DRY_CONFLICT if a dead run left
 *  steps of other ranks; dry_recover settles them. */
dry_status dry_writer_open(dry_container *container, const dry_writer_options *options, dry_writer **writer);

/** Closes the writer and commits its values without a step. An open step is dropped, and DRY_INVALID_ARGUMENT returned.
 *  The handle is closed whatever is returned. */
dry_status dry_writer_close(dry_writer *writer);

/** Begins the given step, or the next one for DRY_NO_STEP. `replace` 1 hides the step's earlier content; 0 writes over
 *  it. `begun` (or NULL) gets the step. */
dry_status dry_begin_step(dry_writer *writer, int64_t step, int32_t replace, uint64_t *begun);

/** Ends the step. With one rank it is committed, together with what other writers closed of the step before it. With
 *  several, one of them calls dry_commit after all have ended it. */
dry_status dry_end_step(dry_writer *writer, dry_commit_report *report);

/** Ends the step and returns when it has at least this level (DRY_NODE to DRY_STABLE). */
dry_status dry_end_step_at(dry_writer *writer, int32_t level, dry_commit_report *report);

/** Drops the open step: none of it becomes visible. */
dry_status dry_abort_step(dry_writer *writer);

/** Writes a block: `count` cells per dimension, starting at `offset` (NULL: 0). `data` points to the first element;
 *  `size` is the bytes between the lowest and the highest. The memory may be changed after it returns. A variable with
 *  steps needs an open step. */
dry_status dry_put(dry_writer *writer, const char *path, dry_type type, const void *data, uint64_t size, uint32_t ndim,
                   const uint64_t *offset, const uint64_t *count, const dry_put_options *options);

/** Writes a block of a DRY_STRING or DRY_RAGGED variable, row-major. `lengths` in bytes; NULL: each text ends with
 *  NUL. */
dry_status dry_put_strings(dry_writer *writer, const char *path, const char *const *values, const uint64_t *lengths,
                           uint32_t ndim, const uint64_t *offset, const uint64_t *count);

/** Writes a block of a DRY_RAGGED variable, row-major. `numbers` holds the lists, concatenated; `type` must be the type
 *  of the variable's numbers. `lengths` has the number count of each list. */
dry_status dry_put_lists(dry_writer *writer, const char *path, dry_type type, const void *numbers, const uint64_t *lengths,
                         uint32_t ndim, const uint64_t *offset, const uint64_t *count);

/** Like dry_put_strings, for a member of records. There are `value_count` texts: for a member that is an array, those of
 *  the first cell come first, then those of the next one. */
dry_status dry_put_member_strings(dry_writer *writer, const char *path, const char *member, const char *const *values,
                                  const uint64_t *lengths, size_t value_count, uint32_t ndim, const uint64_t *offset,
                                  const uint64_t *count);

/** Like dry_put_lists, for a member of records, with `list_count` lists. */
dry_status dry_put_member_lists(dry_writer *writer, const char *path, const char *member, dry_type type, const void *numbers,
                                const uint64_t *lengths, size_t list_count, uint32_t ndim, const uint64_t *offset,
                                const uint64_t *count);

/** Passes everything buffered to the operating system. Nothing becomes visible. */
dry_status dry_writer_flush(dry_writer *writer);

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct dry_variable dry_variable;

/** A condition on cells. One thread at a time may take hits from it. */
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
    uint32_t chunk_ndim;      /* 0: the library chooses how blocks are cut */
    uint32_t member_ndim;
    uint32_t has_steps;
    uint32_t local;
    uint32_t grows;           /* bit d: dimension d grows */
    uint32_t reserved;
} dry_variable_info;

/** `count` cells: start, start + step, ... A step of 0 means 1. */
typedef struct dry_axis {
    uint64_t start;
    uint64_t count;
    int64_t step;
} dry_axis;

typedef struct dry_read_report {
    uint32_t struct_size;
    uint32_t readers;      /* ranks that read for all, in dry_team_read; 0: each rank reads for itself */
    uint64_t wanted_bytes; /* of the selected cells that blocks contain */
    uint64_t read_bytes;   /* from storage */
    uint64_t requests;     /* to storage */
    uint64_t blocks;       /* blocks that contribute cells */
    double max_error;      /* guaranteed bound, errors of lossy transforms included; infinite: no bound */
    double max_relative_error;
} dry_read_report;

/** The required accuracy. Less may need fewer bytes, if the transform has levels (docs/guide/transforms.md). */
enum {
    DRY_EXACT = 0,
    DRY_WITHIN = 1,          /* absolute error at most max_error; DRY_INVALID_ARGUMENT if that cannot be guaranteed */
    DRY_WITHIN_RELATIVE = 2, /* error at most max_error times the magnitude of the written value */
    DRY_LEVEL = 3            /* the levels 1 to `level` of the transform */
};

typedef struct dry_read_options {
    uint32_t struct_size;
    uint32_t accuracy;
    uint64_t item_size;      /* as in dry_put_options */
    const int64_t *strides;  /* as in dry_put_options; no two elements may share a byte */
    dry_read_report *report; /* gets the cost, or NULL */
    double max_error;
    uint32_t level;
    uint32_t readers;        /* in dry_team_read: ranks that read for all, or DRY_ALONE: each for itself; 0: the cheapest */
} dry_read_options;

/** A written block. */
typedef struct dry_block {
    uint32_t struct_size;
    uint32_t ndim;
    int64_t step;
    uint64_t offset[8];
    uint64_t count[8];
    uint64_t cut[8];       /* shape of the separately encoded subchunks */
    uint64_t snapshot;     /* whose commit made it visible */
    uint64_t writer;       /* rank, or the number of a writer without ranks */
    uint64_t put;          /* index among its writer's puts */
    uint64_t stored_bytes;
    uint64_t nans;
    uint64_t min, max;     /* bits of an int64_t, uint64_t or double, for signed, unsigned or floating types */
    uint32_t has_min_max;
    uint32_t reserved;
} dry_block;

/** Opens a variable at the current snapshot of the container's handle, or one member of its records (else NULL). */
dry_status dry_variable_open(dry_container *container, const char *path, const char *member, dry_variable **variable);

dry_status dry_variable_close(dry_variable *variable);

dry_status dry_variable_describe(dry_variable *variable, dry_variable_info *info);

enum {
    DRY_TEXT_TYPE = 0,      /* such as "float32" or "record{x: float64, y: float64}" */
    DRY_TEXT_TRANSFORM = 1, /* empty: none */
    DRY_TEXT_ACCESS = 2     /* the expected mix of reads; empty: none declared */
};
dry_status dry_variable_text(dry_variable *variable, int32_t which, char *text, size_t capacity, size_t *length);

enum {
    DRY_NAMES_DIMS = 0,   /* of the dimensions, if they have names */
    DRY_NAMES_MEMBERS = 1 /* of the record's members */
};
/** Names, each followed by NUL. `length` counts bytes. */
dry_status dry_variable_names(dry_variable *variable, int32_t which, char *names, size_t capacity, size_t *length,
                              size_t *count);

/** The fill value's bytes, for cells that were never written; no bytes means zeros. */
dry_status dry_variable_fill(dry_variable *variable, void *fill, size_t capacity, size_t *size);

/** Committed steps in which the variable has a block. */
dry_status dry_variable_steps(dry_variable *variable, uint64_t *steps, size_t capacity, size_t *count);

/** Reads a box of one step (DRY_NO_STEP for a variable without steps). `offset` NULL: 0; `count` NULL: to the end.
 *  Cells that were never written read as fill. */
dry_status dry_read_box(dry_variable *variable, int64_t step, dry_type type, void *data, uint64_t size, uint32_t ndim,
                        const uint64_t *offset, const uint64_t *count, const dry_read_options *options);

/** Reads one cell, slice or strided slice per axis. The first axis of a variable with steps is the step. The shape of
 *  `data` is the counts of the axes. */
dry_status dry_read(dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes, const dry_axis *axes,
                    const dry_read_options *options);

/** Reads texts of a DRY_STRING variable, or lists of a DRY_RAGGED variable, into `text`, concatenated without NULs.
 *  `ends` (or NULL), of `cells` entries, gets for each cell the byte offset at which its text or list ends. */
dry_status dry_read_strings(dry_variable *variable, uint32_t naxes, const dry_axis *axes, char *text, size_t capacity,
                            size_t *length, uint64_t *ends, size_t cells);

/** Reads lists of a DRY_RAGGED variable, concatenated, into `numbers` of `type`, which holds `capacity` numbers.
 *  `length` gets their count, and `lengths` (or NULL), of `cells` entries, the length of each list. With NULL and 0 for
 *  `numbers` and `capacity`, only `length` is set. */
dry_status dry_read_lists(dry_variable *variable, dry_type type, uint32_t naxes, const dry_axis *axes, void *numbers,
                          size_t capacity, size_t *length, uint64_t *lengths, size_t cells);

/** Reads `count` listed cells, one element each, in the order of the list: `naxes` coordinates per cell, the step first
 *  for a variable with steps. `data` has one dimension. */
dry_status dry_read_points(dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes,
                           const uint64_t *cells, size_t count, const dry_read_options *options);

/** Finds the cells of a step (DRY_NO_STEP for a variable without steps) whose values lie between two limits, inclusive.
 *  Blocks that cannot contain such a value are not read. The limits are of `type`: DRY_INT64, DRY_UINT64 or
 *  DRY_FLOAT64. `count` gets the number of cells. If `capacity` suffices, `cells` gets ndim coordinates of each, and
 *  `values` their elements; either may be NULL. To ask for the number only, pass NULL, NULL and 0. Cells never written
 *  are not found. */
dry_status dry_find(dry_variable *variable, int64_t step, dry_type type, const void *low, const void *high,
                    uint64_t *cells, void *values, size_t capacity, size_t *count, dry_read_report *report);

/** A condition on cells of the snapshot that the container's handle shows, such as "p > 3e-5 & abs(u) < 1"
 *  (docs/guide/expressions.md). The selection has one axis per dimension, the step first if the variables have steps; 0
 *  and NULL: all cells. */
dry_status dry_query_open(dry_container *container, const char *condition, uint32_t naxes, const dry_axis *axes,
                          dry_query **query);

/** Closes a query. */
dry_status dry_query_close(dry_query *query);

/** The shape of the selected cells, steps first if there are steps. Its length is the number of coordinates of a
 *  hit. */
dry_status dry_query_shape(dry_query *query, uint64_t *shape, size_t capacity, size_t *naxes);

/** Lower and upper bound of the number of hits, from statistics alone: no value is read. */
dry_status dry_query_bounds(dry_query *query, uint64_t *low, uint64_t *high);

/** The number of hits. `report` (or NULL) gets the bytes and requests used. */
dry_status dry_query_count(dry_query *query, uint64_t *count, dry_read_report *report);

/** A mask of the selected cells, in the shape of dry_query_shape: one byte each, 1 for a hit, else 0. */
dry_status dry_query_mask(dry_query *query, void *mask, uint64_t size, dry_read_report *report);

/** Sets the variables (members after a dot) whose values dry_query_next returns, and restarts at the first hit. */
dry_status dry_query_select(dry_query *query, size_t count, const char *const *names);

/** The next hits in row-major order, at most `capacity`. `count` gets their number, 0 after the last. `coords` (or
 *  NULL) gets the coordinates of each. `values` has memory for each variable named before, or NULL; `sizes` has its
 *  bytes: `capacity` elements in memory form. Both are NULL if no variable was named. Cells never written have the fill
 *  value. */
dry_status dry_query_next(dry_query *query, size_t capacity, int64_t *coords, void *const *values, const uint64_t *sizes,
                          size_t *count, dry_read_report *report);

/** The plan of a query as text: what it would read, and what statistics decide. */
dry_status dry_query_explain(dry_query *query, char *text, size_t capacity, size_t *length);

/** The plan of dry_read as text: ranges, requests, bytes. */
dry_status dry_explain(dry_variable *variable, uint32_t naxes, const dry_axis *axes, char *text, size_t capacity,
                       size_t *length);

/** The blocks written in a step, oldest first. `struct_size` is sizeof(dry_block). */
dry_status dry_blocks(dry_variable *variable, int64_t step, dry_block *blocks, size_t struct_size, size_t capacity,
                      size_t *count);

/** Reads block `number` of dry_blocks as written. `count` is the block's count. Local variables can only be read so. */
dry_status dry_read_block(dry_variable *variable, int64_t step, size_t number, dry_type type, void *data, uint64_t size,
                          uint32_t ndim, const uint64_t *count, const dry_read_options *options);

/** The same for strings; the result is as in dry_read_strings. */
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
    uint32_t length;        /* for DRY_BYTES */
    uint32_t ndim;
    uint64_t offset;        /* bytes from the fragment's beginning */
    uint64_t item_size;
    uint64_t shape[16];
    uint64_t strides[16];   /* bytes */
    int64_t iteration;      /* value of the counter, if a `for` made it */
    uint32_t has_iteration;
    uint32_t has_strides;   /* 0: the elements follow a curve */
} dry_fragment_array;

typedef struct dry_coverage {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t wanted;   /* values in the fragment */
    uint64_t covered;  /* values that a block contains */
    uint64_t unmapped; /* values that map to no cell of the dataset */
    uint64_t missing;  /* values that were never written */
} dry_coverage;

/** Declares a text in the dataset language: creates its variables and stores its fragments, in one commit. */
dry_status dry_declare(dry_container *container, const char *text, const dry_parameter *parameters, size_t count);

/** Opens an instance of a declared fragment, at the current snapshot of the container's handle. */
dry_status dry_fragment_open(dry_container *container, const char *name, const dry_parameter *parameters, size_t count,
                             dry_fragment **fragment);

dry_status dry_fragment_close(dry_fragment *fragment);

dry_status dry_fragment_describe(dry_fragment *fragment, dry_fragment_info *info);

/** Array `number` in the order of memory, and, unless both are NULL, its name. */
dry_status dry_fragment_array_at(dry_fragment *fragment, size_t number, dry_fragment_array *array, char *name,
                                 size_t capacity, size_t *length);

/** Fills the fragment's memory of `size` bytes. Bytes that map to no cell of the dataset stay unchanged. */
dry_status dry_fragment_read(dry_fragment *fragment, int64_t step, void *data, uint64_t size, dry_read_report *report);

/** Puts the fragment's memory through a writer; variables with steps go into its open step. */
dry_status dry_fragment_write(dry_fragment *fragment, dry_writer *writer, const void *data, uint64_t size);

dry_status dry_fragment_coverage(dry_fragment *fragment, int64_t step, dry_coverage *coverage);

dry_status dry_fragment_explain(dry_fragment *fragment, int64_t step, char *text, size_t capacity, size_t *length);

/* ---- rules: conversions between memory layouts (docs/guide/rules.md) -------------------------------------------------- */

typedef struct dry_rule dry_rule;

/** A box of an array of numbers, and its memory layout. */
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
    uint64_t src_size; /* size of the source in bytes */
    uint64_t dst_size; /* size of the destination in bytes */
    uint64_t moved;    /* bytes written */
    uint8_t hash[16];  /* equal for equal rules, in every process */
} dry_rule_info;

/** What happens to numbers that do not fit the destination's type. */
enum { DRY_REFUSE = 0, DRY_SATURATE = 1, DRY_WRAP = 2 };

/** Compiles the conversion from boxes in one memory to boxes in another: cells that both contain are copied. */
dry_status dry_rule_compile(const dry_layout *src, size_t src_count, const dry_layout *dst, size_t dst_count,
                            int32_t narrowing, dry_rule **rule);

/** Decodes a rule that dry_rule_encode made, perhaps on another machine. It is checked against the sizes of both
 *  memories. */
dry_status dry_rule_decode(const void *encoded, uint64_t size, uint64_t src_size, uint64_t dst_size, dry_rule **rule);

dry_status dry_rule_close(dry_rule *rule);

dry_status dry_rule_encode(dry_rule *rule, void *encoded, size_t capacity, size_t *size);

dry_status dry_rule_describe(dry_rule *rule, dry_rule_info *info);

dry_status dry_rule_text(dry_rule *rule, char *text, size_t capacity, size_t *length);

/** Runs the rule. Both memories must be at least as large as the rule requires, and must not overlap. */
dry_status dry_rule_apply(dry_rule *rule, const void *src, uint64_t src_size, void *dst, uint64_t dst_size);

/* ---- programs of many ranks (drystone_mpi.h makes the communicator from MPI's) ----------------------------------- */

/** Gathers what every rank sends, on all ranks, in the order of ranks: `size` bytes of each, concatenated in `receive`.
 *  Returns 0, or an error code of its own. */
typedef int32_t (*dry_all_gather)(void *context, const void *send, uint64_t size, void *receive);

/** Sends each rank its part of `send`: `send_sizes` has the bytes for each rank, concatenated. Receives likewise. */
typedef int32_t (*dry_exchange)(void *context, const void *send, const uint64_t *send_sizes, void *receive,
                                const uint64_t *receive_sizes);

/** How the ranks of a program communicate. `context` and the callbacks must stay valid until the team's handles are
 *  closed. */
typedef struct dry_communicator {
    uint32_t struct_size;
    uint32_t rank; /* of this process, below size */
    uint32_t size; /* number of ranks */
    uint32_t reserved;
    uint64_t node; /* a number shared by the ranks of one machine */
    void *context;
    dry_all_gather all_gather;
    dry_exchange exchange;
} dry_communicator;

/** A container that all ranks have opened. Its functions are collective: all ranks call them in the same order, and a
 *  failure of one rank is an error on all. Wrong arguments count as a failure, but not a wrong handle: it has no
 *  communicator. */
typedef struct dry_team dry_team;

/** Creates a container: rank 0 creates it, then the other ranks open it. */
dry_status dry_team_create(const char *path, const dry_create_options *options, const dry_communicator *communicator,
                           dry_team **team);

/** Opens a container, rank 0 first. With DRY_READ, all ranks stay at the same snapshot. */
dry_status dry_team_open(const char *path, int32_t mode, const dry_communicator *communicator, dry_team **team);

/** Closes the team's handle and its container's; not collective. Close writers first. */
dry_status dry_team_close(dry_team *team);

/** A handle of this rank's container, for reading, or on one rank for schema changes; close it separately. Not
 *  collective. */
dry_status dry_team_container(dry_team *team, dry_container **container);

/** Shares the status of all ranks: `mine` is the status of this rank's last action. All get the status of the first
 *  rank that failed. If none failed, all move to the newest snapshot, and so see variables created, or a recovery made,
 *  by one of them. */
dry_status dry_team_agree(dry_team *team, dry_status mine);

typedef struct dry_team_writer_options {
    uint32_t struct_size;
    uint32_t writers; /* number of ranks that write, at most all; 0: the cheapest number */
} dry_team_writer_options;

/** Opens the writer of all ranks together. Use it as any other, with dry_begin_step, dry_put, dry_end_step,
 *  dry_abort_step and dry_writer_close; all but the puts are collective. dry_end_step commits: when it returns, the
 *  step is visible, or has failed on all ranks. Small blocks are kept until then, and few ranks write them for the
 *  others. DRY_CONFLICT if a dead run left steps: call dry_recover on one rank, and dry_team_agree. */
dry_status dry_team_writer_open(dry_team *team, const dry_team_writer_options *options, dry_writer **writer);

/** Each rank reads for itself. */
#define DRY_ALONE UINT32_MAX

/** Like dry_read, on all ranks. Each rank passes a handle of the same variable at the same snapshot, and reads its own
 *  cells, or none. If ranks read small interleaved parts, few of them read larger boxes and send the others their
 *  parts. If parts are large, each reads for itself. A failure of one rank is an error on all. */
dry_status dry_team_read(dry_team *team, dry_variable *variable, dry_type type, void *data, uint64_t size, uint32_t naxes,
                         const dry_axis *axes, const dry_read_options *options);

/** Like dry_read_box, on all ranks. */
dry_status dry_team_read_box(dry_team *team, dry_variable *variable, int64_t step, dry_type type, void *data, uint64_t size,
                             uint32_t ndim, const uint64_t *offset, const uint64_t *count, const dry_read_options *options);

/* ---- registered functions (docs/guide/derived.md) ----------------------------------------------------------------- */

/** A function over tiles, as drystone_function.h defines it. */
struct drystone_function;

/** Gives a function a name in this process: derived variables may call it, as in "apply(smooth, T, f4, 1)", and results
 *  in transit. The description is copied; the function and its state must exist until the process ends. A function of
 *  the same name gives way. `deadline`: seconds for a result. `memory`: the most bytes of a release and its results in
 *  transit. 0: the defaults, 10 s and 256 MiB. The name has letters, digits, '_', '-' and '.', at most 64. */
dry_status dry_register_function(const char *name, const struct drystone_function *function, double deadline,
                                 uint64_t memory);

/* ---- regions (docs/guide/regions.md) ------------------------------------------------------------------------------ */

/** A box of a variable at one step, with memory for its values. One thread at a time may use it. */
typedef struct dry_region dry_region;

/** The purpose of a map or a lock. A map may have both. */
enum { DRY_MAP_READ = 1, DRY_MAP_WRITE = 2 };

/** Maps `count` cells per dimension, starting at `offset` (NULL: 0, to the end), of one step, or with DRY_NO_STEP of a
 *  variable without steps. With DRY_MAP_READ the memory gets the values of the container's snapshot. The container must
 *  be open for writing. */
dry_status dry_map(dry_container *container, const char *path, int64_t step, uint32_t ndim, const uint64_t *offset,
                   const uint64_t *count, int32_t access, dry_region **region);

/** The region's memory: elements in row-major order, `size` bytes (or NULL). Valid until dry_unmap. Call it again after
 *  dry_release, before writing: it waits until the released values have been read from the memory. */
dry_status dry_region_memory(dry_region *region, void **memory, uint64_t *size);

/** DRY_MAP_READ reads the newest committed values into the memory, without waiting. DRY_MAP_WRITE locks the box as soon
 *  as no other lock has a cell of it; DRY_DEADLINE after `timeout` seconds. The lock is renewed while the program
 *  lives. If the region is also mapped for reading, locking commits all values released in it before, and the memory
 *  contains them. */
dry_status dry_lock(dry_region *region, int32_t access, double timeout);

/** Releases the values, and ends the lock if there is one. Returns when the release has `level`; DRY_RECEIVED: at once.
 *  `transfer` (or NULL) gets a number for dry_transfer_wait. DRY_CONFLICT if the lock ended before: nothing was
 *  written. */
dry_status dry_release(dry_region *region, int32_t level, uint64_t *transfer);

/** Ends the lock and drops the values. */
dry_status dry_unlock(dry_region *region);

/** Ends the lock and frees the memory. */
dry_status dry_unmap(dry_region *region);

/** Copies committed values of one variable to another, of one step or, with DRY_NO_STEP, of all, where the container
 *  is. `rule`: such as "cast:dtype=f4"; NULL: unchanged. */
dry_status dry_transfer(dry_container *container, const char *from, const char *to, const char *rule, int64_t step,
                        uint64_t *transfer);

/** Waits until a transfer has a level; DRY_DEADLINE after `timeout` seconds. If the transfer failed, returns why.
 *  `reached` (or NULL) gets the level. DRY_STABLE is reached only by releases that requested it. */
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

/** The record type of a C struct. */
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
