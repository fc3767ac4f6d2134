/*
 * A parallel HDF5 program: ranks ACT FILE TRANSFER [WORDS]. It asserts what it reads, and says which connector HDF5 really used.
 *
 * write      all create groups, datasets and attributes; each rank writes its rows, and reads those of all after a flush
 * append     all open the file, extend a dataset, write, delete and create
 * read       all open it to read, any number of ranks
 * differ     rank 1 creates another dataset than the others: H5Fflush must fail on every rank
 * value      rank 1 writes another value to an attribute: the same
 * strings    values of variable length: in attributes yes, in datasets refused
 * overwrite  each rank overwrites the rows of its neighbour again and again; with collective transfers all read them without a flush
 * forever    writes and flushes steps until it is killed; rank 0 says each step that was flushed
 */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 3, COLUMNS = 10 };

static int rank, size;
static hid_t access_list, how;

static void require(int so, const char *what) {
    if (so) return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static hid_t ok(hid_t id, const char *what) {
    require(id >= 0, what);
    return id;
}

static void say_connector(hid_t file) {
    char name[64] = "";
    ok(H5VLget_connector_name(file, name, sizeof name) > 0 ? 0 : -1, "connector's name");
    if (rank == 0) printf("connector %s\n", name);
    fflush(stdout);
}

static hid_t space_of(hsize_t rows, hsize_t most) {
    const hsize_t extent[2] = {rows, COLUMNS}, largest[2] = {most, COLUMNS};
    return ok(H5Screate_simple(2, extent, largest), "space");
}

static hid_t chunked(void) {
    const hsize_t chunk[2] = {4, COLUMNS};
    hid_t list = ok(H5Pcreate(H5P_DATASET_CREATE), "creation list");
    ok(H5Pset_chunk(list, 2, chunk), "chunks");
    return list;
}

static int value(hsize_t row, hsize_t column, int salt) { return (int)(row * 1000 + column * 10) + salt; }

/* This rank's rows, which are all it writes; stride 1 in a block, or every size-th. */
static void write_rows(hid_t set, hsize_t first, hsize_t stride, int salt) {
    int values[ROWS * COLUMNS];
    const hsize_t start[2] = {first, 0}, step[2] = {stride, 1}, count[2] = {ROWS, COLUMNS};
    hid_t space = ok(H5Dget_space(set), "space"), memory = ok(H5Screate_simple(2, count, NULL), "space");
    hsize_t i, j;
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < COLUMNS; j++) values[i * COLUMNS + j] = value(first + i * stride, j, salt);
    ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, step, count, NULL), "selection");
    ok(H5Dwrite(set, H5T_NATIVE_INT, memory, space, how, values), "write");
    H5Sclose(space), H5Sclose(memory);
}

static void check_rows(hid_t set, hsize_t rows, int salt) {
    int *values = malloc(rows * COLUMNS * sizeof *values);
    hsize_t i, j;
    require(values != NULL, "no memory");
    ok(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, how, values), "read");
    for (i = 0; i < rows; i++)
        for (j = 0; j < COLUMNS; j++) require(values[i * COLUMNS + j] == value(i, j, salt), "another value than was written");
    free(values);
}

static void attribute(hid_t object, const char *name, int content) {
    hid_t space = ok(H5Screate(H5S_SCALAR), "space");
    hid_t id = ok(H5Acreate2(object, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT), "attribute");
    ok(H5Awrite(id, H5T_NATIVE_INT, &content), "attribute");
    H5Aclose(id), H5Sclose(space);
}

static hid_t create(const char *path) {
    hid_t file = ok(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access_list), "create");
    say_connector(file);
    return file;
}

static hid_t dataset(hid_t at, const char *name, hsize_t rows, hsize_t most) {
    hid_t space = space_of(rows, most), list = chunked();
    hid_t set = ok(H5Dcreate2(at, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT), "dataset");
    H5Sclose(space), H5Pclose(list);
    return set;
}

static void write_file(const char *path) {
    const hsize_t all = (hsize_t)(ROWS * size);
    hid_t file = create(path), group, blocks, turns;
    group = ok(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "group");
    attribute(group, "ranks", size);
    blocks = dataset(group, "blocks", all, H5S_UNLIMITED);
    turns = dataset(group, "turns", all, H5S_UNLIMITED);
    attribute(turns, "stride", size);
    write_rows(blocks, (hsize_t)(ROWS * rank), 1, 1);
    write_rows(turns, (hsize_t)rank, (hsize_t)size, 2);
    ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    check_rows(blocks, all, 1);
    check_rows(turns, all, 2);
    H5Dclose(blocks), H5Dclose(turns), H5Gclose(group);
    ok(H5Fclose(file), "close");
}

static void append_file(const char *path) {
    hsize_t extent[2];
    hid_t file = ok(H5Fopen(path, H5F_ACC_RDWR, access_list), "open"), set, space;
    say_connector(file);
    set = ok(H5Dopen2(file, "g/blocks", H5P_DEFAULT), "dataset");
    space = ok(H5Dget_space(set), "space");
    H5Sget_simple_extent_dims(space, extent, NULL);
    check_rows(set, extent[0], 1);
    extent[0] += (hsize_t)(ROWS * size);
    ok(H5Dset_extent(set, extent), "extent");
    write_rows(set, extent[0] - (hsize_t)(ROWS * (rank + 1)), 1, 1);
    ok(H5Ldelete(file, "g/turns", H5P_DEFAULT), "delete");
    H5Dclose(set), H5Sclose(space);
    set = dataset(file, "g/turns", (hsize_t)(ROWS * size), H5S_UNLIMITED);
    write_rows(set, (hsize_t)(ROWS * rank), 1, 7);
    H5Dclose(set);
    ok(H5Ocopy(file, "g/blocks", file, "copy", H5P_DEFAULT, H5P_DEFAULT), "copy");
    ok(H5Fclose(file), "close");
    file = ok(H5Fopen(path, H5F_ACC_RDONLY, access_list), "open");
    set = ok(H5Dopen2(file, "g/turns", H5P_DEFAULT), "dataset");
    check_rows(set, (hsize_t)(ROWS * size), 7);
    H5Dclose(set);
    set = ok(H5Dopen2(file, "copy", H5P_DEFAULT), "dataset");
    check_rows(set, extent[0], 1);
    H5Dclose(set);
    ok(H5Fclose(file), "close");
}

