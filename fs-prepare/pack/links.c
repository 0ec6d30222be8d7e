/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Symlinks of SOURCE: which of them lead out of SOURCE for a program on the mount, and which
 * directories contain themselves when symlinks are followed. Any thread of the walk calls this. A
 * directory that is packed in the place of a symlink is the root of a region. Links in the region
 * may lead up to its root and no higher: the names above are others in the dataset than in the file
 * system.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "links.h"

#define MOST_LINKS 40 /* the kernel's limit for one path */

enum leads { LEADS_INSIDE, LEADS_OUT, LEADS_NOWHERE };

/* A file below SOURCE. No component of `path` after the region's root is a symlink. */
struct place {
  char path[PATH_MAX];
  size_t len, region;
};

struct search {
  const struct fs_links *links;
  unsigned followed;
};

/* Returns the rest of an absolute path below `top`, or NULL. */
static const char *below(const char *path, const char *top) {
  while (*top != '\0') {
    top += strspn(top, "/");
    while (*path == '/' || (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))) path++;
    size_t n = strcspn(top, "/");
    if (strncmp(path, top, n) != 0 || (path[n] != '/' && path[n] != '\0')) return NULL;
    path += n;
    top += n;
  }
  return path;
}

static const char *below_mount(const struct fs_links *links, const char *path) {
  const char *rest = below(path, links->mount);
  return rest != NULL || links->mount_real[0] == '\0' ? rest : below(path, links->mount_real);
}

static void leave_component(struct place *p) {
  while (p->len > p->region && p->path[p->len - 1] != '/') p->len--;
  if (p->len > p->region) p->len--;
  p->path[p->len] = '\0';
}

static bool enter_component(struct place *p, const char *name, size_t n) {
  if (p->len + n + 2 > sizeof p->path) return false;
  if (p->len > 0) p->path[p->len++] = '/';
  memcpy(p->path + p->len, name, n);
  p->len += n;
  p->path[p->len] = '\0';
  return true;
}

static enum leads resolve(struct search *s, struct place *p, const char *text);

/* Follows `p`, which was just entered, if it is a symlink. */
static enum leads follow(struct search *s, struct place *p) {
  char text[PATH_MAX];
  ssize_t n = readlinkat(s->links->root, p->path, text, sizeof text);
  if (n < 0) return errno == EINVAL ? LEADS_INSIDE : LEADS_NOWHERE;
  if ((size_t)n == sizeof text || ++s->followed > MOST_LINKS) return LEADS_NOWHERE;
  text[n] = '\0';
  struct place *to = malloc(sizeof *to);
  if (to == NULL) return LEADS_NOWHERE;
  *to = *p;
  leave_component(to);
  enum leads where = resolve(s, to, text);
  if (where == LEADS_INSIDE) *p = *to;
  free(to);
  if (where != LEADS_OUT || !s->links->outside_packed) return where;
  p->region = p->len; /* the target is packed in the link's place */
  return LEADS_INSIDE;
}

/* Walks from directory `p` along `text`, the target of a symlink. */
static enum leads resolve(struct search *s, struct place *p, const char *text) {
  if (*text == '/') {
    text = below_mount(s->links, text);
    if (text == NULL) return LEADS_OUT;
    *p = (struct place){.len = 0};
  }
  for (size_t n; *text != '\0'; text += n) {
    text += strspn(text, "/");
    n = strcspn(text, "/");
    if (n == 0 || (n == 1 && text[0] == '.')) continue;
    if (n == 2 && text[0] == '.' && text[1] == '.') {
      if (p->len == p->region) return LEADS_OUT;
      leave_component(p);
      continue;
    }
    if (!enter_component(p, text, n)) return LEADS_NOWHERE;
    enum leads where = follow(s, p);
    if (where != LEADS_INSIDE) return where;
  }
  return LEADS_INSIDE;
}

bool fs_links_out(const struct fs_links *links, const char *path, size_t region, const char *target) {
  struct search s = {.links = links};
  struct place *p = malloc(sizeof *p);
  if (p == NULL) return false;
  p->len = strlen(path);
  p->region = region;
  memcpy(p->path, path, p->len + 1);
  leave_component(p);
  bool out = resolve(&s, p, target) == LEADS_OUT;
  free(p);
  return out;
}

/* Also finds the mount's other name, with the symlinks before its last component resolved: programs
   may use it. */
void fs_links_init(struct fs_links *links, const struct fs_source *src, const struct fs_pack_options *o) {
  *links = (struct fs_links){.root = src->fd, .outside_packed = o->dereference == FS_DEREF_OUTSIDE};
  int used = snprintf(links->mount, sizeof links->mount, "%s%s%s", o->mount, src->skip != 0 ? "/" : "", src->prefix);
  if (used < 0 || (size_t)used >= sizeof links->mount) snprintf(links->mount, sizeof links->mount, "%s", o->mount);
  FS_AUTO_FREE char *parent = strdup(links->mount);
  if (parent == NULL) return;
  char *name = strrchr(parent, '/');
  *name++ = '\0';
  FS_AUTO_FREE char *real = realpath(parent[0] != '\0' ? parent : "/", NULL);
  if (real == NULL) return;
  int n = snprintf(links->mount_real, sizeof links->mount_real, "%s/%s", real, name);
  if (n < 0 || (size_t)n >= sizeof links->mount_real) links->mount_real[0] = '\0';
}

bool fs_ancestor_loop(const struct fs_ancestor *in, const struct stat *st) {
  for (; in != NULL; in = in->up)
    if (in->ino == st->st_ino && in->dev == st->st_dev) return true;
  return false;
}

fs_err fs_ancestor_add(struct fs_ancestor **all, const struct fs_ancestor *up, const struct stat *st,
                       const struct fs_ancestor **added) {
  struct fs_ancestor *a = malloc(sizeof *a);
  if (a == NULL) return -ENOMEM;
  *a = (struct fs_ancestor){.up = up, .next = *all, .dev = st->st_dev, .ino = st->st_ino};
  *added = *all = a;
  return 0;
}

void fs_ancestors_free(struct fs_ancestor *all) {
  while (all != NULL) {
    struct fs_ancestor *next = all->next;
    free(all);
    all = next;
  }
}
