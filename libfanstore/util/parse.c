/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts numbers, sizes, hexadecimal and partition names from and to text. Called by all parts.
   Pure functions. */
#include <stdio.h>
#include <string.h>

#include "util/util.h"

/* Parses digits and moves *text past them. Returns -EINVAL if there is none or on overflow. */
static fs_err fs_parse_digits(const char **text, uint64_t *out) {
  const char *p = *text;
  uint64_t n = 0;
  if (*p < '0' || *p > '9') return -EINVAL;
  for (; *p >= '0' && *p <= '9'; p++) {
    if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n)) return -EINVAL;
  }
  *text = p;
  *out = n;
  return 0;
}

fs_err fs_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out) {
  uint64_t n;
  if (fs_parse_digits(&text, &n) < 0 || *text != '\0' || n < min || n > max) return -EINVAL;
  *out = n;
  return 0;
}

fs_err fs_parse_size(const char *text, uint64_t *out) {
  static const char units[] = "KMGTPE";
  uint64_t n;
  if (fs_parse_digits(&text, &n) < 0) return -EINVAL;
  if (*text != '\0') {
    char upper = *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text;
    const char *unit = strchr(units, upper);
    if (!unit) return -EINVAL;
    text++;
    if (*text != '\0' && strcmp(text, "iB") != 0) return -EINVAL;
    if (__builtin_mul_overflow(n, 1ull << (10 * (unit - units + 1)), &n)) return -EINVAL;
  }
  *out = n;
  return 0;
}

char *fs_format_size(uint64_t bytes, char *buf, size_t size) {
  static const char units[] = "KMGTPE";
  unsigned unit = 0;
  double value = (double)bytes;
  if (bytes < 1024) {
    snprintf(buf, size, "%u B", (unsigned)bytes);
    return buf;
  }
  for (value /= 1024; value >= 1023.95 && unit < sizeof(units) - 2; value /= 1024) unit++;
  snprintf(buf, size, "%.1f %ciB", value, units[unit]);
  return buf;
}

char *fs_format_count(uint64_t n, const char *one, char *buf, size_t size) {
  size_t len = strlen(one);
  bool ies = n != 1 && len > 0 && one[len - 1] == 'y';
  snprintf(buf, size, "%llu %.*s%s", (unsigned long long)n, (int)(len - ies), one, ies ? "ies" : fs_plural(n));
  return buf;
}

char *fs_part_name(uint32_t number, char out[FS_PART_NAME_SIZE]) {
  snprintf(out, FS_PART_NAME_SIZE, "part-%05u", number);
  return out;
}

char *fs_hex(const uint8_t *bytes, size_t n, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * n] = '\0';
  return out;
}

static int fs_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

fs_err fs_unhex(const char *text, uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int high = fs_hex_digit(text[2 * i]);
    int low = high < 0 ? -1 : fs_hex_digit(text[2 * i + 1]);
    if (low < 0) return -EINVAL;
    bytes[i] = (uint8_t)(high << 4 | low);
  }
  return text[2 * n] == '\0' ? 0 : -EINVAL;
}
