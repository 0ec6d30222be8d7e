/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI gives to processes that are no ranks themselves, as the programs of a job are none: limit_relay [-b] [-s]
 * SIZE COUNT [CLIENTS] under mpirun -np 2. Each client posts a number in memory that it shares with the first rank.
 * That rank asks the second with 16 bytes, which answers with SIZE bytes out of an area of 64 MiB. They are received
 * into shared memory, and the client copies them out. A client waits for each of its COUNT answers; nothing else is
 * done. All that wait give their processor away; with -s the clients sleep instead, and the rank wakes them. With -b
 * both ranks have so many clients, and each rank asks the other one: at most 4 KiB. Prints a JSON object: first,
 * nanoseconds an answer (all of the first rank's by their number), and median, of the single ones of the first client.
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

enum { ASK = 1, ANSWER = 100, AREA = 64 << 20, SMALL = 4 << 10, WARM = 100, CLIENTS = 64, MOST_SECONDS = 120 };

struct client {
  _Alignas(64) atomic_uint posted; /* by the client: how many it has asked for */
  _Alignas(64) atomic_uint done;   /* by its rank: how many were answered */
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
static bool sleeps, both;

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

static struct question asked[CLIENTS], incoming;
static MPI_Request answer[CLIENTS], question = MPI_REQUEST_NULL;
static int other; /* rank */

/* Takes a client's question, if it has one, and passes it on. */
static void pass_on(int i) {
  struct question *q = &asked[i];
  if (answer[i] != MPI_REQUEST_NULL || atomic_load(&shared->client[i].posted) == q->number) return;
  MPI_Irecv(shared->bytes + place_of(i, (unsigned)q->number), size, MPI_BYTE, other, ANSWER + i, MPI_COMM_WORLD,
            &answer[i]);
  MPI_Send(q, sizeof(*q), MPI_BYTE, other, ASK, MPI_COMM_WORLD);
}

/* Gives the clients the answers that have come. Returns their number. */
static int give_answers(void) {
  int found = 0, which[CLIENTS];
  for (int i = 0; i < clients; i++) pass_on(i);
  MPI_Testsome(clients, answer, &found, which, MPI_STATUSES_IGNORE);
  for (int k = 0; k < found; k++) {
    struct client *c = &shared->client[which[k]];
    atomic_store(&c->done, (unsigned)++asked[which[k]].number);
    if (sleeps) syscall(SYS_futex, &c->done, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  return found > 0 ? found : 0;
}

/* Answers a question of the other rank. Returns how many. */
static int serve(void) {
  int come = 0;
  if (question == MPI_REQUEST_NULL)
    MPI_Irecv(&incoming, sizeof(incoming), MPI_BYTE, other, ASK, MPI_COMM_WORLD, &question);
  MPI_Test(&question, &come, MPI_STATUS_IGNORE);
  if (!come) return 0;
  MPI_Send(shared->bytes + place_of(incoming.client, (unsigned)incoming.number), size, MPI_BYTE, other,
           ANSWER + incoming.client, MPI_COMM_WORLD);
  return 1;
}

static void relay(bool asks, bool serves) {
  uint64_t total = (WARM + (uint64_t)count) * (unsigned)clients, to_ask = asks ? total : 0,
           to_serve = serves ? total : 0;
  for (int i = 0; i < clients; i++) {
    asked[i].client = i;
    answer[i] = MPI_REQUEST_NULL;
  }
  while (to_ask > 0 || to_serve > 0) {
    int given = to_ask > 0 ? give_answers() : 0, served = to_serve > 0 ? serve() : 0;
    to_ask -= (unsigned)given;
    to_serve -= (unsigned)served;
    if (given + served == 0) sched_yield();
  }
}

/* The clients are made before MPI begins, which does not like a fork later on. Returns the last one. */
static pid_t fork_clients(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  pid_t parent = getpid(), child = -1;
  for (int i = 0; i < clients && rank && (both || strcmp(rank, "0") == 0); i++) {
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
  for (int option; (option = getopt(argc, argv, "bs")) != -1;) {
    if (option == '?') argc = optind;
    *(option == 's' ? &sleeps : &both) = true;
  }
  if (argc - optind >= 2) size = atoi(argv[optind]), count = atoi(argv[optind + 1]);
  if (argc - optind == 3) clients = atoi(argv[optind + 2]);
  if (argc - optind > 3 || size < 1 || clients < 1 || clients > CLIENTS || size > (both ? SMALL : AREA / clients) ||
      count < 1 || count > 1 << 24) {
    fprintf(stderr, "usage: mpirun -np 2 limit_relay [-b] [-s] SIZE COUNT [CLIENTS]\n");
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
  if (ranks != 2 || (both || rank == 0) != (child > 0)) MPI_Abort(MPI_COMM_WORLD, 2);
  other = 1 - rank;
  relay(both || rank == 0, both || rank == 1);
  for (int i = 0; i < clients && child > 0; i++) failed |= wait(&status) < 0 || status != 0;
  if (rank == 0 && !failed) print_result();
  MPI_Finalize();
  return failed;
}
