/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of ior's POSIX interface, for machines that lack it (bench/ior.sh): all ranks write a
 * file together or each its own, then read. A phase is open, all reads or writes, fsync and close. It
 * is an MPI program, and prints MiB a second, as ior does. Its options are ior's:
 *
 *   -t SIZE   of one read or write
 *   -b SIZE   each rank's block in each segment
 *   -s COUNT  segments
 *   -w, -r    write, read (neither: both)
 *   -F        a file for each rank: -o's name with .RANK
 *   -e        fsync after writing
 *   -z        in random order
 *   -C        each reads what the rank -Q further on wrote, -W that of one still further
 *   -W        read and compare after writing, untimed
 *   -R        compare what is read
 *   -k        leave the files
 *   -E        means nothing here: the files that are there are always used
 *   -i COUNT  repetitions of all that
 *   -o FILE   where
 */
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "mpicommon.h"

static struct {
  uint64_t transfer, block, segments, times;
  unsigned offset;
  int write, read, own, sync, random, reorder, check_write, check_read, keep;
  const char *name;
} o = {.transfer = 256 << 10, .block = 1 << 20, .segments = 1, .times = 1, .offset = 1};

static int rank, ranks;
static int writer; /* whose part this phase is about */
static uint64_t *order, count;
static char *buffer;

static void name_of(char *path, int of) {
  int n = o.own ? snprintf(path, PATH_MAX, "%s.%08d", o.name, of) : snprintf(path, PATH_MAX, "%s", o.name);
  if (n < 0 || n >= PATH_MAX) fail("a path is too long");
}

static int open_file(char *path, int flags) {
  name_of(path, writer);
  int fd = open(path, flags, 0644);
  if (fd < 0) fail("open %s: %s", path, strerror(errno));
  return fd;
}

/* Where the i-th transfer of the writer's part is in the file. */
static uint64_t place(uint64_t i) {
  uint64_t in_part = order[i] * o.transfer, segment = in_part / o.block;
  if (o.own) return in_part;
  return (segment * (uint64_t)ranks + (uint64_t)writer) * o.block + in_part % o.block;
}

static void write_part(void) {
  char path[PATH_MAX];
  int fd = open_file(path, O_WRONLY | O_CREAT);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = place(i);
    if (o.check_read || o.check_write) fill(buffer, o.transfer, (uint64_t)writer, at);
    ssize_t n = pwrite(fd, buffer, o.transfer, (off_t)at);
    if (n != (ssize_t)o.transfer) fail("write %s at %llu: %zd: %s", path, (unsigned long long)at, n, strerror(errno));
  }
  if (o.sync && fsync(fd) != 0) fail("fsync %s: %s", path, strerror(errno));
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

static void read_part(int check) {
  char path[PATH_MAX];
  int fd = open_file(path, O_RDONLY);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t at = place(i);
    ssize_t n = pread(fd, buffer, o.transfer, (off_t)at);
    if (n != (ssize_t)o.transfer) fail("read %s at %llu: %zd: %s", path, (unsigned long long)at, n, strerror(errno));
    size_t wrong = check ? differs(buffer, o.transfer, (uint64_t)writer, at) : o.transfer;
    if (wrong < o.transfer) fail("%s: not what was written, at %zu", path, (size_t)at + wrong);
  }
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

static void check_part(void) {
  read_part(1);
}

static void read_back(void) {
  read_part(o.check_read);
}

static void make_order(void) {
  uint64_t x = 88172645463325252u + (uint64_t)rank;
  count = o.block / o.transfer * o.segments;
  order = calloc(count, sizeof(*order));
  buffer = aligned_alloc(4096, (o.transfer + 4095) / 4096 * 4096);
  if (!order || !buffer) fail("memory");
  for (uint64_t i = 0; i < count; i++) order[i] = i;
  for (uint64_t i = count; o.random && i-- > 1;) {
    uint64_t j = next_random(&x) % (i + 1), was = order[i];
    order[i] = order[j];
    order[j] = was;
  }
  fill(buffer, o.transfer, (uint64_t)rank, 0);
}

static double run(void (*work)(void), unsigned further) {
  writer = (int)((unsigned)rank + (o.reorder ? further : 0)) % ranks;
  return phase(work);
}

static void print_rate(const char *what, double seconds) {
  double mib = (double)(o.block * o.segments) * ranks / (1 << 20);
  if (rank == 0) printf("%-8s %12.2f\n", what, mib / seconds);
}

static void remove_files(void) {
  char path[PATH_MAX];
  if (!o.own && rank > 0) return;
  name_of(path, rank);
  if (unlink(path) != 0) fail("unlink %s: %s", path, strerror(errno));
}

static void options(int argc, char **argv) {
  for (int c; (c = getopt(argc, argv, "t:b:s:i:wrFezCQ:WREko:")) != -1;) switch (c) {
    case 't':
      o.transfer = parse_size(optarg);
      break;
    case 'b':
      o.block = parse_size(optarg);
      break;
    case 's':
      o.segments = parse_size(optarg);
      break;
    case 'i':
      o.times = parse_size(optarg);
      break;
    case 'Q':
      o.offset = (unsigned)parse_size(optarg);
      break;
    case 'o':
      o.name = optarg;
      break;
    case 'w':
      o.write = 1;
      break;
    case 'r':
      o.read = 1;
      break;
    case 'F':
      o.own = 1;
      break;
    case 'e':
      o.sync = 1;
      break;
    case 'z':
      o.random = 1;
      break;
    case 'C':
      o.reorder = 1;
      break;
    case 'W':
      o.check_write = 1;
      break;
    case 'R':
      o.check_read = 1;
      break;
    case 'k':
      o.keep = 1;
      break;
    case 'E':
      break;
    default:
      fail("see the head of ioblocks.c");
    }
  if (!o.write && !o.read) o.write = o.read = 1;
  if (optind != argc || !o.name || o.transfer == 0 || o.block % o.transfer != 0 || o.block == 0 || o.segments == 0)
    fail("see the head of ioblocks.c");
  if (o.block > (1ull << 50) / o.segments || o.transfer > 1u << 30) fail("too large");
}

static void write_and_read(void) {
  if (o.write) {
    print_rate("write", run(write_part, 0));
    if (o.check_write) run(check_part, o.offset + 1);
  }
  if (o.read) print_rate("read", run(read_back, o.offset));
  MPI_Barrier(MPI_COMM_WORLD);
  if (!o.keep) remove_files();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  options(argc, argv);
  make_order();
  for (uint64_t i = 0; i < o.times; i++) write_and_read();
  MPI_Finalize();
  return 0;
}
