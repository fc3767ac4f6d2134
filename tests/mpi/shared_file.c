/*
 * All ranks write or read one shared file by MPI-IO, as unmodified simulations do. The program knows nothing of Drystone.
 *
 *   shared_file write|read|exchange KERNEL HOW BLOCKS SIZE SEED PATH [PATH...]
 *
 * KERNEL  strided: block b of rank r is block b * ranks + r of the file (LANL's mpi_io_test); BLOCKS is the number of all
 *         ranks together, so that any number of ranks reads what another number wrote.
 *         cube: BLOCKS arrays behind each other, SIZE^3 numbers each, of which a rank has a box (Pixie3D's checkpoint).
 * HOW     at, at_all: a call per block, independent or collective.   async: nonblocking calls per block.
 *         view, view_all: one call for all blocks, through a file view.   atomic: as view, in atomic mode.
 *         ordered: a call per block with the shared file pointer.   posix: pwrite and pread.   each: a file per rank.
 * PATH    names of the same file; rank r opens number r modulo their count (the file on several mounts).
 *
 * "exchange" writes the strided kernel block by block, and after each block every rank reads the block of the next rank with the
 * handle that it has open: write, sync, barrier, sync, read, as MPI prescribes.
 *
 * The 8 bytes at offset o are a function of o and SEED, so that each word is checked wherever it is read.
 * HINTS in the environment are info keys: "romio_ds_write=disable,romio_cb_write=enable".
 * Rank 0 prints the seconds from open to close of the slowest rank.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void fail(const char *what, long long value)
{
    fprintf(stderr, "rank %d: %s (%lld)\n", rank, what, value);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void must(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static uint64_t word(uint64_t offset, uint64_t seed)
{
    return (offset + 8) * 0x9E3779B97F4A7C15u ^ seed * 0xC2B2AE3D27D4EB4Fu;
}

/* Runs of bytes of the file that this rank has, in order. */
struct run {
    MPI_Offset offset;
    size_t length;
};

struct share {
    struct run *runs;
    size_t count;
    size_t bytes;
    MPI_Datatype view; /* the same as a file type, from offset 0 on */
};

static struct share strided(long long blocks, size_t size)
{
    struct share mine = {0};
    mine.count = (size_t)((blocks - rank + ranks - 1) / ranks);
    mine.runs = calloc(mine.count + 1, sizeof *mine.runs);
    MPI_Aint *places = calloc(mine.count + 1, sizeof *places);
    for (size_t b = 0; b < mine.count; b++) {
        mine.runs[b].offset = (MPI_Offset)((b * (size_t)ranks + (size_t)rank) * size);
        mine.runs[b].length = size;
        places[b] = (MPI_Aint)mine.runs[b].offset;
        mine.bytes += size;
    }
    MPI_Type_create_hindexed_block((int)mine.count, (int)size, places, MPI_BYTE, &mine.view);
    MPI_Type_commit(&mine.view);
    free(places);
    return mine;
}

