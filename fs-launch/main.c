/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch: stages datasets to the nodes, starts the daemons, runs COMMAND with the datasets under
 * their mounts, reports where the data came from, and cleans up. This file is the order of the
 * steps; launch.h names the files that do them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

/* Checks everything that can be checked before anything is started. */
static int check(struct fs_launch *l) {
  int status = fs_hosts_find(l);
  if (status == 0 && !l->opt.daemon) status = fs_check_command(l);
  if (status == 0) status = fs_check_datasets(l);
  if (status == 0) status = fs_check_local_dir(l);
  if (status == 0) status = fs_check_stage_dirs(l);
  if (status == 0) fs_outputs_default(l);
  if (status == 0 && !l->opt.place) fs_warn_hidden(l);
  if (status == 0) status = fs_check_report(l);
  if (status == 0) status = fs_find_programs(l);
  if (status == 0) status = fs_network_choose(l);
  if (status == 0 && l->supervisor[0] == '\0' && !l->opt.daemon) fs_doctor_warn(l);
  if (status == 0) status = fs_env_make(l);
  return status;
}

static void tell_ready(const struct fs_launch *l) {
  char local[32], memory[32];
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    fs_say("node %u (%s): %s of partitions, %s of memory: %llu%% read through the page cache%s", i, n->host,
           fs_format_size(n->local, local, sizeof(local)), fs_format_size(n->memory, memory, sizeof(memory)),
           (unsigned long long)n->cached, n->cached < 100 ? ", the rest past it" : "");
  }
  if (!l->opt.daemon && !l->opt.place)
    fs_say("%u node%s ready; running %s", l->nodes, l->nodes == 1 ? " is" : "s are", l->opt.command[0]);
}

/* Warns of replicas that were requested and cannot be made. */
static void warn_of_replicas(struct fs_launch *l) {
  if (l->opt.replicas > l->nodes)
    fs_warn(l, "--replicas %llu: with %u node%s there can be %u cop%s only", (unsigned long long)l->opt.replicas,
            l->nodes, l->nodes == 1 ? "" : "s", l->nodes, l->nodes == 1 ? "y" : "ies");
  if (l->opt.output_replicas > 0 && l->nodes < 2)
    fs_warn(l, "--output-replicas: there is one node, and no other to have a copy of its outputs");
}

static int run(struct fs_launch *l) {
  warn_of_replicas(l);
  int status = fs_daemons_begin(l);
  if (status != 0) return status;
  if (l->opt.verbose) tell_ready(l);
  if (l->opt.place) {
    l->begun = l->command_ended = true;
    return 0;
  }
  return l->opt.daemon ? fs_background_serve(l) : fs_command_run(l);
}

static bool all_left(const struct fs_launch *l) {
  bool all = true;
  for (uint32_t i = 0; i < l->nodes; i++) all = all && l->node[i].bye;
  return all;
}

static int launch(struct fs_launch *l) {
  fs_run_sweep(l->opt.verbose);
  int status = fs_run_create(l);
  if (status == 0 && l->opt.daemon) status = fs_background_log(l);
  if (status == 0) status = fs_events_open(l);
  if (status == 0) status = fs_guard_start(l);
  if (status == 0) status = run(l);
  if (l->opt.place && l->signal && !fs_daemons_hurry(l)) return status; /* the guard does the rest */
  if (l->begun) status = fs_outputs_finish(l, status);
  fs_daemons_stop(l);
  if (l->begun) {
    l->figures = fs_figures_new(l);
    fs_summary(l);
    fs_report(l, status);
  }
  fs_background_end(l, status);
  fs_remote_end(l);
  fs_backing_files_remove(l->local_dir, !l->opt.local_dir, l->job, !l->outputs.unsaved);
  fs_fragments_remove(l->local_dir, !l->opt.local_dir, !all_left(l), false, false);
  fs_run_remove(l->run);
  fs_session_remove(l->daemons);
  fs_session_remove(l->command);
  fs_guard_dismiss(l);
  return status;
}

/* For fs-prepare place, which gives the options. */
static int place(struct fs_launch *l, int argc, char **argv) {
  fs_say_as("fs-prepare");
  l->opt.place = true;
  int status = fs_options_parse(&l->opt, argc, argv);
  if (status >= 0) return status;
  status = check(l);
  if (status == 0) status = launch(l);
  if (l->signal) fs_say("interrupted; what is on the nodes stays: the same command goes on");
  return fs_place_status(l, status);
}

/* Opens /dev/null on closed descriptors 0 to 2, so that our pipes do not get their numbers. COMMAND
   has them closed again. */
static void hold_streams(void) {
  int fd;
  do fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
} commands[] = {{"attach", fs_attach},     {"clean", fs_clean},     {"doctor", fs_doctor_files},
                {"env", fs_env},           {"jobs", fs_watch_jobs}, {"replay", fs_replay},
                {"stats", fs_watch_stats}, {"stop", fs_stop},       {"top", fs_watch_top}};

int main(int argc, char **argv) {
  static struct fs_launch l = {.run_lock = -1,
                               .signal_fd = -1,
                               .guard_fd = -1,
                               .log_fd = -1,
                               .ready_fd = -1,
                               .to_daemons = -1,
                               .out = {.fd = -1},
                               .err = {.fd = -1}};
  hold_streams();
  fs_say_as("fs-launch");
  for (size_t i = 0; argc > 1 && i < FS_ARRAY_LEN(commands); i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  if (argc > 1 && strcmp(argv[1], "--exec-node") == 0) return fs_exec_node(argc, argv);
  if (argc > 1 && strcmp(argv[1], "--end-job") == 0) return fs_end_job(argc, argv);
  if (argc > 1 && strcmp(argv[1], "--rsh") == 0) return fs_rsh(argc, argv);
  if (argc > 1 && strcmp(argv[1], "--on-host") == 0) return fs_network_run(argc, argv);
  if (argc > 1 && strcmp(argv[1], "--by-srun") == 0) return fs_by_srun(argc, argv);
  if (argc > 1 && strcmp(argv[1], "--pack") == 0) return fs_pack(&l, argc, argv);
  if (argc > 1 && strcmp(argv[1], "--place") == 0) return place(&l, argc - 1, argv + 1);
  int status = fs_options_parse(&l.opt, argc, argv);
  if (status >= 0) return status;
  if (l.opt.doctor) return fs_doctor_run(l.opt.command, l.opt.env_as_is);
  if (l.opt.daemon) fs_sys_close_range(3, ~0u); /* what a shell holds open is not for the background */
  status = check(&l);
  if (status != 0) return status;
  status = l.opt.daemon ? fs_background_begin(&l) : -1;
  return status >= 0 ? status : launch(&l);
}
