/* One container, two programs at once, each a process of its own; and a process that was forked with a writer in its
 * hands. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 20 };

static void wait_for(pid_t child) {
    int how;
    REQUIRE(waitpid(child, &how, 0) == child);
    REQUIRE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static dry_writer *open_rank(dry_container *c, uint32_t rank, uint32_t nranks) {
    dry_writer_options options = dry_writer_options_new();
    dry_writer *w;
    options.rank = rank;
    options.nranks = nranks;
    OK(dry_writer_open(c, &options, &w));
    return w;
}

static dry_status put(dry_writer *w, const char *name, int64_t value) {
    const uint64_t one[1] = {1};
    return dry_put(w, name, DRY_INT64, &value, sizeof value, 1, NULL, one, NULL);
}

/* Each program has its own variable, and commits as often as the other. */
static void append(const char *path, const char *name) {
    int64_t step;
    dry_container *c;
    dry_writer *w;
    OK(dry_open(path, DRY_READ_WRITE, &c));
    OK(dry_writer_open(c, NULL, &w));
    for (step = 0; step < STEPS; step++) {
        OK(dry_begin_step(w, step, 0, NULL));
        OK(put(w, name, step));
        OK(dry_end_step(w, NULL));
        OK(dry_commit(c, NULL));
    }
    OK(dry_writer_close(w));
    OK(dry_container_close(c));
}

static void check(dry_container *c, const char *name) {
    int64_t found[STEPS], i;
    dry_axis axes[2] = {{0, STEPS, 1}, {0, 1, 1}};
    dry_variable *v;
    OK(dry_refresh(c, NULL));
    OK(dry_variable_open(c, name, NULL, &v));
    OK(dry_read(v, DRY_INT64, found, sizeof found, 2, axes, NULL));
    for (i = 0; i < STEPS; i++) REQUIRE(found[i] == i);
    OK(dry_variable_close(v));
}

/* Another program opens the container while this one has an open step. */
static void intrude(const char *path) {
    dry_writer_options options = dry_writer_options_new();
    dry_container *c;
    dry_writer *w;
    FAILS(DRY_CONFLICT, "already holds a container", dry_create(path, NULL, &c));
    OK(dry_open(path, DRY_READ_WRITE, &c));
    options.nranks = 2;
    options.rank = 0;
    FAILS(DRY_CONFLICT, "did not close", dry_writer_open(c, &options, &w));
    options.nranks = 3;
    FAILS(DRY_CONFLICT, "a run of 2 ranks left uncommitted steps", dry_writer_open(c, &options, &w));
    OK(dry_container_close(c));
}

int main(int argc, char **argv) {
    const uint64_t one[1] = {1};
    const char *path = "two_programs.dry";
    dry_variable_options options = dry_variable_options_new();
    dry_create_options create = dry_create_options_new();
    dry_verify_report verified = dry_verify_report_new();
    dry_container *c;
    dry_writer *w[2];
    pid_t child;

    if (argc == 3) { /* the other program */
        if (strcmp(argv[1], "append") == 0) append(path, argv[2]);
        else intrude(path);
        return 0;
    }
    create.durability = DRY_MEMORY;
    OK(dry_create(path, &create, &c));
    options.type = DRY_INT64;
    options.ndim = 1;
    options.shape = one;
    options.has_steps = 1;
    OK(dry_create_variable(c, "a", &options));
    OK(dry_create_variable(c, "b", &options));
    OK(dry_create_variable(c, "r", &options));

    /* Two programs append at once: neither's commit loses anything of the other. */
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl(argv[0], argv[0], "append", "a", (char *)NULL);
        _exit(9);
    }
    append(path, "b");
    wait_for(child);
    check(c, "a");
    check(c, "b");

    /* A second program starts with the same or other ranks before the first has committed. */
    w[0] = open_rank(c, 0, 2);
    w[1] = open_rank(c, 1, 2);
    OK(dry_begin_step(w[0], STEPS, 0, NULL));
    OK(put(w[0], "r", 7));
    OK(dry_end_step(w[0], NULL));
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        execl(argv[0], argv[0], "intrude", "r", (char *)NULL);
        _exit(9);
    }
    wait_for(child);

    /* A child cannot write through its parent's writer: the log would have two owners. */
    OK(dry_begin_step(w[1], STEPS, 0, NULL));
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        dry_status status = put(w[1], "r", 8);
        _exit(status == DRY_INVALID_ARGUMENT && strstr(dry_last_error(), "fork") != NULL ? 0 : 1);
    }
    wait_for(child);
    OK(dry_end_step(w[1], NULL));
    OK(dry_commit(c, NULL));
    OK(dry_writer_close(w[0]));
    OK(dry_writer_close(w[1]));
    OK(dry_verify(c, NULL, NULL, &verified));
    REQUIRE(verified.damaged == 0);
    OK(dry_container_close(c));
    return 0;
}