static struct share cube(long long arrays, int side)
{
    struct share mine = {0};
    int grid[3] = {0, 0, 0}, full[4], part[4], from[4];
    MPI_Dims_create(ranks, 3, grid);
    int here[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    full[0] = part[0] = (int)arrays;
    from[0] = 0;
    for (int axis = 0; axis < 3; axis++) {
        full[axis + 1] = side;
        from[axis + 1] = side * here[axis] / grid[axis];
        part[axis + 1] = side * (here[axis] + 1) / grid[axis] - from[axis + 1];
    }
    MPI_Type_create_subarray(4, full, part, from, MPI_ORDER_C, MPI_DOUBLE, &mine.view);
    MPI_Type_commit(&mine.view);
    mine.count = (size_t)part[0] * (size_t)part[1] * (size_t)part[2];
    mine.runs = calloc(mine.count + 1, sizeof *mine.runs);
    size_t next = 0;
    for (int a = 0; a < part[0]; a++)
        for (int z = 0; z < part[1]; z++)
            for (int y = 0; y < part[2]; y++, next++) {
                MPI_Offset line = ((MPI_Offset)a * side + from[1] + z) * side + from[2] + y;
                mine.runs[next].offset = 8 * (line * side + from[3]);
                mine.runs[next].length = 8 * (size_t)part[3];
                mine.bytes += mine.runs[next].length;
            }
    return mine;
}

static void fill(const struct share *mine, uint64_t *memory, uint64_t seed)
{
    for (size_t r = 0; r < mine->count; r++)
        for (size_t at = 0; at < mine->runs[r].length; at += 8)
            *memory++ = word((uint64_t)mine->runs[r].offset + at, seed);
}

static void check(const struct share *mine, const uint64_t *memory, uint64_t seed)
{
    for (size_t r = 0; r < mine->count; r++)
        for (size_t at = 0; at < mine->runs[r].length; at += 8)
            if (*memory++ != word((uint64_t)mine->runs[r].offset + at, seed))
                fail("wrong bytes at", (long long)mine->runs[r].offset + (long long)at);
}

static MPI_Info hints(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    char *text = getenv("HINTS") ? strdup(getenv("HINTS")) : NULL;
    for (char *key = text ? strtok(text, ",") : NULL; key; key = strtok(NULL, ",")) {
        char *value = strchr(key, '=');
        if (value == NULL)
            fail("a hint is KEY=VALUE", 0);
        *value = 0;
        MPI_Info_set(info, key, value + 1);
    }
    free(text);
    return info;
}

static void by_posix(const struct share *mine, char *memory, int write, const char *path)
{
    int file = open(path, write ? O_WRONLY | O_CREAT : O_RDONLY, 0666);
    if (file < 0)
        fail("open", 0);
    for (size_t r = 0; r < mine->count; r++) {
        size_t length = mine->runs[r].length;
        ssize_t done = write ? pwrite(file, memory, length, mine->runs[r].offset)
                             : pread(file, memory, length, mine->runs[r].offset);
        if (done != (ssize_t)length)
            fail("pwrite or pread did", (long long)done);
        memory += length;
    }
    if (close(file))
        fail("close", 0);
}

static void by_mpi(const struct share *mine, char *memory, int write, const char *how, const char *path, size_t most)
{
    MPI_File file;
    MPI_Info info = hints();
    int mode = write ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_RDONLY;
    must(MPI_File_open(MPI_COMM_WORLD, path, mode, info, &file), path);
    int sieved = !strncmp(how, "view", 4) || !strcmp(how, "atomic");
    if (sieved) {
        if (!strcmp(how, "atomic"))
            must(MPI_File_set_atomicity(file, 1), "atomic mode");
        must(MPI_File_set_view(file, 0, MPI_BYTE, mine->view, "native", info), "the view");
        int all = !strcmp(how, "view_all"), bytes = (int)mine->bytes;
        int (*call)(MPI_File, void *, int, MPI_Datatype, MPI_Status *) = all ? MPI_File_read_all : MPI_File_read;
        MPI_Status status;
        if (write)
            must((all ? MPI_File_write_all : MPI_File_write)(file, memory, bytes, MPI_BYTE, &status), how);
        else
            must(call(file, memory, bytes, MPI_BYTE, &status), how);
    }
    for (size_t r = 0; !sieved && r < most; r++) {
        MPI_Offset offset = r < mine->count ? mine->runs[r].offset : 0;
        int length = r < mine->count ? (int)mine->runs[r].length : 0;
        MPI_Request request;
        if (!strcmp(how, "at_all")) {
            if (write)
                must(MPI_File_write_at_all(file, offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
            else
                must(MPI_File_read_at_all(file, offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
        } else if (!strcmp(how, "ordered")) {
            if (write)
                must(MPI_File_write_ordered(file, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
            else
                must(MPI_File_read_ordered(file, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
        } else if (!strcmp(how, "async")) {
            if (write)
                must(MPI_File_iwrite_at(file, offset, memory, length, MPI_BYTE, &request), how);
            else
                must(MPI_File_iread_at(file, offset, memory, length, MPI_BYTE, &request), how);
            must(MPI_Wait(&request, MPI_STATUS_IGNORE), how);
        } else if (write) {
            must(MPI_File_write_at(file, offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
        } else {
            must(MPI_File_read_at(file, offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), how);
        }
        memory += length;
    }
    must(MPI_File_close(&file), "close");
    MPI_Info_free(&info);
}

static void exchange(const struct share *mine, char *memory, const char *path, uint64_t seed)
{
    MPI_File file;
    MPI_Info info = hints();
    must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file), path);
    for (size_t r = 0; r < mine->count; r++) {
        int length = (int)mine->runs[r].length;
        must(MPI_File_write_at(file, mine->runs[r].offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        must(MPI_File_sync(file), "sync");
        MPI_Barrier(MPI_COMM_WORLD);
        must(MPI_File_sync(file), "sync");
        struct run next = {mine->runs[r].offset + ((rank + 1) % ranks - rank) * (MPI_Offset)length, (size_t)length};
        struct share theirs = {&next, 1, next.length, mine->view};
        must(MPI_File_read_at(file, next.offset, memory, length, MPI_BYTE, MPI_STATUS_IGNORE), "read");
        check(&theirs, (uint64_t *)(void *)memory, seed);
        memory += length;
    }
    must(MPI_File_close(&file), "close");
    MPI_Info_free(&info);
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < 8)
        fail("usage: shared_file write|read|exchange KERNEL HOW BLOCKS SIZE SEED PATH...", count);
    int write = strcmp(words[1], "read") != 0, exchanges = !strcmp(words[1], "exchange");
    const char *how = words[3], *path = words[7 + rank % (count - 7)];
    long long blocks = atoll(words[4]), size = atoll(words[5]);
    uint64_t seed = (uint64_t)atoll(words[6]);
    struct share mine = strcmp(words[2], "cube") ? strided(blocks, (size_t)size) : cube(blocks, (int)size);
    unsigned long long most = mine.count;
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    char *memory = calloc(mine.bytes + 8, 1);
    if (write)
        fill(&mine, (uint64_t *)(void *)memory, seed);
    char own[4096];
    if (!strcmp(how, "each")) { /* block after block in a file of its own */
        snprintf(own, sizeof own, "%s.%d", path, rank);
        path = own;
    }
    struct share placed = mine;
    placed.runs = malloc((mine.count + 1) * sizeof *placed.runs);
    for (size_t r = 0, at = 0; r < mine.count; at += mine.runs[r].length, r++) {
        placed.runs[r] = mine.runs[r];
        if (!strcmp(how, "each"))
            placed.runs[r].offset = (MPI_Offset)at;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    if (exchanges)
        exchange(&mine, memory, path, seed);
    else if (!strcmp(how, "posix") || !strcmp(how, "each"))
        by_posix(&placed, memory, write, path);
    else
        by_mpi(&mine, memory, write, how, path, (size_t)most);
    double seconds = MPI_Wtime() - begun;
    if (!write)
        check(&mine, (uint64_t *)(void *)memory, seed);
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f\n", seconds);
    MPI_Type_free(&mine.view);
    free(placed.runs);
    free(mine.runs);
    free(memory);
    MPI_Finalize();
    return 0;
}
