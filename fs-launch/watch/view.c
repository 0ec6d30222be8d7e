/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a job's live file (view.h). Lines and words that are not known are ignored, so that a newer
   fs-launch may write more. No state. */
#include "view.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/control.h"
#include "ipc/layout.h"
#include "util/sys.h"
#include "util/util.h"

const char *const fs_view_key_name[FS_VIEW_NKEYS] = {
#define FS_VIEW_TEXT(id, name) #name,
    FS_NODE_KEYS(FS_VIEW_TEXT, FS_VIEW_TEXT, FS_VIEW_TEXT, FS_VIEW_TEXT)
#undef FS_VIEW_TEXT
};
_Static_assert(FS_VIEW_NKEYS <= 64, "a bit for each key");
const char *const fs_view_state_name[FS_VIEW_NSTATES] = {"starting", "staging", "running", "finishing"};

/* Cuts off and returns the next word of a line, or NULL at its end. */
static char *next_word(char **cursor) {
  char *word = *cursor + strspn(*cursor, " ");
  if (*word == '\0') return NULL;
  char *end = word + strcspn(word, " ");
  *cursor = *end == '\0' ? end : end + 1;
  *end = '\0';
  return word;
}

/* Splits "key=value" and unescapes the value. Returns the value, or NULL if the word is not of this
   form. */
static char *value_of(char *word) {
  char *eq = strchr(word, '=');
  if (!eq) return NULL;
  *eq = '\0';
  return fs_control_unescape(eq + 1) == 0 ? eq + 1 : NULL;
}

