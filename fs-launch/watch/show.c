/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people read them in narrow columns (watch.h). No state. */
#include <string.h>

#include "watch.h"

char *fs_show_ns(double ns, char out[FS_SHOW]) {
  static const char *const unit[] = {"ns", "us", "ms", "s"};
  unsigned u = 0;
  for (; u < 3 && ns >= 999.5; u++) ns /= 1000;
  if (ns <= 0)
    strcpy(out, "-");
  else
    snprintf(out, FS_SHOW, "%.*f%s", ns < 9.95 && u > 0 ? 1 : 0, ns, unit[u]);
  return out;
}

char *fs_show_percent(double percent, char out[FS_SHOW]) {
  if (percent < 0)
    strcpy(out, "-");
  else
    snprintf(out, FS_SHOW, "%.0f", percent);
  return out;
}

char *fs_show_count(double count, char out[FS_SHOW]) {
  static const char unit[] = " kMGTPE";
  unsigned u = 0;
  for (; u < 6 && count >= 99999.5; u++) count /= 1000;
  if (u == 0)
    snprintf(out, FS_SHOW, "%.*f", count > 0 && count < 9.95 ? 1 : 0, count);
  else
    snprintf(out, FS_SHOW, "%.0f%c", count, unit[u]);
  return out;
}

char *fs_show_mega(double bytes, char out[FS_SHOW]) {
  double m = bytes / 1e6;
  snprintf(out, FS_SHOW, "%.*f", m <= 0 ? 0 : m < 0.995 ? 2 : m < 99.95 ? 1 : 0, m);
  return out;
}

char *fs_show_giga(uint64_t bytes, char out[FS_SHOW]) {
  static const char unit[] = "KMGTPE";
  double n = (double)bytes / 1024;
  unsigned u = 0;
  for (; u < 5 && n >= 999.5; u++) n /= 1024;
  snprintf(out, FS_SHOW, "%.*f%c", n > 0 && n < 9.95 ? 1 : 0, n, unit[u]);
  return out;
}

char *fs_show_age(uint64_t now_ms, uint64_t ms, char out[FS_SHOW]) {
  uint64_t s = now_ms > ms ? (now_ms - ms) / 1000 : 0;
  unsigned sec = (unsigned)(s % 60), min = (unsigned)(s / 60 % 60), hour = (unsigned)(s / 3600 % 24);
  if (ms == 0)
    strcpy(out, "-");
  else if (s >= 86400)
    snprintf(out, FS_SHOW, "%llu-%02u:%02u:%02u", (unsigned long long)(s / 86400), hour, min, sec);
  else if (s >= 3600)
    snprintf(out, FS_SHOW, "%02u:%02u:%02u", hour, min, sec);
  else
    snprintf(out, FS_SHOW, "%02u:%02u", min, sec);
  return out;
}

char *fs_show_text(const char *text, size_t columns, char *out, size_t size) {
  fs_printable(text, strlen(text), out, size);
  char *p = out;
  for (size_t n = 0; *p != '\0'; p++)
    if (((unsigned char)*p & 0xc0) != 0x80 && n++ == columns) break; /* a character begins */
  *p = '\0';
  return out;
}