static void read_file(const char *path) {
    hid_t file = ok(H5Fopen(path, H5F_ACC_RDONLY, access_list), "open"), set, space, list;
    hsize_t extent[2], chunk[2] = {0, 0};
    say_connector(file);
    set = ok(H5Dopen2(file, "g/blocks", H5P_DEFAULT), "dataset");
    space = ok(H5Dget_space(set), "space");
    list = ok(H5Dget_create_plist(set), "creation list");
    require(H5Pget_chunk(list, 2, chunk) == 2 && chunk[0] == 4, "other chunks than were asked for");
    H5Pclose(list);
    H5Sget_simple_extent_dims(space, extent, NULL);
    check_rows(set, extent[0], 1);
    if (rank == 0) printf("rows %d\n", (int)extent[0]);
    H5Sclose(space), H5Dclose(set);
    ok(H5Fclose(file), "close");
}

/* All must fail; each says how. */
static void must_fail(herr_t rc) {
    require(rc < 0, "the ranks were not told that they disagree");
    H5Eprint2(H5E_DEFAULT, stderr);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("refused\n");
}

static void differ(const char *path, int by_value) {
    hid_t file = create(path), set;
    set = dataset(file, "same", 4, 4);
    H5Dclose(set);
    ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    if (by_value) attribute(file, "a", rank == 1);
    else H5Dclose(dataset(file, rank == 1 ? "mine" : "ours", 4, 4));
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    must_fail(H5Fflush(file, H5F_SCOPE_GLOBAL));
    H5Fclose(file);
}

static void strings(const char *path) {
    const char *text = "of any length", *found = NULL;
    const hsize_t one = 1;
    hid_t file = create(path), type = ok(H5Tcopy(H5T_C_S1), "type"), space = ok(H5Screate_simple(1, &one, NULL), "space");
    hid_t at, set;
    ok(H5Tset_size(type, H5T_VARIABLE), "type");
    at = ok(H5Acreate2(file, "text", type, space, H5P_DEFAULT, H5P_DEFAULT), "attribute");
    ok(H5Awrite(at, type, &text), "attribute");
    ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
    ok(H5Aread(at, type, &found), "attribute");
    require(found != NULL && strcmp(found, text) == 0, "another text");
    H5free_memory((void *)found);
    H5Aclose(at);
    set = ok(H5Dcreate2(file, "texts", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "dataset");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    must_fail(H5Dwrite(set, type, H5S_ALL, H5S_ALL, how, &text));
    H5Dclose(set), H5Tclose(type), H5Sclose(space);
    ok(H5Fclose(file), "close");
}

/* A collective read sees the collective write before it: no flush between them, but a barrier. */
static void overwrite(const char *path) {
    const hsize_t all = (hsize_t)(ROWS * size);
    hid_t file = create(path), set = dataset(file, "d", all, all);
    int turn;
    for (turn = 0; turn < 4; turn++) {
        write_rows(set, (hsize_t)(ROWS * ((rank + turn) % size)), 1, turn);
        MPI_Barrier(MPI_COMM_WORLD);
        check_rows(set, all, turn);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    H5Dclose(set);
    ok(H5Fclose(file), "close");
}

static void forever(const char *path) {
    hid_t file = create(path), set = dataset(file, "steps", 0, H5S_UNLIMITED);
    hsize_t extent[2] = {0, COLUMNS};
    printf("process %d %d\n", rank, (int)getpid());
    fflush(stdout);
    for (;;) {
        extent[0] += (hsize_t)(ROWS * size);
        ok(H5Dset_extent(set, extent), "extent");
        write_rows(set, extent[0] - (hsize_t)(ROWS * (rank + 1)), 1, 3);
        ok(H5Fflush(file, H5F_SCOPE_GLOBAL), "flush");
        if (rank == 0) printf("flushed %d\n", (int)extent[0]), fflush(stdout);
    }
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    require(count >= 4, "usage: ranks ACT FILE TRANSFER");
    access_list = ok(H5Pcreate(H5P_FILE_ACCESS), "access list");
    ok(H5Pset_fapl_mpio(access_list, MPI_COMM_WORLD, MPI_INFO_NULL), "mpio");
    how = ok(H5Pcreate(H5P_DATASET_XFER), "transfer list");
    ok(H5Pset_dxpl_mpio(how, strcmp(words[3], "collective") == 0 ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT), "transfer");
    if (strcmp(words[1], "write") == 0) write_file(words[2]);
    else if (strcmp(words[1], "append") == 0) append_file(words[2]);
    else if (strcmp(words[1], "read") == 0) read_file(words[2]);
    else if (strcmp(words[1], "differ") == 0) differ(words[2], 0);
    else if (strcmp(words[1], "value") == 0) differ(words[2], 1);
    else if (strcmp(words[1], "strings") == 0) strings(words[2]);
    else if (strcmp(words[1], "overwrite") == 0) overwrite(words[2]);
    else if (strcmp(words[1], "forever") == 0) forever(words[2]);
    else require(0, "no such ACT");
    H5Pclose(how), H5Pclose(access_list);
    MPI_Finalize();
    return 0;
}
