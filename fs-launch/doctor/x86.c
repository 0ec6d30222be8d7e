/* SPDX-License-Identifier: BSD-3-Clause */
/* Decodes x86-64 instructions (x86.h). No state. */
#include "x86.h"

enum form { F_BAD, F_PLAIN, F_MODRM };

struct op {
  const uint8_t *p;
  uint64_t n, at;
  uint8_t map; /* 0: one byte, 1: 0F, 2: 0F 38, 3: 0F 3A */
  uint8_t code, rex, modrm;
  bool word; /* 66 */
  enum form form;
  unsigned imm;
};

static bool is_prefix(uint8_t b) {
  switch (b) {
  case 0x26:
  case 0x2e:
  case 0x36:
  case 0x3e:
  case 0x64:
  case 0x65:
  case 0x66:
  case 0x67:
  case 0xf0:
  case 0xf2:
  case 0xf3:
    return true;
  default:
    return false;
  }
}

static uint8_t byte(struct op *o) {
  if (o->at < o->n) return o->p[o->at++];
  o->at = o->n + 1;
  return 0;
}

/* Reads prefixes and escapes, and finds the opcode map and the opcode. */
static void opcode(struct op *o) {
  uint8_t b = byte(o);
  for (int i = 0; is_prefix(b) && i < 14; i++) {
    o->word |= b == 0x66;
    b = byte(o);
  }
  if ((b & 0xf0) == 0x40) {
    o->rex = b;
    b = byte(o);
  }
  o->code = b;
  if (b == 0x0f) {
    o->map = 1;
    o->code = byte(o);
    if (o->code == 0x38 || o->code == 0x3a) {
      o->map = o->code == 0x38 ? 2 : 3;
      o->code = byte(o);
    }
  } else if (b == 0xc5 || b == 0xc4 || b == 0x62) { /* VEX, EVEX */
    uint8_t first = byte(o);
    o->map = b == 0xc5 ? 1 : first & 3;
    for (int i = b == 0xc5 ? 0 : b == 0xc4 ? 1 : 2; i > 0; i--) byte(o);
    o->code = byte(o);
    o->rex = 0;
    if (o->map == 0) o->at = o->n + 1;
  }
}

static void one_byte(struct op *o) {
  uint8_t c = o->code, low = c & 7;
  unsigned z = o->word ? 2 : 4;
  o->form = F_PLAIN;
  if (c < 0x40) {
    o->form = low < 4 ? F_MODRM : low < 6 ? F_PLAIN : F_BAD;
    o->imm = low == 4 ? 1 : low == 5 ? z : 0;
  } else if (c < 0x50 || c == 0x60 || c == 0x61 || c == 0x82 || c == 0x9a || c == 0xce || (c >= 0xd4 && c <= 0xd6)) {
    o->form = F_BAD;
  } else if (c == 0x63 || (c >= 0x84 && c <= 0x8f) || (c >= 0xd0 && c <= 0xd3) || (c >= 0xd8 && c <= 0xdf) ||
             c == 0xf6 || c == 0xf7 || c >= 0xfe) {
    o->form = F_MODRM; /* the reg field decides if f6 and f7 have an immediate */
  } else if (c == 0x80 || c == 0x83 || c == 0x6b || c == 0xc0 || c == 0xc1 || c == 0xc6) {
    o->form = F_MODRM;
    o->imm = 1;
  } else if (c == 0x81 || c == 0x69 || c == 0xc7) {
    o->form = F_MODRM;
    o->imm = z;
  } else if (c == 0x6a || (c & 0xf0) == 0x70 || c == 0xa8 || (c & 0xf8) == 0xb0 || c == 0xcd || c == 0xeb ||
             (c & 0xf8) == 0xe0) {
    o->imm = 1;
  } else if (c == 0x68 || c == 0xa9) {
    o->imm = z;
  } else if (c == 0xe8 || c == 0xe9) {
    o->imm = 4;
  } else if ((c & 0xf8) == 0xb8) {
    o->imm = o->rex & 8 ? 8 : z;
  } else if ((c & 0xfc) == 0xa0) {
    o->imm = 8;
  } else if (c == 0xc2 || c == 0xca || c == 0xc8) {
    o->imm = c == 0xc8 ? 3 : 2;
  }
}

