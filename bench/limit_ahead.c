/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI gives to a reader whose files are known ahead: limit_ahead SIZE COUNT WORK_US under mpirun -np 2. A thread
 * of the first rank copies one file after the other out of the memory that they were received in, and computes for so
 * long after each; the rank itself asks the second one for the files, ahead of the reader by up to 64 MiB, in pieces of
 * at most 256 KiB, 16 on their way. No checks, no look-up. Prints a JSON object: first, nanoseconds a file.
 */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

enum { ASK = 1, ANSWER = 100, WINDOW = 16, AREA = 64 << 20, PIECE = 256 << 10 };

static int size, count, work_us, per_file; /* pieces */
static char *area;
static sem_t whole;      /* files that have arrived and were not read */
static atomic_int files; /* that were read */

static int length(int number) {
  int rest = size - number % per_file * PIECE;
  return rest < PIECE ? rest : PIECE;
}

static char *place(int number) {
  return area + (size_t)(number / per_file % (AREA / size)) * (size_t)size + (size_t)(number % per_file) * PIECE;
}

static void *reader(void *arg) {
  char *buffer = arg;
  for (int i = 0; i < count; i++) {
    while (sem_wait(&whole) != 0) continue;
    memcpy(buffer, place(i * per_file), (size_t)size);
    atomic_store(&files, i + 1);
    for (uint64_t end = now() + (uint64_t)work_us * 1000; now() < end;) continue;
  }
  return NULL;
}

static void ask(int number, MPI_Request *answer) {
  MPI_Irecv(place(number), length(number), MPI_BYTE, 1, ANSWER + number % WINDOW, MPI_COMM_WORLD, answer);
  MPI_Send(&number, 1, MPI_INT, 1, ASK, MPI_COMM_WORLD);
}

/* Is there memory for this piece's file? */
static int room(int number) {
  return number / per_file - atomic_load(&files) < AREA / size;
}

static void client(void) {
  MPI_Request answers[WINDOW];
  int asked = 0, total = count * per_file;
  for (int got = 0; got < total;) {
    int there = 0;
    while (asked < total && asked - got < WINDOW && room(asked)) {
      ask(asked, &answers[asked % WINDOW]);
      asked++;
    }
    if (asked > got) MPI_Test(&answers[got % WINDOW], &there, MPI_STATUS_IGNORE);
    if (!there) {
      sched_yield();
    } else if (++got % per_file == 0) {
      sem_post(&whole);
    }
  }
}

static void server(void) {
  MPI_Request answers[WINDOW];
  for (int i = 0; i < WINDOW; i++) answers[i] = MPI_REQUEST_NULL;
  for (int done = 0; done < count * per_file; done++) {
    MPI_Request r;
    int number, there = 0;
    MPI_Irecv(&number, 1, MPI_INT, 0, ASK, MPI_COMM_WORLD, &r);
    for (;;) {
      MPI_Test(&r, &there, MPI_STATUS_IGNORE);
      if (there) break;
      sched_yield();
    }
    MPI_Wait(&answers[number % WINDOW], MPI_STATUS_IGNORE);
    MPI_Isend(place(number), length(number), MPI_BYTE, 0, ANSWER + number % WINDOW, MPI_COMM_WORLD,
              &answers[number % WINDOW]);
  }
  MPI_Waitall(WINDOW, answers, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  int rank, ranks, level;
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc == 4) size = atoi(argv[1]), count = atoi(argv[2]), work_us = atoi(argv[3]);
  if (ranks != 2 || size < 1 || size > AREA || count < 1 || work_us < 0) {
    if (!rank) fprintf(stderr, "usage: mpirun -np 2 limit_ahead SIZE COUNT WORK_US\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  per_file = (size + PIECE - 1) / PIECE;
  area = malloc(AREA);
  char *buffer = malloc((size_t)size);
  if (!area || !buffer || sem_init(&whole, 0, 0) != 0) die("memory");
  memset(area, 1, AREA);
  memset(buffer, 1, (size_t)size);
  MPI_Barrier(MPI_COMM_WORLD);
  uint64_t t = now();
  if (rank) {
    server();
  } else {
    if (pthread_create(&thread, NULL, reader, buffer) != 0) die("thread");
    client();
    pthread_join(thread, NULL);
    printf("{\"first\": %.1f}\n", (double)(now() - t) / count);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
