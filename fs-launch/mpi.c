/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The versions of Open MPI that fs-launch can use, and how each of them spells what fs-launch asks of
 * mpirun (mpirun.c). Open MPI 5 starts its jobs by PRRTE, whose parameters have other names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

static const struct fs_mpi versions[] = {
    {.major = 5,
     .place = "--bind-to none --map-by node:OVERSUBSCRIBE",
     .mca = "--prtemca",
     .signals = "--forward-signals",
     .session = "--prtemca prte_local_tmpdir_base",
     .session_set = {"PRTE_MCA_prte_tmpdir_base", "PRTE_MCA_prte_local_tmpdir_base"},
     .here = "--prtemca plm ssh --prtemca ras ^slurm",
     .agent = "--prtemca plm_ssh_agent",
     .agent_args = "--prtemca plm_ssh_args",
     .starter = "--prtemca prte_launch_agent",
     .daemon = "prted",
     .agent_set = {"PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_rsh_agent"},
     .agent_args_set = {"PRTE_MCA_plm_ssh_args", "OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_rsh_args"},
     .step_set = "PRTE_MCA_plm_slurm_args",
     .attached = "--leave-session-attached",
     .tags = "--output tag:raw",
     .tag_blank = true},
    {.major = 4,
     .place = "--bind-to none --map-by node --oversubscribe",
     .mca = "--mca",
     .signals = "--mca ess_base_forward_signals",
     .session = "--mca orte_tmpdir_base",
     .session_all = true,
     .session_set = {"OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base"},
     .here = "--mca oob_tcp_if_include lo --mca plm isolated --mca ras ^slurm",
     .agent = "--mca plm_rsh_agent",
     .agent_args = "--mca plm_rsh_args",
     .starter = "--mca orte_launch_agent",
     .daemon = "orted",
     .agent_set = {"OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_rsh_agent"},
     .agent_args_set = {"OMPI_MCA_plm_rsh_args"},
     .step_set = "OMPI_MCA_plm_slurm_args",
     .attached = "--mca orte_leave_session_attached 1",
     .tags = "--tag-output"},
};

const char *fs_mpi_set(const char *const names[FS_MPI_NAMES]) {
  const char *value = NULL;
  for (size_t i = 0; i < FS_MPI_NAMES && names[i] && !value; i++) value = getenv(names[i]);
  return value;
}

/* Reads the first line of what `mpirun --version` prints. */
static void first_line(const struct fs_launch *l, char *line, size_t size) {
  FILE *f = fs_program_says(l->mpirun, "--version");
  line[0] = '\0';
  if (!f) return;
  if (!fgets(line, (int)size, f)) line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  pclose(f);
}

/* A script in the place of mpirun that prints something else is taken for the oldest version. */
int fs_mpi_find(struct fs_launch *l) {
  l->mpi = &versions[FS_ARRAY_LEN(versions) - 1]; /* whose words fs_by_srun knows */
  if (l->by_srun) return 0;
  static const char *const others[] = {"HYDRA", "Intel(R) MPI", "MPICH", "MVAPICH"};
  char line[256];
  first_line(l, line, sizeof(line));
  const char *open = strstr(line, "(Open MPI) ");
  size_t i = 0, oldest = FS_ARRAY_LEN(versions) - 1;
  unsigned major = open ? (unsigned)strtoul(open + 11, NULL, 10) : versions[oldest].major;
  bool other = major < versions[oldest].major;
  for (size_t k = 0; !open && k < FS_ARRAY_LEN(others); k++) other = other || strstr(line, others[k]);
  if (other) {
    fs_say(
        "%s: \"%.100s\", but FanStore needs Open MPI 4.1 or 5: put its bin directory first in PATH, or name its mpirun "
        "by FANSTORE_MPIRUN",
        l->mpirun, line);
    return FS_EXIT_FAILED;
  }
  while (i < oldest && versions[i].major > major) i++;
  l->mpi = &versions[i];
  return 0;
}
