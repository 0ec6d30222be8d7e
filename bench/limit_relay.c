/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI gives to processes that are no ranks themselves, as the programs of a job are none: limit_relay [-s] SIZE
 * COUNT [CLIENTS] under mpirun -np 2. Each client posts a number in memory that it shares with the first rank. That
 * rank asks the second with 16 bytes, which answers with SIZE bytes out of an area of 64 MiB. They are received into
 * shared memory, and the client copies them out. A client waits for each of its COUNT answers; nothing else is done.
 * All that wait give their processor away; with -s the clients sleep instead, and the rank wakes them. Prints a JSON
 * object: first, nanoseconds an answer (all of them by their number), and median, of the single ones of the first
 * client.
 */
#include <linux/futex.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { ASK = 1, ANSWER = 100, AREA = 64 << 20, WARM = 100, CLIENTS = 64, MOST_SECONDS = 120 };

struct client {
  _Alignas(64) atomic_uint posted; /* by the client: how many it has asked for */
  _Alignas(64) atomic_uint done;   /* by the first rank: how many were answered */
  _Alignas(64) uint64_t begin, end;
  double median;
};

static struct shared {
  struct client client[CLIENTS];
  char bytes[]; /* AREA: where answers are received */
} * shared;

struct question {
  uint64_t number;
  int client;
};

static int size, count, clients = 1;
static bool sleeps;

static size_t place(uint64_t number) {
  return number % (AREA / (unsigned)size) * (size_t)size;
}

/* Answers of several clients do not share a place. */
static size_t place_of(int client, unsigned number) {
  return place((uint64_t)number * (unsigned)clients + (unsigned)client);
}

static void ask(int me, unsigned number, char *into) {
  struct client *c = &shared->client[me];
  atomic_store(&c->posted, number + 1);
  for (unsigned done = atomic_load(&c->done); done != number + 1; done = atomic_load(&c->done)) {
    if (sleeps)
      syscall(SYS_futex, &c->done, FUTEX_WAIT, done, NULL, NULL, 0);
    else
      sched_yield();
  }
  memcpy(into, shared->bytes + place_of(me, number), (size_t)size);
}

static int client(int me) {
  char *into = malloc((size_t)size);
  double *took = calloc((size_t)count, sizeof(*took));
  if (!into || !took) return 1;
  for (unsigned i = 0; i < WARM; i++) ask(me, i, into);
  shared->client[me].begin = now();
  for (int i = 0; i < count; i++) {
    uint64_t t = now();
    ask(me, WARM + (unsigned)i, into);
    took[i] = (double)(now() - t);
  }
  shared->client[me].end = now();
  shared->client[me].median = median(took, (unsigned)count);
  return 0;
}

/* Takes a client's question, if it has one, and passes it on. */
static void pass_on(int i, struct question *q, MPI_Request *answer) {
  if (*answer != MPI_REQUEST_NULL || atomic_load(&shared->client[i].posted) == q->number) return;
  MPI_Irecv(shared->bytes + place_of(i, (unsigned)q->number), size, MPI_BYTE, 1, ANSWER + i, MPI_COMM_WORLD, answer);
  MPI_Send(q, sizeof(*q), MPI_BYTE, 1, ASK, MPI_COMM_WORLD);
}

static void relay(uint64_t total) {
  static struct question q[CLIENTS];
  static MPI_Request answer[CLIENTS];
  int found = 0, which[CLIENTS];
  for (int i = 0; i < clients; i++) {
    q[i].client = i;
    answer[i] = MPI_REQUEST_NULL;
  }
  for (uint64_t left = total * (unsigned)clients; left > 0; left -= found > 0 ? (unsigned)found : 0) {
    for (int i = 0; i < clients; i++) pass_on(i, &q[i], &answer[i]);
    MPI_Testsome(clients, answer, &found, which, MPI_STATUSES_IGNORE);
    for (int k = 0; k < found; k++) {
      struct client *c = &shared->client[which[k]];
      atomic_store(&c->done, (unsigned)++q[which[k]].number);
      if (sleeps) syscall(SYS_futex, &c->done, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
    if (found <= 0) sched_yield();
  }
}

static void server(uint64_t total) {
  struct question q;
  MPI_Request request;
  for (uint64_t left = total * (unsigned)clients; left > 0; left--) {
    int done = 0;
    MPI_Irecv(&q, sizeof(q), MPI_BYTE, 0, ASK, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) sched_yield();
    MPI_Send(shared->bytes + place_of(q.client, (unsigned)q.number), size, MPI_BYTE, 0, ANSWER + q.client,
             MPI_COMM_WORLD);
  }
}

/* The clients are made before MPI begins, which does not like a fork later on. Returns the last one. */
static pid_t fork_clients(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  pid_t parent = getpid(), child = -1;
  for (int i = 0; i < clients && rank && strcmp(rank, "0") == 0; i++) {
    child = fork();
    if (child != 0) continue;
    alarm(MOST_SECONDS);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent ? client(i) : 1);
  }
  return child;
}

static void print_result(void) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (int i = 0; i < clients; i++) {
    const struct client *c = &shared->client[i];
    begin = c->begin < begin ? c->begin : begin;
    end = c->end > end ? c->end : end;
  }
  printf("{\"first\": %.1f, \"median\": %.1f}\n", (double)(end - begin) / count / clients, shared->client[0].median);
}

int main(int argc, char **argv) {
  int rank, ranks, status = 0, failed = 0;
  sleeps = argc > 1 && strcmp(argv[1], "-s") == 0;
  if (argc - sleeps >= 3) size = atoi(argv[1 + sleeps]), count = atoi(argv[2 + sleeps]);
  if (argc - sleeps == 4) clients = atoi(argv[3 + sleeps]);
  if (argc - sleeps > 4 || size < 1 || clients < 1 || clients > CLIENTS || size > AREA / clients || count < 1 ||
      count > 1 << 24) {
    fprintf(stderr, "usage: mpirun -np 2 limit_relay [-s] SIZE COUNT [CLIENTS]\n");
    return 2;
  }
  shared = mmap(NULL, sizeof(*shared) + AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("mmap");
  memset(shared->bytes, 1, AREA);
  alarm(MOST_SECONDS);
  pid_t child = fork_clients();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || (rank == 0) != (child > 0)) MPI_Abort(MPI_COMM_WORLD, 2);
  if (rank == 0) {
    relay(WARM + (uint64_t)count);
    for (int i = 0; i < clients; i++) failed |= wait(&status) < 0 || status != 0;
    if (!failed) print_result();
  } else {
    server(WARM + (uint64_t)count);
  }
  MPI_Finalize();
  return failed;
}
