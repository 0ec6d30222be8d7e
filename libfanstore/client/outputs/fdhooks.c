/* SPDX-License-Identifier: BSD-3-Clause */
/* See client/fd/fdhooks.h. */
#include "client/fd/fdhooks.h"

#include "client/outputs/outputs.h"

const struct fs_fd_hooks fs_fd_hooks = {.copied = fs_output_copied_slot,
                                        .closed = fs_output_closed,
                                        .flush = fs_output_flush,
                                        .forwarder = fs_output_forwarder,
                                        .only_here = fs_output_only_here,
                                        .real = fs_output_note_real};
