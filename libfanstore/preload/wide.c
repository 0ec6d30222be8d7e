/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the functions that read or write wide characters. The cookie streams that stand for a
 * dataset's files have none. So before the first wide character, such a stream becomes one of a
 * real file. Programs like rev and col call these.
 */
#include "preload/preload.h"

#define FS_WIDE(ret, name, params, args)                                                                               \
  FS_EXPORT ret name params;                                                                                           \
  FS_EXPORT ret name params {                                                                                          \
    fs_stdio_widen(f);                                                                                                 \
    return FS_REAL(name) args;                                                                                         \
  }

FS_WIDE(wint_t, fgetwc, (FILE * f), (f))
FS_ALIAS(getwc, fgetwc);
FS_WIDE(wint_t, fgetwc_unlocked, (FILE * f), (f))
FS_ALIAS(getwc_unlocked, fgetwc_unlocked);
FS_WIDE(wint_t, ungetwc, (wint_t c, FILE *f), (c, f))
FS_WIDE(wchar_t *, fgetws, (wchar_t * s, int n, FILE *f), (s, n, f))
FS_WIDE(wchar_t *, fgetws_unlocked, (wchar_t * s, int n, FILE *f), (s, n, f))
FS_WIDE(wchar_t *, __fgetws_chk, (wchar_t * s, size_t z, int n, FILE *f), (s, z, n, f))
FS_WIDE(wchar_t *, __fgetws_unlocked_chk, (wchar_t * s, size_t z, int n, FILE *f), (s, z, n, f))
FS_WIDE(wint_t, __wunderflow, (FILE * f), (f))
FS_WIDE(wint_t, __wuflow, (FILE * f), (f))
FS_WIDE(wint_t, __woverflow, (FILE * f, wint_t c), (f, c))
FS_WIDE(wint_t, fputwc, (wchar_t c, FILE *f), (c, f))
FS_ALIAS(putwc, fputwc);
FS_WIDE(wint_t, fputwc_unlocked, (wchar_t c, FILE *f), (c, f))
FS_ALIAS(putwc_unlocked, fputwc_unlocked);
FS_WIDE(int, fputws, (const wchar_t *s, FILE *f), (s, f))
FS_WIDE(int, fputws_unlocked, (const wchar_t *s, FILE *f), (s, f))
FS_WIDE(int, vfwprintf, (FILE * f, const wchar_t *t, va_list ap), (f, t, ap))
FS_WIDE(int, __vfwprintf_chk, (FILE * f, int o, const wchar_t *t, va_list ap), (f, o, t, ap))

FS_EXPORT int fwprintf(FILE *f, const wchar_t *format, ...) {
  va_list ap;
  va_start(ap, format);
  int r = vfwprintf(f, format, ap);
  va_end(ap);
  return r;
}
FS_EXPORT int __fwprintf_chk(FILE *f, int flag, const wchar_t *format, ...);
FS_EXPORT int __fwprintf_chk(FILE *f, int flag, const wchar_t *format, ...) {
  va_list ap;
  va_start(ap, format);
  int r = __vfwprintf_chk(f, flag, format, ap);
  va_end(ap);
  return r;
}

FS_WIDE(int, __isoc99_vfwscanf, (FILE * f, const wchar_t *t, va_list ap), (f, t, ap))
FS_ALIAS(vfwscanf, __isoc99_vfwscanf);

FS_EXPORT int __isoc99_fwscanf(FILE *f, const wchar_t *format, ...);
FS_EXPORT int __isoc99_fwscanf(FILE *f, const wchar_t *format, ...) {
  va_list ap;
  va_start(ap, format);
  int r = __isoc99_vfwscanf(f, format, ap);
  va_end(ap);
  return r;
}
FS_ALIAS(fwscanf, __isoc99_fwscanf);

FS_EXPORT int fwide(FILE *f, int mode) {
  if (mode == 0 && fs_stdio_unread(f)) return 0;
  if (mode > 0) fs_stdio_widen(f);
  return FS_REAL(fwide)(f, mode);
}