static void two_byte(struct op *o) {
  uint8_t c = o->code;
  o->form = F_MODRM;
  if (o->map == 3) o->imm = 1;
  if (o->map != 1) return;
  if ((c & 0xf0) == 0x80) {
    o->form = F_PLAIN;
    o->imm = 4;
  } else if (c == 0x05 || c == 0x06 || c == 0x07 || c == 0x08 || c == 0x09 || c == 0x0b || c == 0x0e || c == 0x77 ||
             (c >= 0x30 && c <= 0x37) || (c >= 0xa0 && c <= 0xa2) || (c >= 0xa8 && c <= 0xaa) || (c & 0xf8) == 0xc8) {
    o->form = F_PLAIN;
  } else if ((c >= 0x70 && c <= 0x73) || c == 0xa4 || c == 0xac || c == 0xba || c == 0xc2 || c == 0xc4 || c == 0xc5 ||
             c == 0xc6) {
    o->imm = 1;
  }
}

/* Reads ModRM, SIB and displacement. */
static void operands(struct op *o) {
  o->modrm = byte(o);
  unsigned mod = o->modrm >> 6, rm = o->modrm & 7, disp = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  if (mod != 3 && rm == 4) {
    uint8_t sib = byte(o);
    if (mod == 0 && (sib & 7) == 5) disp = 4;
  }
  if (mod == 0 && rm == 5) disp = 4;
  o->at += disp;
  if (o->map == 0 && (o->code == 0xf6 || o->code == 0xf7) && ((o->modrm >> 3) & 7) < 2)
    o->imm = o->code == 0xf6 ? 1 : o->word ? 2 : 4;
}

/* Returns the number of the general register that the instruction writes, or -1. Knows only
   instructions that occur before a system call. */
static int target(const struct op *o) {
  uint8_t c = o->code;
  int reg = ((o->modrm >> 3) & 7) | (o->rex & 4 ? 8 : 0), rm = (o->modrm & 7) | (o->rex & 1 ? 8 : 0);
  bool direct = o->modrm >= 0xc0;
  if (o->map == 1)
    return (c & 0xf0) == 0x40 || c == 0xb6 || c == 0xb7 || c == 0xbe || c == 0xbf || c == 0xaf ? reg : -1;
  if (o->map != 0) return -1;
  if ((c & 0xf8) == 0xb8 || (c & 0xf8) == 0x58) return (c & 7) | (o->rex & 1 ? 8 : 0);
  if (c == 0x8b || c == 0x8d || c == 0x63 || c == 0x69 || c == 0x6b || (c < 0x38 && (c & 7) == 3)) return reg;
  if (c == 0x89 || c == 0xc7 || c == 0x81 || c == 0x83 || c == 0xc1 || c == 0xd1 || c == 0xd3 || c == 0xf7 ||
      (c < 0x38 && (c & 7) == 1))
    return direct ? rm : -1;
  return c == 0x98 || (c < 0x38 && (c & 7) == 5) ? 0 : -1;
}

static bool leaves(const struct op *o) {
  uint8_t c = o->code;
  if (o->map == 1) return c == 0x05 || c == 0x0b || c == 0x34;
  return o->map == 0 && (c == 0xe8 || c == 0xe9 || c == 0xeb || c == 0xc2 || c == 0xc3 || c == 0xcc || c == 0xf4 ||
                         (c == 0xff && ((o->modrm >> 3) & 7) >= 2 && ((o->modrm >> 3) & 7) < 6));
}

void fs_x86_decode(const uint8_t *p, uint64_t n, struct fs_x86 *out) {
  struct op o = {.p = p, .n = FS_MIN(n, 15u)};
  *out = (struct fs_x86){0};
  opcode(&o);
  if (o.at > o.n) return;
  if (o.map == 0)
    one_byte(&o);
  else
    two_byte(&o);
  if (o.form == F_BAD) return;
  if (o.form == F_MODRM) operands(&o);
  o.at += o.imm;
  if (o.at > o.n) return;
  int t = target(&o);
  *out = (struct fs_x86){(unsigned)o.at, t == 0, t == 7, t == 6, leaves(&o)};
}
