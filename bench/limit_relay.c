/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI gives to a process that is no rank itself, as the programs of a job are none: limit_relay [-s] SIZE COUNT
 * under mpirun -np 2. A client posts a number in memory that it shares with the first rank; that rank asks the second
 * with 8 bytes, which answers with SIZE bytes out of a 64 MiB area; they are received into shared memory, and the
 * client copies them out. One at a time, nothing else is done; who waits gives its processor away; with -s the client
 * sleeps instead, and the rank wakes it. Prints a JSON object: first, nanoseconds an answer (all of them by their
 * number), and median, of the single ones.
 */
/*
 * What MPI gives to a process that is no rank itself, as the programs of a job are none: limit_relay [-s] SIZE COUNT
 * under mpirun -np 2. A client posts a number in memory that it shares with the first rank; that rank asks the second
 * with 8 bytes, which answers with SIZE bytes out of a 64 MiB area; they are received into shared memory, and the
 * client copies them out. One at a time, nothing else is done; who waits gives its processor away. Prints a JSON
 * object: first, nanoseconds an answer (all of them by their number), and median, of the single ones.
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

enum { ASK = 1, ANSWER = 100, AREA = 64 << 20, WARM = 100, MOST_SECONDS = 120 };

struct shared {
  _Alignas(64) atomic_uint posted; /* by the client: how many it has asked for */
  _Alignas(64) atomic_uint done;   /* by the first rank: how many were answered */
  _Alignas(64) double first, median;
  char bytes[]; /* AREA: where answers are received */
};

static int size, count;
static bool sleeps;
static struct shared *shared;

static size_t place(uint64_t number) {
  return number % (AREA / (unsigned)size) * (size_t)size;
}

static void await_answer(unsigned number) {
  for (unsigned done = atomic_load(&shared->done); done != number + 1; done = atomic_load(&shared->done)) {
    if (sleeps)
      syscall(SYS_futex, &shared->done, FUTEX_WAIT, done, NULL, NULL, 0);
    else
      sched_yield();
  }
}

static void ask(unsigned number, char *into) {
  atomic_store(&shared->posted, number + 1);
  await_answer(number);
  memcpy(into, shared->bytes + place(number), (size_t)size);
}

static int client(void) {
  char *into = malloc((size_t)size);
  double *took = calloc((size_t)count, sizeof(*took));
  if (!into || !took) return 1;
  for (unsigned i = 0; i < WARM; i++) ask(i, into);
  uint64_t begin = now();
  for (int i = 0; i < count; i++) {
    uint64_t t = now();
    ask(WARM + (unsigned)i, into);
    took[i] = (double)(now() - t);
  }
  shared->first = (double)(now() - begin) / count;
  shared->median = median(took, (unsigned)count);
  return 0;
}

static void await(MPI_Request *r) {
  int done = 0;
  while (MPI_Test(r, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) sched_yield();
}

static void relay(uint64_t total) {
  MPI_Request answer;
  for (uint64_t i = 0; i < total; i++) {
    while (atomic_load(&shared->posted) == i) sched_yield();
    MPI_Irecv(shared->bytes + place(i), size, MPI_BYTE, 1, ANSWER, MPI_COMM_WORLD, &answer);
    MPI_Send(&i, sizeof(i), MPI_BYTE, 1, ASK, MPI_COMM_WORLD);
    await(&answer);
    atomic_store(&shared->done, (unsigned)i + 1);
    if (sleeps) syscall(SYS_futex, &shared->done, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
}

static void server(uint64_t total) {
  uint64_t number = 0;
  MPI_Request request;
  for (uint64_t i = 0; i < total; i++) {
    MPI_Irecv(&number, sizeof(number), MPI_BYTE, 0, ASK, MPI_COMM_WORLD, &request);
    await(&request);
    MPI_Send(shared->bytes + place(number), size, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
  }
}

/* The client is made before MPI begins, which does not like a fork later on. */
static pid_t fork_client(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  pid_t parent = getpid(), child = rank && strcmp(rank, "0") == 0 ? fork() : -1;
  if (child != 0) return child;
  alarm(MOST_SECONDS);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  _exit(getppid() == parent ? client() : 1);
}

int main(int argc, char **argv) {
  int rank, ranks, status = 0;
  sleeps = argc > 1 && strcmp(argv[1], "-s") == 0;
  if (argc - sleeps == 3) size = atoi(argv[1 + sleeps]), count = atoi(argv[2 + sleeps]);
  if (size < 1 || size > AREA || count < 1 || count > 1 << 24) {
    fprintf(stderr, "usage: mpirun -np 2 limit_relay [-s] SIZE COUNT\n");
    return 2;
  }
  shared = mmap(NULL, sizeof(*shared) + AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) die("mmap");
  memset(shared->bytes, 1, AREA);
  alarm(MOST_SECONDS);
  pid_t child = fork_client();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || (rank == 0) != (child > 0)) MPI_Abort(MPI_COMM_WORLD, 2);
  if (rank == 0) {
    relay(WARM + (uint64_t)count);
    waitpid(child, &status, 0);
    if (status == 0) printf("{\"first\": %.1f, \"median\": %.1f}\n", shared->first, shared->median);
  } else {
    server(WARM + (uint64_t)count);
  }
  MPI_Finalize();
  return status != 0;
}
