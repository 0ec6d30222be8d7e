/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpirun: its versions, its command lines, and the network between the hosts. launch.h includes this
 * file. As there, a function returns 0, or the exit status after it told the user the reason in one
 * line.
 */
#ifndef FS_LAUNCH_MPI_H
#define FS_LAUNCH_MPI_H

#include <stdio.h>

#include "util/base.h"

struct fs_launch;

/* mpi.c: how a version of Open MPI spells what fs-launch asks of mpirun. Each text is words, to which
   mpirun.c adds a value where there is one. */
#define FS_MPI_NAMES 3
struct fs_mpi {
  unsigned major;
  const char *place, *here;              /* on which hosts; on this one only */
  const char *mca;                       /* before the name of a parameter of mpirun's */
  const char *attached;                  /* remote daemons keep their stderr */
  const char *tags;                      /* each piece of output tells whose it is (lines.c) */
  bool tag_blank;                        /* a blank follows the tag */
  const char *signals;                   /* to pass on */
  const char *session;                   /* directory for mpirun's files on this host, */
  bool session_all;                      /* or on all hosts, so that it can only be given on this one */
  const char *agent, *agent_args;        /* remote shell, its arguments */
  const char *starter, *daemon;          /* the command that starts mpirun's daemon, and its name */
  const char *session_set[FS_MPI_NAMES]; /* variables by which the user may have set the same */
  const char *agent_set[FS_MPI_NAMES], *agent_args_set[FS_MPI_NAMES], *step_set;
};
/* Runs a program without a preloaded library and returns its output, which pclose closes, or NULL. */
FILE *fs_program_says(const char *path, const char *arguments);
/* srun.c, hidden command: srun with the words of an mpirun. */
int fs_by_srun(int argc, char **argv);
/* Asks mpirun for its version. Returns 0, or the exit status after a message. */
int fs_mpi_find(struct fs_launch *l);
/* Returns the value of the first of these variables that is set, or NULL. */
const char *fs_mpi_set(const char *const names[FS_MPI_NAMES]);

/* mpirun.c: command lines of mpirun, as NULL-terminated arrays; fs_words_free frees them. */
struct fs_words {
  char **word;
  size_t n, room;
};
void fs_words_add(struct fs_words *w, const char *format, ...) FS_PRINTF(2, 3);
void fs_words_all(struct fs_words *w, const char *text); /* adds each word of the text */
void fs_words_free(struct fs_words *w);
void fs_mpirun_daemons(const struct fs_launch *l, struct fs_words *w);
/* One rank of a program on each node: the words up to the program. One rank's death ends all. */
void fs_mpirun_ranks(const struct fs_launch *l, struct fs_words *w);
void fs_mpirun_command(const struct fs_launch *l, struct fs_words *w);
void fs_mpirun_plain(const struct fs_launch *l, struct fs_words *w); /* one process on each host;
                                                                        the caller adds words */
/* Like fs_mpirun_plain, on these n hosts. */
void fs_mpirun_on(const struct fs_launch *l, const char *hosts, uint32_t n, struct fs_words *w);
/* Sets the environment in the child before it executes mpirun. */
void fs_mpirun_environment(const struct fs_launch *l, bool daemons);
void fs_slurm_export(void);                      /* lets srun pass the environment on */
void fs_mpirun_paths(const struct fs_launch *l); /* saves PATH etc. for COMMAND;
                                                    fs_mpirun_paths_back restores them */
void fs_mpirun_paths_back(void);

/* network.c: the interface between the hosts (docs/networks.md) */
/* Chooses this host's. Returns 0, or the exit status after a message about --network. */
int fs_network_choose(struct fs_launch *l);
/* Adds mpirun's parameters, and those of fanstored. */
void fs_network_mpirun(const struct fs_launch *l, struct fs_words *w);
void fs_network_daemons(const struct fs_launch *l, struct fs_words *w);
/* Returns true if rank 0 could not send the placement to some node within ten seconds. */
bool fs_network_cut(const struct fs_launch *l);
void fs_network_reason(const struct fs_launch *l, char *why, size_t size);
void fs_network_hint(const struct fs_launch *l, char *why, size_t size); /* adds where mpirun waits */
/* Chooses the interface for an MPI process of COMMAND, if peers are given. */
void fs_network_rank(const char *peers, const char *network);
/* Takes the line of another host about a wrong --network out of mpirun's stderr. */
void fs_network_noise(struct fs_launch *l, const char *line);
/* Hidden command: runs mpirun's daemon on another host, with that host's interface. */
int fs_network_run(int argc, char **argv);

#endif
