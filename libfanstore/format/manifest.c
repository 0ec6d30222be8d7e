/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manifest's text form. One table of keys serves the parser and the writer. Called by the
 * tools, the daemons and preloaded processes without a daemon. No state, no locks. An error comes
 * with one line for the user.
 */
#include "format/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/util.h"

#define FS_MANIFEST_FIRST "fanstore-dataset "
#define FS_MANIFEST_LAST "checksum "
#define FS_MANIFEST_LAST_LEN (sizeof(FS_MANIFEST_LAST) - 1)
#define FS_WHY(...) (why ? (void)snprintf(why, why_size, __VA_ARGS__) : (void)0)

enum fs_key_type { FS_KEY_ID, FS_KEY_PATH, FS_KEY_WORD, FS_KEY_U32, FS_KEY_U64, FS_KEY_SUM };

struct fs_key {
  const char *name;
  enum fs_key_type type;
  size_t offset; /* in struct fs_manifest */
  uint64_t min, max;
};

#define FS_KEY(field, type, min, max)                                                                                  \
  { #field, type, offsetof(struct fs_manifest, field), min, max }

static const struct fs_key fs_keys[] = {
    FS_KEY(dataset_id, FS_KEY_ID, 0, 0),
    FS_KEY(mount, FS_KEY_PATH, 0, 0),
    FS_KEY(codec, FS_KEY_WORD, 0, 0),
    FS_KEY(block_size, FS_KEY_U32, FS_BLOCK_SIZE_MIN, FS_BLOCK_SIZE_MAX),
    FS_KEY(partitions, FS_KEY_U32, 0, FS_MAX_PARTITIONS),
    FS_KEY(files, FS_KEY_U64, 0, FS_MAX_ENTRIES),
    FS_KEY(dirs, FS_KEY_U64, 0, FS_MAX_ENTRIES),
    FS_KEY(symlinks, FS_KEY_U64, 0, FS_MAX_ENTRIES),
    FS_KEY(plain_bytes, FS_KEY_U64, 0, UINT64_MAX),
    FS_KEY(stored_bytes, FS_KEY_U64, 0, UINT64_MAX),
    FS_KEY(index_size, FS_KEY_U64, sizeof(struct fs_index_header), INT64_MAX),
    FS_KEY(index_xxh3, FS_KEY_SUM, 0, 0),
};

/* Writes a mount as text: printable ASCII unchanged, a backslash as \\, all other bytes as \xNN.
   Returns the length or -1. */
static int fs_escape(const char *in, char *out, size_t size) {
  size_t n = 0;
  for (const unsigned char *p = (const unsigned char *)in; *p != '\0'; p++) {
    if (n + 5 > size) return -1;
    if (*p == '\\')
      n += (size_t)sprintf(out + n, "\\\\");
    else if (*p > 0x20 && *p < 0x7f)
      out[n++] = (char)*p;
    else
      n += (size_t)sprintf(out + n, "\\x%02x", *p);
  }
  out[n] = '\0';
  return (int)n;
}

static fs_err fs_unescape(const char *in, char *out, size_t size) {
  size_t n = 0;
  while (*in != '\0') {
    uint8_t c = (uint8_t)*in++;
    char hex[3] = "";
    if (n + 1 >= size) return -ENAMETOOLONG;
    if (c == '\\' && *in == '\\') {
      in++;
    } else if (c == '\\') {
      if (in[0] != 'x' || in[1] == '\0' || in[2] == '\0') return -EINVAL;
      memcpy(hex, in + 1, 2);
      if (fs_unhex(hex, &c, 1) < 0 || c == 0) return -EINVAL;
      in += 3;
    }
    out[n++] = (char)c;
  }
  out[n] = '\0';
  return 0;
}

static bool fs_is_word(const char *s, size_t size) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n; i++) {
    if (s[i] <= 0x20 || s[i] >= 0x7f) return false;
  }
  return n > 0 && n < size;
}

