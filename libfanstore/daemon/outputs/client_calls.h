/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients' calls about outputs, from a call slot to the answer. client_calls.c carries them. The
 * module that an operation belongs to has a row for it, which says how the call is checked and made
 * and what is done with the answer. All runs in the MPI thread.
 *
 * To add an operation: add it to ipc/op.c, a row to the module, and the row to the table in
 * client_calls.c.
 */
#ifndef FS_DAEMON_OUTPUTS_CLIENT_CALLS_H
#define FS_DAEMON_OUTPUTS_CLIENT_CALLS_H

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"

struct fs_client_call {
  struct fs_daemon *d;
  struct fs_client *client; /* NULL: it has gone */
  uint32_t number;          /* of the call slot */
  uint64_t until;           /* when the client gives up */
  /* what the functions of a row keep for each other */
  union {
    uint64_t id; /* EXTEND, OPEN: the file */
    struct {
      struct fs_client_call *next;
    } extend; /* of ranges that the channel has */
    struct {
      uint64_t id, dir;
      bool file; /* a file whose home is this node */
      bool directory;
    } create;
    struct {
      uint64_t id, owner;
      bool process, ends, sets;
    } lock;
    struct {
      struct fs_names_call call;
      fs_err why; /* why there is no replica */
    } publish;
  };
};

struct fs_client_call_op {
  /* Checks that the call's ids can exist and the client may change them. NULL: no check here. */
  fs_err (*check)(const struct fs_daemon *d, const struct fs_names_call *c);
  /* Completes the call before it is made. An error is the client's answer. */
  fs_err (*prepare)(struct fs_client_call *call, struct fs_names_call *c);
  /* Makes the call. NULL: fs_ns_call does. */
  void (*start)(struct fs_client_call *call, const struct fs_names_call *c);
  /* Takes the name service's answer, and ends in fs_client_call_done. NULL: that alone. */
  fs_ns_done *done;
};

/* Gives the client its answer, if it is there, and frees the call, which is `ctx`. */
void fs_client_call_done(void *ctx, fs_err err, const void *body, size_t n);

/* ---- checks that rows share ---- */

/* Returns 0 if a directory with this id can exist. Returns -EROFS if it is a dataset's directory
   and the dataset has this name in it. */
fs_err fs_client_call_check_dir(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len);
/* The same for a call that `takes` a name from the dataset. With --overlay that is 0 for any name
   but that of a directory. Returns -EINVAL if the dataset does not have the name. */
fs_err fs_client_call_check_taking(const struct fs_daemon *d, uint64_t dir, const char *name, size_t len, bool takes);
/* Does what fs_client_call_check_dir does with the directory and the name of a call. */
fs_err fs_client_call_check_name(const struct fs_daemon *d, const struct fs_names_call *c);
/* Checks that a file with the call's id can exist. */
fs_err fs_client_call_check_file(const struct fs_daemon *d, const struct fs_names_call *c);
/* Checks that its home is this node, too. */
fs_err fs_client_call_check_own(const struct fs_daemon *d, const struct fs_names_call *c);

/* ---- the rows ---- */

/* service.c. fs_named_call: LIST, SETATTR, TIMES */
extern const struct fs_client_call_op fs_named_call, fs_look_up_call, fs_create_call, fs_remove_call, fs_rename_call,
    fs_find_call, fs_node_local_call;
/* backing.c. fs_home_call: EXTENTS */
extern const struct fs_client_call_op fs_home_call, fs_append_call, fs_own_call;
extern const struct fs_client_call_op fs_publish_call;               /* backing_watch.c */
extern const struct fs_client_call_op fs_open_call, fs_close_call;   /* open_files.c */
extern const struct fs_client_call_op fs_extend_call, fs_offer_call; /* node_segment.c */
extern const struct fs_client_call_op fs_lock_call;                  /* lock_holders.c */
extern const struct fs_client_call_op fs_forward_call, fs_sync_call; /* forwarder_calls.c */

#endif
