/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch replay --list: a line of text for each call, process after process. */
#include <stdio.h>
#include <string.h>

#include "ipc/layout.h"
#include "replay.h"

static const char *const places[] = {"local", "cache", "remote", "shared"};

static void list_one(const struct fs_trace_set *set, const struct fs_trace_segment *s, const struct fs_trace_item *i) {
  static const char *const names[] = FS_TRACE_CALL_NAMES;
  char shown[4 * PATH_MAX], host[4 * sizeof(s->head.host)], handle[24] = "-";
  if (i->r.handle != FS_TRACE_NO_HANDLE) snprintf(handle, sizeof(handle), "#%u", i->r.handle);
  printf("%.9f\t%s\t%u\t%08x\t%s\t%s\t%llu\t%llu\t%lld\t%s\t%llu\t%s\n", (double)(i->when - set->start) / 1e9,
         fs_printable(s->head.host, strlen(s->head.host), host, sizeof(host)), s->head.pid, i->r.thread,
         names[i->r.call], handle, (unsigned long long)i->r.off, (unsigned long long)i->r.n, (long long)i->r.result,
         i->r.place < FS_ARRAY_LEN(places) ? places[i->r.place] : "-", (unsigned long long)i->r.ns,
         fs_printable(i->path, i->r.path_len, shown, sizeof(shown)));
}

int fs_replay_list(const struct fs_trace_set *set) {
  puts("#seconds\thost\tprocess\tthread\tcall\tfile\toffset\tbytes\tresult\tplace\tns\tpath");
  for (size_t k = 0; k < set->segments; k++) {
    const struct fs_trace_segment *s = &set->segment[k];
    struct fs_trace_item item;
    for (const uint8_t *at = s->at; fs_trace_next(s, &at, &item);) list_one(set, s, &item);
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
