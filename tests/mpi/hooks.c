/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program of two ranks in which somebody has put functions of his own in the place of libc's
 * calls on mappings, and makes them by syscall(2), as UCX and Open MPI do: hooks DIRECTORY FILE.
 * With -DOWN_HOOKS the program does it itself. Rank 0 writes an output by a mapping whose
 * descriptor is closed, and rank 1 reads it after each step. FILE is of the dataset: it is mapped,
 * and the mapping grows.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEN 8192

#ifdef OWN_HOOKS
static int hooked;
void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
  hooked++;
  return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
int munmap(void *addr, size_t len) {
  hooked++;
  return (int)syscall(SYS_munmap, addr, len);
}
int msync(void *addr, size_t len, int flags) {
  hooked++;
  return (int)syscall(SYS_msync, addr, len, flags);
}
void *mremap(void *addr, size_t len, size_t to, int flags, ...) {
  hooked++;
  return (void *)syscall(SYS_mremap, addr, len, to, flags, NULL);
}
#endif

static void need(int ok, const char *what) {
  if (ok) return;
  perror(what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void look(const char *path, const char *want) {
  char got[16] = "";
  int fd = open(path, O_RDONLY);
  need(fd >= 0 && pread(fd, got, 5, LEN - 5) == 5, path);
  close(fd);
  need(strncmp(got, want, 5) == 0, got);
}

static void dataset(const char *path) {
  char want[2 * LEN];
  int fd = open(path, O_RDONLY);
  need(fd >= 0 && pread(fd, want, sizeof(want), 0) == sizeof(want), path);
  char *p = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
  need(p != MAP_FAILED && memcmp(p, want, LEN) == 0, "mmap");
  p = mremap(p, LEN, 2 * LEN, MREMAP_MAYMOVE);
  need(p != MAP_FAILED && memcmp(p, want, 2 * LEN) == 0, "mremap");
  need(munmap(p, 2 * LEN) == 0, "munmap");
  close(fd);
}

int main(int argc, char **argv) {
  int rank;
  char *p = NULL, out[4096];
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(out, sizeof(out), "%s/mapped", argv[1]);
  dataset(argv[2]);
  if (rank == 0) {
    int fd = open(out, O_RDWR | O_CREAT, 0644);
    need(fd >= 0 && ftruncate(fd, LEN) == 0, out);
    p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(p != MAP_FAILED && close(fd) == 0, "mmap of the output");
    memcpy(p + LEN - 5, "first", 5);
    need(msync(p, LEN, MS_SYNC) == 0, "msync");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) look(out, "first");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    memcpy(p + LEN - 5, "again", 5);
    need(munmap(p, LEN) == 0, "munmap of the output");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) look(out, "again");
#ifdef OWN_HOOKS
  need(hooked >= 3, "the program's own functions were not called");
#endif
  printf("rank %d: right\n", rank);
  MPI_Finalize();
  return 0;
}