static fs_err fs_parse_mount(const char *value, char *mount) {
  char plain[PATH_MAX], normal[PATH_MAX];
  if (fs_unescape(value, plain, sizeof(plain)) < 0) return -EINVAL;
  if (fs_path_normalize(plain, normal, sizeof(normal)) < 0 || strcmp(plain, normal) != 0) return -EINVAL;
  memcpy(mount, plain, strlen(plain) + 1);
  return 0;
}

static fs_err fs_parse_value(const struct fs_key *key, const char *value, struct fs_manifest *m) {
  char *field = (char *)m + key->offset;
  uint64_t n = 0;
  uint8_t sum[8];
  switch (key->type) {
  case FS_KEY_ID:
    return fs_unhex(value, (uint8_t *)field, sizeof(m->dataset_id));
  case FS_KEY_PATH:
    return fs_parse_mount(value, field);
  case FS_KEY_WORD:
    if (!fs_is_word(value, sizeof(m->codec))) return -EINVAL;
    memcpy(field, value, strlen(value) + 1);
    return 0;
  case FS_KEY_SUM:
    if (fs_unhex(value, sum, sizeof(sum)) < 0) return -EINVAL;
    for (size_t i = 0; i < sizeof(sum); i++) n = n << 8 | sum[i];
    memcpy(field, &n, sizeof(n));
    return 0;
  case FS_KEY_U32:
  case FS_KEY_U64:
    break;
  }
  if (fs_parse_u64(value, key->min, key->max, &n) < 0) return -EINVAL;
  memcpy(field, &n, key->type == FS_KEY_U32 ? 4 : 8); /* little-endian, like the host */
  return 0;
}

/* Parses one "key value" line. A bit of *seen is a key that has been read. */
static fs_err fs_parse_line(char *line, struct fs_manifest *m, uint32_t *seen, char *why, size_t why_size) {
  char shown[128];
  char *value = strchr(line, ' ');
  size_t len = value ? (size_t)(value - line) : strlen(line);
  if (strncmp(line, "x-", 2) == 0) return 0;
  fs_printable(line, len, shown, sizeof(shown));
  if (!value) {
    FS_WHY("manifest is damaged: line '%s' has no value", shown);
    return -EINVAL;
  }
  *value++ = '\0';
  for (size_t i = 0; i < FS_ARRAY_LEN(fs_keys); i++) {
    if (strcmp(line, fs_keys[i].name) != 0) continue;
    bool again = *seen & 1u << i;
    *seen |= 1u << i;
    if (!again && fs_parse_value(&fs_keys[i], value, m) == 0) return 0;
    FS_WHY("manifest is damaged: '%s' %s", shown, again ? "is given twice" : "has a bad value");
    return -EINVAL;
  }
  FS_WHY("manifest has the unknown key '%s'", shown);
  return -EINVAL;
}

/* Parses the first line. This comes before the checksum, so that another version is reported as a
   version and not as damage. */
static fs_err fs_parse_version(const char *text, size_t n, struct fs_manifest *m, char *why, size_t why_size) {
  const size_t skip = sizeof(FS_MANIFEST_FIRST) - 1;
  const char *end = memchr(text, '\n', n);
  char number[16] = "";
  uint64_t version;
  if (end && (size_t)(end - text) > skip && (size_t)(end - text) < skip + sizeof(number))
    memcpy(number, text + skip, (size_t)(end - text) - skip);
  if (n < skip || memcmp(text, FS_MANIFEST_FIRST, skip) != 0 || fs_parse_u64(number, 0, UINT32_MAX, &version) < 0) {
    FS_WHY("not a FanStore manifest");
    return -EINVAL;
  }
  fs_err err = fs_format_version(version);
  if (err < 0) {
    FS_WHY("dataset has format version %" PRIu64 ", this FanStore reads " FS_FORMAT_VERSIONS ": %s", version,
           fs_format_remedy(err));
    return err;
  }
  m->version = (uint32_t)version;
  return 0;
}

