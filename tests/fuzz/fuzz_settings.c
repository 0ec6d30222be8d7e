/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a program under the library: which datasets and mounts, which node, which run directory. Whatever
 * it says, mounts are absolute and normal, and no two are the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libfanstore/client/fd/slot.c"
#include "../../libfanstore/client/node/config.c" /* to read it again */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {FS_ENV_DATASET, FS_ENV_MOUNT,   FS_ENV_READ_ONLY,       FS_ENV_VERIFY,
                                    FS_ENV_NODE,    FS_ENV_EMULATE, "OMPI_COMM_WORLD_RANK", "RANK",
                                    "TMPDIR",       FS_ENV_STATE};

/* What is set for programs that this one starts is what it has itself. */
static char exported[2][2 * FS_MAX_DATASETS * PATH_MAX];
static void note_export(const char *name, const char *value) {
  strcpy(exported[strcmp(name, FS_ENV_MOUNT) == 0], value);
}

static void check_config(const struct fs_config *c) {
  char again[PATH_MAX];
  if (c->mounts > FS_MAX_DATASETS || c->names > FS_MAX_NAMES || c->names < c->mounts) abort();
  if (c->verify > FS_VERIFY_ALWAYS) abort();
  for (uint32_t i = 0; i < c->names; i++) {
    const struct fs_mount *m = &c->mount[i];
    if (m->path_len != strlen(m->path) || m->path_len < 2 || m->dataset[0] != '/' || m->same >= c->mounts) abort();
    if (fs_path_normalize(m->path, again, sizeof(again)) < 0 || strcmp(again, m->path) != 0) abort();
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(c->mount[k].path, m->path) == 0) abort();
  }
}

/* The descriptors that are taken over are numbers that a program may have. */
static void check_state(void) {
  uint64_t fd = 0, store = 0;
  if (parse_state(getenv(FS_ENV_STATE), &fd, &store) &&
      (fd < 3 || fd > 1u << 30 || store > 1u << 30 || (store > 0 && store < 3)))
    abort();
  if (inherit_state()) abort(); /* this program has none */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1), *at = text, out[PATH_MAX];
  memcpy(text, data, size);
  text[size] = '\0';
  for (size_t i = 0; i < FS_ARRAY_LEN(names); i++) { /* one a line */
    char *end = at ? strchr(at, '\n') : NULL;
    if (end) *end = '\0';
    if (at)
      setenv(names[i], at, 1);
    else
      unsetenv(names[i]);
    at = end ? end + 1 : NULL;
  }
  atomic_store(&fs_self()->told, 100); /* enough was said */
  struct fs_config *c = fs_config_read();
  check_config(c);
  c->relative = c != &g_none;
  fs_mounts_export(note_export);
  uint32_t mounts = c->mounts;
  if (mounts > 0) { /* set so, it is read as the same */
    setenv(FS_ENV_DATASET, exported[0], 1);
    setenv(FS_ENV_MOUNT, exported[1], 1);
    atomic_store(&g_config, NULL);
    struct fs_config *same = fs_config_read();
    if (same->mounts != mounts) abort();
    for (uint32_t i = 0; i < mounts; i++)
      if (strcmp(same->mount[i].path, c->mount[i].path) != 0 ||
          strcmp(same->mount[i].dataset, c->mount[i].dataset) != 0)
        abort();
    fs_mem_unmap(same, fs_config_size());
  }
  if (c != &g_none) fs_mem_unmap(c, fs_config_size());
  atomic_store(&g_config, NULL);
  check_state();
  if (fs_node_decide(NULL) >= UINT32_MAX) abort();
  fs_ssize n = fs_run_name("/x", out, sizeof(out));
  if (n >= 0 && (out[0] != '/' || strlen(out) != (size_t)n)) abort();
  free(text);
  return 0;
}
