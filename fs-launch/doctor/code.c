/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans machine code for system calls (code.h). Reads only what the ELF reader reports as code.
   Zydis decodes x86-64 instructions. It reads only the bytes that it is given, and allocates
   nothing. */
#include "code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__) && __has_include(<Zydis/Disassembler.h>) /* version 4 */
#include <Zydis/Zydis.h>
#define FS_ZYDIS 1
#endif

#include "util/numbers.h"

static const struct {
  const char *name;
  int number;
  enum fs_code_kind kind;
} calls[] = {
#ifdef SYS_open
    {"open", SYS_open, FS_CODE_NAME},
    {"stat", SYS_stat, FS_CODE_NAME},
    {"lstat", SYS_lstat, FS_CODE_NAME},
    {"access", SYS_access, FS_CODE_NAME},
    {"readlink", SYS_readlink, FS_CODE_NAME},
#endif
    {"openat", SYS_openat, FS_CODE_NAME},
    {"openat2", SYS_openat2, FS_CODE_NAME},
    {"newfstatat", SYS_newfstatat, FS_CODE_NAME},
    {"statx", SYS_statx, FS_CODE_NAME},
    {"faccessat", SYS_faccessat, FS_CODE_NAME},
    {"faccessat2", SYS_faccessat2, FS_CODE_NAME},
    {"readlinkat", SYS_readlinkat, FS_CODE_NAME},
    {"execve", SYS_execve, FS_CODE_NAME},
    {"chdir", SYS_chdir, FS_CODE_NAME},
    {"getdents64", SYS_getdents64, FS_CODE_DATA},
    {"read", SYS_read, FS_CODE_DATA},
    {"pread64", SYS_pread64, FS_CODE_DATA},
    {"preadv2", SYS_preadv2, FS_CODE_DATA},
    {"fstat", SYS_fstat, FS_CODE_DATA},
    {"io_uring_setup", SYS_io_uring_setup, FS_CODE_URING},
    {"io_submit", SYS_io_submit, FS_CODE_URING},
};

const char *fs_code_call(unsigned i, enum fs_code_kind *kind) {
  if (i >= FS_ARRAY_LEN(calls)) return NULL;
  *kind = calls[i].kind;
  return calls[i].name;
}

static void note_call(struct fs_code *out, int64_t number) {
  if (number < 0) {
    out->unknown++;
    return;
  }
  for (unsigned i = 0; i < FS_ARRAY_LEN(calls); i++)
    if (calls[i].number == number) out->calls |= 1ull << i;
}

#if defined(FS_ZYDIS)

#define FS_BACK 64u /* search the number in this many bytes before the instruction */

static uint32_t word_at(const uint8_t *p) {
  uint32_t w;
  memcpy(&w, p, sizeof(w));
  return w;
}

/* Zydis is loaded when there is code to look at, because jobs run on nodes that do not have it. */
static struct {
  __typeof__(&ZydisDecoderInit) init;
  __typeof__(&ZydisDecoderDecodeFull) decode;
  __typeof__(&ZydisRegisterGetLargestEnclosing) whole;
} zydis;

static fs_err load_decoder(void) {
  static bool loaded;
  char name[32];
  if (loaded) return 0;
  snprintf(name, sizeof(name), "libZydis.so.%d.%d", (int)ZYDIS_VERSION_MAJOR(ZYDIS_VERSION),
           (int)ZYDIS_VERSION_MINOR(ZYDIS_VERSION));
  void *so = dlopen(name, RTLD_NOW);
  if (!so) return -ELIBACC;
  zydis.init = (__typeof__(zydis.init))dlsym(so, "ZydisDecoderInit");
  zydis.decode = (__typeof__(zydis.decode))dlsym(so, "ZydisDecoderDecodeFull");
  zydis.whole = (__typeof__(zydis.whole))dlsym(so, "ZydisRegisterGetLargestEnclosing");
  loaded = zydis.init && zydis.decode && zydis.whole;
  return loaded ? 0 : -ELIBACC;
}