/* Checks the last line, "checksum HEX\n". Sets *body to the length of the text before it. */
static fs_err fs_parse_checksum(const char *text, size_t n, size_t *body, char *why, size_t why_size) {
  const size_t last = FS_MANIFEST_LAST_LEN + 16 + 1;
  char hex[17] = "", want[17];
  if (n < last || text[n - 1] != '\n' || memcmp(text + n - last, FS_MANIFEST_LAST, FS_MANIFEST_LAST_LEN) != 0 ||
      (n > last && text[n - last - 1] != '\n')) {
    FS_WHY("manifest is truncated: its last line is no checksum");
    return -EBADMSG;
  }
  *body = n - last;
  memcpy(hex, text + n - 17, 16);
  snprintf(want, sizeof(want), "%016" PRIx64, fs_xxh3(text, *body));
  if (strcmp(hex, want) != 0) {
    FS_WHY("manifest is damaged (checksum differs)");
    return -EBADMSG;
  }
  return 0;
}

fs_err fs_manifest_parse(const char *text, size_t n, struct fs_manifest *m, char *why, size_t why_size) {
  char line[5 * PATH_MAX];
  uint32_t seen = 0;
  size_t body;
  memset(m, 0, sizeof(*m));
  fs_err err = fs_parse_version(text, n, m, why, why_size);
  if (err == 0) err = fs_parse_checksum(text, n, &body, why, why_size);
  if (err < 0) return err;
  const char *end = text + body, *p = memchr(text, '\n', n);
  for (p++; p < end; p++) {
    size_t len = (size_t)((const char *)memchr(p, '\n', (size_t)(end - p)) - p); /* the body ends with a newline */
    if (len >= sizeof(line) || memchr(p, '\0', len)) {
      FS_WHY("manifest is damaged: a line is too long or holds a NUL");
      return -EINVAL;
    }
    memcpy(line, p, len);
    line[len] = '\0';
    err = fs_parse_line(line, m, &seen, why, why_size);
    if (err < 0) return err;
    p += len;
  }
  for (size_t i = 0; i < FS_ARRAY_LEN(fs_keys); i++) {
    if (seen & 1u << i) continue;
    FS_WHY("manifest is damaged: '%s' is missing", fs_keys[i].name);
    return -EINVAL;
  }
  if (!fs_is_pow2(m->block_size)) {
    FS_WHY("manifest is damaged: 'block_size' has a bad value");
    return -EINVAL;
  }
  return 0;
}

/* Writes one value as text. Returns its length or -1. */
static int fs_format_value(const struct fs_key *key, const struct fs_manifest *m, char *out, size_t size) {
  const char *field = (const char *)m + key->offset;
  uint64_t n = 0;
  if (size < 2 * sizeof(m->dataset_id) + 1) return -1;
  switch (key->type) {
  case FS_KEY_ID:
    fs_hex((const uint8_t *)field, sizeof(m->dataset_id), out);
    return 2 * (int)sizeof(m->dataset_id);
  case FS_KEY_PATH:
    return fs_escape(field, out, size);
  case FS_KEY_WORD:
    return snprintf(out, size, "%s", field);
  case FS_KEY_U32:
  case FS_KEY_U64:
  case FS_KEY_SUM:
    break;
  }
  memcpy(&n, field, key->type == FS_KEY_U32 ? 4 : 8);
  return snprintf(out, size, key->type == FS_KEY_SUM ? "%016" PRIx64 : "%" PRIu64, n);
}

fs_ssize fs_manifest_format(const struct fs_manifest *m, char *out, size_t size) {
  int put = snprintf(out, size, FS_MANIFEST_FIRST "%u\n", m->version);
  size_t n = (size_t)put;
  if (n >= size) return -ENOSPC;
  for (size_t i = 0; i < FS_ARRAY_LEN(fs_keys); i++) {
    put = snprintf(out + n, size - n, "%s ", fs_keys[i].name);
    if ((size_t)put >= size - n) return -ENOSPC;
    n += (size_t)put;
    put = fs_format_value(&fs_keys[i], m, out + n, size - n);
    if (put < 0 || (size_t)put + 1 >= size - n) return -ENOSPC;
    n += (size_t)put;
    out[n++] = '\n';
  }
  put = snprintf(out + n, size - n, FS_MANIFEST_LAST "%016" PRIx64 "\n", fs_xxh3(out, n));
  return (size_t)put < size - n ? (fs_ssize)n + put : -ENOSPC;
}