static int index_of(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

static uint64_t number_of(const char *value) {
  uint64_t n;
  return fs_parse_u64(value, 0, UINT64_MAX, &n) == 0 ? n : 0;
}

static void text_of(char *out, size_t size, const char *value) {
  snprintf(out, size, "%s", value);
}

static fs_err job_pair(struct fs_view *l, const char *key, const char *value) {
  if (strcmp(key, "pid") == 0) l->pid = number_of(value);
  if (strcmp(key, "user") == 0) text_of(l->user, sizeof(l->user), value);
  if (strcmp(key, "started") == 0) l->started_ms = number_of(value);
  if (strcmp(key, "state") == 0) {
    int state = index_of(fs_view_state_name, FS_VIEW_NSTATES, value);
    if (state >= 0) l->state = (enum fs_view_state)state;
  }
  if (strcmp(key, "nodes") == 0) {
    uint64_t n = number_of(value);
    if (n > FS_MAX_NODES) return -EINVAL;
    l->nodes = (uint32_t)n;
  }
  if (strcmp(key, "command") == 0 && !l->command && !(l->command = strdup(value))) return -ENOMEM;
  return 0;
}

/* The line "job" is the first after the head, and there is one. */
static fs_err job_line(struct fs_view *l, char *rest) {
  char *name = next_word(&rest);
  if (l->job[0] != '\0' || !name || fs_control_unescape(name) < 0 || name[0] == '\0') return -EINVAL;
  text_of(l->job, sizeof(l->job), name);
  for (char *word; (word = next_word(&rest)) != NULL;) {
    char *value = value_of(word);
    fs_err err = value ? job_pair(l, word, value) : 0;
    if (err < 0) return err;
  }
  if (!l->command && !(l->command = strdup(""))) return -ENOMEM;
  if (l->nodes > 0 && !(l->node = calloc(l->nodes, sizeof(*l->node)))) return -ENOMEM;
  return 0;
}

static fs_err progress_line(struct fs_view *l, char *rest) {
  for (char *word; (word = next_word(&rest)) != NULL;) {
    char *value = value_of(word);
    if (value && strcmp(word, "done") == 0) l->done = number_of(value);
    if (value && strcmp(word, "total") == 0) l->total = number_of(value);
  }
  return 0;
}

/* Returns the node whose rank is the next word, or NULL. */
static struct fs_view_node *node_of(struct fs_view *l, char **rest) {
  char *word = next_word(rest);
  uint64_t rank;
  if (!word || l->nodes == 0 || fs_parse_u64(word, 0, l->nodes - 1, &rank) < 0) return NULL;
  return &l->node[rank];
}

static fs_err node_line(struct fs_view *l, char *rest) {
  struct fs_view_node *n = node_of(l, &rest);
  if (!n) return -EINVAL;
  for (char *word; (word = next_word(&rest)) != NULL;) {
    char *value = value_of(word);
    int key = value ? index_of(fs_view_key_name, FS_VIEW_NKEYS, word) : -1;
    if (key >= 0) {
      n->value[key] = number_of(value);
      n->have |= 1ull << key;
    } else if (value && strcmp(word, "host") == 0) {
      text_of(n->host, sizeof(n->host), value);
    } else if (value && strcmp(word, "ms") == 0) {
      n->ms = number_of(value);
    }
  }
  n->sampled = n->ms > 0;
  return 0;
}

static fs_err latency_line(struct fs_view *l, char *rest) {
  struct fs_view_node *n = node_of(l, &rest);
  char *op = next_word(&rest), *place = next_word(&rest);
  if (!n || !op || !place) return -EINVAL;
  int o = fs_latency_op(op), p = fs_latency_place(place);
  if (o < 0 || p < 0) return 0;
  struct fs_latency **h = &n->latency[FS_LATENCY_KIND(o, p)];
  if (!*h && !(*h = calloc(1, sizeof(**h)))) return -ENOMEM;
  for (char *word; (word = next_word(&rest)) != NULL;) {
    char *value = value_of(word);
    fs_err err = value && strcmp(word, "counts") == 0 ? fs_latency_parse(value, *h) : 0;
    if (err < 0) return err;
  }
  return 0;
}

static fs_err file_pair(struct fs_view_file *f, const char *key, const char *value) {
  if (strcmp(key, "node") == 0) f->node = number_of(value);
  if (strcmp(key, "reads") == 0) f->reads = number_of(value);
  if (strcmp(key, "bytes") == 0) f->bytes = number_of(value);
  if (strcmp(key, "us") == 0) f->us = number_of(value);
  if (strcmp(key, "longest_us") == 0) f->longest_us = number_of(value);
  if (strcmp(key, "path") == 0 && !f->path && !(f->path = strdup(value))) return -ENOMEM;
  return 0;
}

static fs_err file_line(struct fs_view *l, char *rest) {
  char *name = next_word(&rest);
  int place = name ? fs_latency_place(name) : -1;
  fs_err err = 0;
  if (place < 0 || l->files == FS_VIEW_FILES) return 0;
  struct fs_view_file *f = &l->busy[l->files++]; /* fs_view_free frees what it has */
  *f = (struct fs_view_file){.place = (unsigned)place};
  for (char *word; err == 0 && (word = next_word(&rest)) != NULL;) {
    char *value = value_of(word);
    err = value ? file_pair(f, word, value) : 0;
  }
  if (err == 0 && !f->path) l->files--;
  return err;
}

static fs_err warning_line(struct fs_view *l, const char *rest) {
  if (l->warnings == FS_VIEW_WARNINGS) return 0;
  char *text = strdup(rest);
  if (!text) return -ENOMEM;
  l->warning[l->warnings++] = text;
  return fs_control_unescape(text);
}

static fs_err parse_line(struct fs_view *l, char *line) {
  char *kind = next_word(&line);
  if (!kind) return 0;
  if (strcmp(kind, "job") == 0) return job_line(l, line);
  if (l->job[0] == '\0') return -EINVAL;
  if (strcmp(kind, "progress") == 0) return progress_line(l, line);
  if (strcmp(kind, "node") == 0) return node_line(l, line);
  if (strcmp(kind, "latency") == 0) return latency_line(l, line);
  if (strcmp(kind, "busy") == 0) return file_line(l, line);
  if (strcmp(kind, "warning") == 0) return warning_line(l, line);
  return 0;
}

fs_err fs_view_parse(char *text, size_t n, struct fs_view *l) {
  fs_err err = 0;
  *l = (struct fs_view){0};
  if (n == 0 || text[n - 1] != '\n' || memchr(text, '\0', n)) return -EINVAL;
  text[n - 1] = '\0';
  char *cursor = text, *head = strsep(&cursor, "\n");
  if (strcmp(head, "fanstore-live 1") != 0) return -EINVAL;
  for (char *line; err == 0 && (line = strsep(&cursor, "\n")) != NULL;) err = parse_line(l, line);
  if (err == 0 && l->job[0] == '\0') err = -EINVAL;
  if (err < 0) fs_view_free(l);
  return err;
}

fs_err fs_view_read(const char *run, struct fs_view *l) {
  char path[PATH_MAX];
  struct stat st;
  *l = (struct fs_view){0};
  if (snprintf(path, sizeof(path), "%s/" FS_VIEW_NAME, run) >= (int)sizeof(path)) return -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (fstat(fd, &st) < 0) return -errno;
  if (!S_ISREG(st.st_mode) || st.st_size > (off_t)FS_VIEW_BYTES) return -EINVAL;
  FS_AUTO_FREE char *text = malloc((size_t)st.st_size + 1);
  if (!text) return -ENOMEM;
  fs_err err = fs_pread_full(fd, text, (size_t)st.st_size, 0);
  return err < 0 ? err : fs_view_parse(text, (size_t)st.st_size, l);
}

void fs_view_free(struct fs_view *l) {
  for (uint32_t i = 0; i < l->nodes && l->node; i++)
    for (unsigned k = 0; k < FS_LATENCY_KINDS; k++) free(l->node[i].latency[k]);
  for (unsigned i = 0; i < l->files; i++) free(l->busy[i].path);
  for (unsigned i = 0; i < l->warnings; i++) free(l->warning[i]);
  free(l->node);
  free(l->command);
  *l = (struct fs_view){0};
}