struct insn {
  ZydisDecodedInstruction i;
  ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const uint8_t *p, const uint8_t *end, struct insn *x) {
  ZydisDecoder d;
  return ZYAN_SUCCESS(zydis.init(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
         ZYAN_SUCCESS(zydis.decode(&d, p, (uint64_t)(end - p), &x->i, x->op));
}

static ZydisRegister whole(ZydisRegister part) {
  return zydis.whole(ZYDIS_MACHINE_MODE_LONG_64, part);
}

static bool is_constant(const ZydisDecodedOperand *op) {
  return op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

/* Returns true if the operand is the register or its lower half: writing this half clears the
   other one. */
static bool is_register(const ZydisDecodedOperand *op, ZydisRegister reg) {
  return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->size >= 32 && whole(op->reg.value) == reg;
}

/* Returns the length of the code at p that loads a constant into reg, and the constant; else 0. */
static unsigned constant_load(const uint8_t *p, const uint8_t *end, ZydisRegister reg, int64_t *value) {
  struct insn x, pop;
  const ZydisDecodedOperand *to = &x.op[0], *from = &x.op[1];
  if (!decode(p, end, &x)) return 0;
  switch (x.i.mnemonic) {
  case ZYDIS_MNEMONIC_MOV:
    *value = from->imm.value.s;
    return is_register(to, reg) && is_constant(from) ? x.i.length : 0;
  case ZYDIS_MNEMONIC_XOR:
    *value = 0;
    return is_register(to, reg) && is_register(from, reg) ? x.i.length : 0;
  case ZYDIS_MNEMONIC_PUSH:
    *value = to->imm.value.s;
    if (!is_constant(to) || !decode(p + x.i.length, end, &pop) || pop.i.mnemonic != ZYDIS_MNEMONIC_POP) return 0;
    return is_register(&pop.op[0], reg) ? x.i.length + pop.i.length : 0;
  default:
    return 0;
  }
}

static bool clobbers(const struct insn *x, ZydisRegister reg) {
  for (unsigned k = 0; k < x->i.operand_count; k++)
    if (x->op[k].type == ZYDIS_OPERAND_TYPE_REGISTER && (x->op[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
        whole(x->op[k].reg.value) == reg)
      return true;
  return false;
}

/* Returns true if the code does not go on in a straight line, or calls something. */
static bool leaves(const struct insn *x) {
  switch (x->i.meta.category) {
  case ZYDIS_CATEGORY_CALL:
  case ZYDIS_CATEGORY_INTERRUPT:
  case ZYDIS_CATEGORY_RET:
  case ZYDIS_CATEGORY_SYSCALL:
  case ZYDIS_CATEGORY_UNCOND_BR:
    return true;
  default:
    return x->i.mnemonic == ZYDIS_MNEMONIC_HLT || x->i.mnemonic == ZYDIS_MNEMONIC_UD2;
  }
}

/* Returns true if the instructions from p reach `end` in a straight line and leave reg
   unchanged. */
static bool arrives(const uint8_t *p, const uint8_t *end, ZydisRegister reg) {
  for (struct insn x; p < end; p += x.i.length)
    if (!decode(p, end, &x) || leaves(&x) || clobbers(&x, reg)) return false;
  return true;
}

/* Returns the constant in reg at p, or -1. */
static int64_t constant_before(const struct fs_elf_code *c, const uint8_t *p, ZydisRegister reg) {
  const uint8_t *first = (uint64_t)(p - c->p) > FS_BACK ? p - FS_BACK : c->p;
  for (const uint8_t *at = p - 1; at >= first && at < p; at--) {
    int64_t value;
    unsigned n = constant_load(at, p, reg, &value);
    bool other = at > c->p && (at[-1] & 0xf1) == 0x41; /* REX.B: r8 to r15 */
    if (n > 0 && !other && arrives(at + n, p, reg)) return value;
  }
  return -1;
}

static void scan_syscalls(const struct fs_elf_code *c, struct fs_code *out) {
  const uint8_t *p = c->p + 1, *end = c->p + c->n;
  while (p < end && (p = memchr(p, 0x05, (uint64_t)(end - p))) != NULL) {
    if (p[-1] == 0x0f) note_call(out, constant_before(c, p - 1, ZYDIS_REGISTER_RAX));
    p++;
  }
}

/* The entries of the procedure linkage table that lead to one import, and the calls to them. */
struct imported {
  uint64_t slot[2], plt[4];
  unsigned slots, plts;
};

static void import_find(const struct fs_elf *e, const char *name, struct imported *im) {
  struct fs_elf_code c;
  *im = (struct imported){0};
  while (im->slots < FS_ARRAY_LEN(im->slot) && fs_elf_slot(e, name, im->slots, &im->slot[im->slots])) im->slots++;
  for (uint64_t cursor = 0; im->slots > 0 && fs_elf_code(e, &cursor, &c);) {
    const uint8_t *p = c.p, *end = c.p + c.n - FS_MIN(c.n, 6u);
    while (p < end && (p = memchr(p, 0xff, (uint64_t)(end - p))) != NULL) {
      uint64_t to = c.address + (uint64_t)(p - c.p) + 6 + (uint64_t)(int64_t)(int32_t)word_at(p + 2);
      for (unsigned i = 0; p[1] == 0x25 && i < im->slots && im->plts < FS_ARRAY_LEN(im->plt); i++)
        if (to == im->slot[i]) im->plt[im->plts++] = c.address + (uint64_t)(p - c.p);
      p++;
    }
  }
}

/* Returns true if this instruction calls, or jumps to, the import. A table entry begins at a
   multiple of 16 bytes, before the jump itself. */
static bool import_called(const struct imported *im, const struct fs_elf_code *c, const uint8_t *p, uint64_t n) {
  uint64_t here = c->address + (uint64_t)(p - c->p);
  if (n >= 5 && (p[0] == 0xe8 || p[0] == 0xe9)) {
    uint64_t to = here + 5 + (uint64_t)(int64_t)(int32_t)word_at(p + 1);
    for (unsigned i = 0; i < im->plts; i++)
      if (to == im->plt[i] || to == (im->plt[i] & ~15ull)) return true;
  }
  if (n >= 6 && p[0] == 0xff && p[1] == 0x15) {
    uint64_t to = here + 6 + (uint64_t)(int64_t)(int32_t)word_at(p + 2);
    for (unsigned i = 0; i < im->slots; i++)
      if (to == im->slot[i]) return true;
  }
  return false;
}

/* Returns true if the import is called with a constant in reg that `wanted` accepts. */
static bool import_called_with(const struct fs_elf *e, const char *name, ZydisRegister reg, bool (*wanted)(int64_t)) {
  struct imported im;
  struct fs_elf_code c;
  import_find(e, name, &im);
  for (uint64_t cursor = 0; im.slots > 0 && fs_elf_code(e, &cursor, &c);)
    for (uint64_t i = 0; i < c.n; i++)
      if ((c.p[i] & 0xfe) == 0xe8 || c.p[i] == 0xff)
        if (import_called(&im, &c, c.p + i, c.n - i) && wanted(constant_before(&c, c.p + i, reg))) return true;
  return false;
}

static bool is_deepbind(int64_t flags) {
  return flags >= 0 && flags < 0x10000 && (flags & RTLD_DEEPBIND) && (flags & (RTLD_LAZY | RTLD_NOW));
}
static bool is_uring(int64_t number) {
  return number == SYS_io_uring_setup;
}

static void scan_imports(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out) {
  out->deepbind = dlopen && import_called_with(e, "dlopen", ZYDIS_REGISTER_RSI, is_deepbind);
  out->uring_by_libc = libc_syscall && import_called_with(e, "syscall", ZYDIS_REGISTER_RDI, is_uring);
}

#elif defined(__aarch64__) || defined(__powerpc64__)

#define FS_BACK 16u /* instructions */
#if defined(__aarch64__)
#define FS_CALL 0xd4000001u /* svc #0 */
/* "movz x8, n" or "movz w8, n" */
#define FS_IS_NUMBER(w) (((w)&0x7fe0001fu) == 0x52800008u)
#define FS_NUMBER(w) ((w) >> 5 & 0xffff)
#else
#define FS_CALL 0x44000002u /* sc */
/* "li r0, n" */
#define FS_IS_NUMBER(w) (((w)&0xffff0000u) == 0x38000000u)
#define FS_NUMBER(w) ((w)&0xffff)
#endif

static fs_err load_decoder(void) {
  return 0;
}

static uint32_t word_at(const uint8_t *p) {
  uint32_t w;
  memcpy(&w, p, sizeof(w));
  return w;
}

/* Finds the instruction that loads the number, before the system call. */
static void scan_syscalls(const struct fs_elf_code *c, struct fs_code *out) {
  for (uint64_t i = 0; i + 4 <= c->n; i += 4) {
    int64_t number = -1;
    if (word_at(c->p + i) != FS_CALL) continue;
    for (uint64_t back = 4; number < 0 && back <= 4ull * FS_BACK && back <= i; back += 4) {
      uint32_t w = word_at(c->p + i - back);
      if (FS_IS_NUMBER(w)) number = FS_NUMBER(w);
    }
    note_call(out, number);
  }
}
static void scan_imports(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out) {
  (void)e, (void)dlopen, (void)libc_syscall, (void)out;
}

#else
static fs_err load_decoder(void) {
  return FS_ELF_MACHINE == EM_X86_64 ? -ELIBACC : 0;
}
static void scan_syscalls(const struct fs_elf_code *c, struct fs_code *out) {
  (void)c, (void)out, (void)note_call;
}
static void scan_imports(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out) {
  (void)e, (void)dlopen, (void)libc_syscall, (void)out;
}
#endif

fs_err fs_code_scan(const struct fs_elf *e, bool dlopen, bool libc_syscall, struct fs_code *out) {
  struct fs_elf_code c;
  *out = (struct fs_code){0};
  if (!e->deep || e->machine != FS_ELF_MACHINE) return 0;
  fs_err err = load_decoder();
  if (err < 0) return err;
  for (uint64_t cursor = 0; fs_elf_code(e, &cursor, &c);) scan_syscalls(&c, out);
  scan_imports(e, dlopen, libc_syscall, out);
  return 0;
}
