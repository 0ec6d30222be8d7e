/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the programs and the library: those installed beside this binary, and mpirun and COMMAND in
 * PATH. Called before anything is started, so that a missing file is one line and costs nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

/* Looks up a name in PATH. Returns 0, -ENOENT, or -EACCES if it was found but is not executable. */
static fs_err find_in_path(const char *name, char *out, size_t size) {
  const char *path = getenv("PATH");
  fs_err err = -ENOENT;
  if (!path) path = "/usr/local/bin:/usr/bin:/bin";
  for (size_t n;; path += n + 1) {
    n = strcspn(path, ":");
    struct stat st;
    int len = snprintf(out, size, "%.*s%s%s", (int)n, path, n > 0 ? "/" : "./", name);
    if (len > 0 && (size_t)len < size && stat(out, &st) == 0 && S_ISREG(st.st_mode)) {
      if (access(out, X_OK) == 0) return 0;
      err = -EACCES;
    }
    if (path[n] == '\0') return err;
  }
}

fs_err fs_find_command(const char *name, char *out, size_t size) {
  struct stat st;
  if (!strchr(name, '/')) return find_in_path(name, out, size);
  int n = snprintf(out, size, "%s", name);
  if (n < 0 || (size_t)n >= size) return -ENAMETOOLONG;
  if (stat(name, &st) < 0) return -errno;
  return S_ISREG(st.st_mode) && access(name, X_OK) == 0 ? 0 : -EACCES;
}

int fs_check_command(const struct fs_launch *l) {
  const char *command = l->opt.command[0];
  char path[PATH_MAX];
  if (!l->first_here) return 0; /* the host that runs it will report */
  fs_err err = fs_find_command(command, path, sizeof(path));
  if (err == 0) return 0;
  if (err == -EACCES) {
    fs_say("%s: not executable", command);
    return FS_EXIT_NOT_EXECUTABLE;
  }
  fs_say("%s: command not found", command);
  return FS_EXIT_NOT_FOUND;
}

FILE *fs_program_says(const char *path, const char *arguments) {
  char command[PATH_MAX + 96];
  if (strchr(path, '\'')) return NULL;
  snprintf(command, sizeof(command), "unset LD_PRELOAD; '%s' %s 2>/dev/null </dev/null", path, arguments);
  return popen(command, "re");
}

/* Returns true if this Open MPI has a UCX component. FANSTORE_PML decides without a look. */
static bool have_ucx(const struct fs_launch *l) {
  char info[PATH_MAX];
  const char *pml = getenv("FANSTORE_PML");
  if (pml && pml[0] != '\0') return strcmp(pml, "ucx") == 0;
  snprintf(info, sizeof(info), "%.*s/ompi_info", (int)(strrchr(l->mpirun, '/') - l->mpirun), l->mpirun);
  /* This is the usual case; otherwise the start fails with a reason. */
  if (access(info, X_OK) < 0) return true;
  FILE *f = fs_program_says(info, "--parsable --param pml ucx");
  if (!f) return true;
  char line[256];
  bool found = false;
  while (fgets(line, sizeof(line), f)) found = found || strncmp(line, "mca:pml:ucx:", 12) == 0;
  pclose(f);
  return found;
}

static int find_mpirun(struct fs_launch *l) {
  const char *named = getenv("FANSTORE_MPIRUN");
  if (named && named[0] == '/') {
    snprintf(l->mpirun, sizeof(l->mpirun), "%s", named);
    l->mpirun_named = true;
    if (access(l->mpirun, X_OK) == 0) return 0;
    fs_say("FANSTORE_MPIRUN=%s: %s", named, strerror(errno));
    return FS_EXIT_FAILED;
  }
  bool srun = named && strcmp(named, "srun") == 0;
  if (!srun && find_in_path("mpirun", l->mpirun, sizeof(l->mpirun)) == 0) return 0;
  l->by_srun = l->where == FS_WHERE_SLURM && find_in_path("srun", l->mpirun, sizeof(l->mpirun)) == 0;
  if (l->by_srun) return 0;
  if (srun)
    fs_say("FANSTORE_MPIRUN=srun: this is no Slurm job, or srun is not in PATH");
  else
    fs_say("mpirun is not in PATH: install Open MPI (on Debian: apt-get install openmpi-bin) or load its module");
  return FS_EXIT_FAILED;
}

/* Finds <prefix>/lib/libfanstore.so for a binary in <prefix>/bin. LD_PRELOAD accepts neither spaces
   nor colons in a path. */
static int find_library(struct fs_launch *l, const char *prefix) {
  static const char *const dirs[] = {"lib", "lib64", "lib/fanstore"};
  for (size_t i = 0; i < FS_ARRAY_LEN(dirs); i++) {
    int n = snprintf(l->library, sizeof(l->library), "%s/%s/libfanstore.so", prefix, dirs[i]);
    if (n < 0 || (size_t)n >= sizeof(l->library) || access(l->library, R_OK) < 0) continue;
    if (!strpbrk(l->library, " :\t\n")) return 0;
    fs_say("%s: LD_PRELOAD cannot name a path with spaces or colons: install FanStore elsewhere", l->library);
    return FS_EXIT_FAILED;
  }
  fs_say("%s/lib/libfanstore.so: not found: build or install FanStore whole", prefix);
  return FS_EXIT_FAILED;
}

/* Finds the modules for --prefetch torch. PYTHONPATH accepts no colons in a path. */
static int find_python(struct fs_launch *l, const char *prefix) {
  int n = snprintf(l->python, sizeof(l->python), "%s/share/fanstore/python", prefix);
  if (n > 0 && (size_t)n < sizeof(l->python) && access(l->python, X_OK) == 0 && !strchr(l->python, ':')) return 0;
  fs_say("--prefetch torch: %s: not found, or a path with a colon: build or install FanStore whole", l->python);
  return FS_EXIT_FAILED;
}

/* Writes the path of one of our programs in the same directory to out (PATH_MAX). */
static int find_beside(const char *dir, const char *name, char *out) {
  int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
  if (n > 0 && n < PATH_MAX && access(out, X_OK) == 0) return 0;
  fs_say("%s/%s: not found: build or install FanStore whole", dir, name);
  return FS_EXIT_FAILED;
}

static int find_supervisor(const char *dir, char *out) {
#if defined(__x86_64__) || defined(__aarch64__)
  return find_beside(dir, "fanstore-static", out);
#else
  (void)dir, (void)out;
  fs_say("--static: not on this processor, only on x86-64 and aarch64; leave it out for dynamic programs");
  return FS_EXIT_FAILED;
#endif
}

int fs_find_programs(struct fs_launch *l) {
  char prefix[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", l->self, sizeof(l->self) - 1);
  if (n <= 0) {
    fs_say("/proc/self/exe: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  l->self[n] = '\0';
  snprintf(prefix, sizeof(prefix), "%s", l->self);
  *strrchr(prefix, '/') = '\0';
  if (find_beside(prefix, "fanstored", l->fanstored) != 0) return FS_EXIT_FAILED;
  if (l->opt.supervised && find_supervisor(prefix, l->supervisor) != 0) return FS_EXIT_FAILED;
  char *slash = strrchr(prefix, '/');
  if (slash) *slash = '\0';
  int status = find_library(l, prefix);
  if (status == 0 && l->opt.prefetch_torch) status = find_python(l, prefix);
  if (status == 0) status = find_mpirun(l);
  if (status == 0) status = fs_mpi_find(l);
  if (status == 0) l->ucx = have_ucx(l);
  return status;
}
