/*
 * The communicator of drystone.h on MPI-3. MPI counts messages in int, so large ones are sent in pieces. Ranks without
 * data for each other exchange no message.
 */
#include "drystone_mpi.h"

#include <stdlib.h>

/* Bytes of one message; a test may make it small. */
#ifndef DRY_MPI_PIECE
#define DRY_MPI_PIECE (1u << 30)
#endif

struct ranks {
    MPI_Comm comm;
    int rank, size;
};

static int32_t all_gather(void *context, const void *send, uint64_t size, void *receive) {
    const struct ranks *ranks = (const struct ranks *)context;
    if (size > DRY_MPI_PIECE) return MPI_ERR_COUNT; /* the library meets in less than a page */
    return MPI_Allgather(send, (int)size, MPI_BYTE, receive, (int)size, MPI_BYTE, ranks->comm);
}

/* The number of messages for a part of this many bytes. */
static uint64_t pieces(uint64_t size) { return size / DRY_MPI_PIECE + (size % DRY_MPI_PIECE != 0); }

static int32_t exchange(void *context, const void *send, const uint64_t *send_sizes, void *receive,
                        const uint64_t *receive_sizes) {
    const struct ranks *ranks = (const struct ranks *)context;
    const char *from = (const char *)send, *own = NULL;
    char *to = (char *)receive;
    uint64_t many = 0, done;
    int rank, at = 0, code = MPI_SUCCESS;
    MPI_Request *requests;

    for (rank = 0; rank < ranks->size; rank++) many += pieces(send_sizes[rank]) + pieces(receive_sizes[rank]);
    if (many > INT32_MAX) return MPI_ERR_COUNT;
    requests = (MPI_Request *)malloc((many + 1) * sizeof *requests);
    if (requests == NULL) return MPI_ERR_NO_MEM;
    for (rank = 0; rank < ranks->size; rank++) {
        if (rank == ranks->rank) own = from;
        for (done = 0; rank != ranks->rank && done < send_sizes[rank] && code == MPI_SUCCESS; done += DRY_MPI_PIECE) {
            const uint64_t rest = send_sizes[rank] - done;
            code = MPI_Isend((void *)(uintptr_t)(from + done), (int)(rest < DRY_MPI_PIECE ? rest : DRY_MPI_PIECE), MPI_BYTE,
                             rank, 0, ranks->comm, &requests[at++]);
        }
        from += send_sizes[rank];
    }
    for (rank = 0; rank < ranks->size; rank++) {
        if (rank == ranks->rank) {
            if (send_sizes[rank] != receive_sizes[rank]) code = MPI_ERR_COUNT;
            else if (send_sizes[rank] > 0) memcpy(to, own, (size_t)send_sizes[rank]);
        }
        for (done = 0; rank != ranks->rank && done < receive_sizes[rank] && code == MPI_SUCCESS; done += DRY_MPI_PIECE) {
            const uint64_t rest = receive_sizes[rank] - done;
            code = MPI_Irecv(to + done, (int)(rest < DRY_MPI_PIECE ? rest : DRY_MPI_PIECE), MPI_BYTE, rank, 0, ranks->comm,
                             &requests[at++]);
        }
        to += receive_sizes[rank];
    }
    if (code == MPI_SUCCESS) code = MPI_Waitall(at, requests, MPI_STATUSES_IGNORE);
    free(requests);
    return code;
}

/* A number for this machine, from its name (FNV-1a): asking MPI which ranks share memory would need another
 * communicator. */
static uint64_t node(void) {
    char name[MPI_MAX_PROCESSOR_NAME + 1];
    uint64_t number = 0xcbf29ce484222325u;
    int length = 0, i;
    if (MPI_Get_processor_name(name, &length) != MPI_SUCCESS) return 0;
    for (i = 0; i < length; i++) number = (number ^ (unsigned char)name[i]) * 0x100000001b3u;
    return number;
}

dry_status dry_mpi_communicator(MPI_Comm from, dry_communicator *communicator) {
    struct ranks *ranks = (struct ranks *)malloc(sizeof *ranks);
    int code;

    *communicator = dry_communicator_new();
    if (ranks == NULL) return DRY_IO;
    code = MPI_Comm_dup(from, &ranks->comm);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(ranks->comm, &ranks->rank);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(ranks->comm, &ranks->size);
    if (code != MPI_SUCCESS) {
        free(ranks);
        return DRY_IO;
    }
    communicator->rank = (uint32_t)ranks->rank;
    communicator->size = (uint32_t)ranks->size;
    communicator->node = node();
    communicator->context = ranks;
    communicator->all_gather = all_gather;
    communicator->exchange = exchange;
    return DRY_OK;
}

dry_status dry_mpi_communicator_f(MPI_Fint from, dry_communicator *communicator) {
    return dry_mpi_communicator(MPI_Comm_f2c(from), communicator);
}

void dry_mpi_free(dry_communicator *communicator) {
    struct ranks *ranks = (struct ranks *)communicator->context;
    if (ranks == NULL) return;
    MPI_Comm_free(&ranks->comm);
    free(ranks);
    communicator->context = NULL;
}
