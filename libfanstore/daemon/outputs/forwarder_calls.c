/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients' calls about forwarders (forwarder.h). */
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/forwarder.h"

static void fs_forward_start(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_client_call_done(call, fs_forwarder_begin(call->d, c), NULL, 0);
}

const struct fs_client_call_op fs_forward_call = {.check = fs_client_call_check_own, .start = fs_forward_start};

static void fs_sync_start(struct fs_client_call *call, const struct fs_names_call *c) {
  fs_forwarder_sync(call->d, c, fs_client_call_done, call);
}

const struct fs_client_call_op fs_sync_call = {.check = fs_client_call_check_own, .start = fs_sync_start};
