/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What MPI gives between two nodes: limit_mpi SIZE COUNT WINDOW under mpirun -np 2. The first rank asks with 8 bytes,
 * the second answers with SIZE bytes out of a 64 MiB area, WINDOW requests at a time; nothing else is done. Prints a
 * JSON object: first, nanoseconds an answer (all of them by their number), and median, of the single ones.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

enum { ASK = 1, ANSWER = 100, MAX_WINDOW = 64, AREA = 64 << 20 };

static int size, count, window;
static char *area;
static uint64_t started[MAX_WINDOW], asked[MAX_WINDOW];

static int by_time(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static char *piece(uint64_t number) {
  return area + number % (uint64_t)(AREA / size) * (uint64_t)size;
}

static void ask(int slot, uint64_t number, MPI_Request *answers) {
  MPI_Irecv(piece(number), size, MPI_BYTE, 1, ANSWER + slot, MPI_COMM_WORLD, &answers[slot]);
  asked[slot] = number << 8 | (unsigned)slot;
  started[slot] = now();
  MPI_Send(&asked[slot], 8, MPI_BYTE, 1, ASK, MPI_COMM_WORLD);
}

/* total answers, window of them on their way; how long each took goes to `took`. */
static uint64_t client(int total, uint64_t *took) {
  MPI_Request answers[MAX_WINDOW];
  int sent = 0, slot;
  uint64_t t = now();
  for (slot = 0; slot < MAX_WINDOW; slot++) answers[slot] = MPI_REQUEST_NULL;
  for (slot = 0; slot < window && sent < total; slot++) ask(slot, (uint64_t)sent++, answers);
  for (int got = 0; got < total; got++) {
    MPI_Waitany(window, answers, &slot, MPI_STATUS_IGNORE);
    took[got] = now() - started[slot];
    if (sent < total) ask(slot, (uint64_t)sent++, answers);
  }
  return now() - t;
}

static void server(int total) {
  MPI_Request asks[MAX_WINDOW], answers[MAX_WINDOW];
  uint64_t request[MAX_WINDOW];
  int slot;
  for (slot = 0; slot < MAX_WINDOW; slot++) answers[slot] = asks[slot] = MPI_REQUEST_NULL;
  for (slot = 0; slot < window && slot < total; slot++)
    MPI_Irecv(&request[slot], 8, MPI_BYTE, 0, ASK, MPI_COMM_WORLD, &asks[slot]);
  for (int done = 0; done < total; done++) {
    MPI_Waitany(window, asks, &slot, MPI_STATUS_IGNORE);
    int to = (int)(request[slot] & 255);
    MPI_Wait(&answers[to], MPI_STATUS_IGNORE);
    MPI_Isend(piece(request[slot] >> 8), size, MPI_BYTE, 0, ANSWER + to, MPI_COMM_WORLD, &answers[to]);
    if (done + window < total) MPI_Irecv(&request[slot], 8, MPI_BYTE, 0, ASK, MPI_COMM_WORLD, &asks[slot]);
  }
  MPI_Waitall(window, answers, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc == 4) size = atoi(argv[1]), count = atoi(argv[2]), window = atoi(argv[3]);
  if (ranks != 2 || size < 1 || size > AREA || count < 1 || window < 1 || window > MAX_WINDOW) {
    if (!rank) fprintf(stderr, "usage: mpirun -np 2 limit_mpi SIZE COUNT WINDOW\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  area = malloc(AREA);
  uint64_t *took = calloc((size_t)count, sizeof(*took));
  if (!area || !took) {
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  memset(area, 1, AREA);
  int warm = count < 100 ? count : 100;
  if (rank) {
    server(warm);
    server(count);
  } else {
    client(warm, took);
    double ns = (double)client(count, took);
    qsort(took, (size_t)count, sizeof(*took), by_time);
    uint64_t median = took[count / 2];
    printf("{\"first\": %.1f, \"median\": %.1f}\n", ns / count, (double)median);
  }
  MPI_Finalize();
  return 0;
}
