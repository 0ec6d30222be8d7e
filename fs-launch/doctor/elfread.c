/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads ELF files (elfread.h). Structures are copied before use, because they may lie at any
   offset. */
#include "elfread.h"

#include <string.h>

#include "util/util.h"

#define FS_ELF_DYN_MAX 4096u

static bool get(const struct fs_elf *e, uint64_t off, void *out, uint64_t n) {
  if (off > e->size || n > e->size - off) return false;
  memcpy(out, e->data + off, n);
  return true;
}

/* Returns the string at an offset if it ends within `room` bytes of the file, else NULL. */
static const char *text_at(const struct fs_elf *e, uint64_t off, uint64_t room) {
  if (off >= e->size) return NULL;
  room = FS_MIN(room, e->size - off);
  return memchr(e->data + off, '\0', room) ? (const char *)e->data + off : NULL;
}

static bool segment(const struct fs_elf *e, uint64_t i, Elf64_Phdr *ph) {
  return i < e->phnum && get(e, e->phoff + i * sizeof(*ph), ph, sizeof(*ph));
}

static bool section(const struct fs_elf *e, uint64_t i, Elf64_Shdr *sh) {
  return i < e->shnum && get(e, e->shoff + i * sizeof(*sh), sh, sizeof(*sh));
}

/* Returns the file offset of an address, or UINT64_MAX. */
static uint64_t offset_of(const struct fs_elf *e, uint64_t address) {
  Elf64_Phdr ph;
  for (uint64_t i = 0; segment(e, i, &ph); i++) {
    if (ph.p_type != PT_LOAD || address < ph.p_vaddr || address - ph.p_vaddr >= ph.p_filesz) continue;
    uint64_t off = ph.p_offset + (address - ph.p_vaddr);
    return off < e->size ? off : UINT64_MAX;
  }
  return UINT64_MAX;
}

static bool dynamic_at(const struct fs_elf *e, uint64_t i, Elf64_Dyn *d) {
  return i < e->dyn_count && get(e, e->dyn_off + i * sizeof(*d), d, sizeof(*d)) && d->d_tag != DT_NULL;
}

static bool dynamic_value(const struct fs_elf *e, int64_t tag, uint64_t *out) {
  Elf64_Dyn d;
  for (uint64_t i = 0; dynamic_at(e, i, &d); i++) {
    if (d.d_tag != tag) continue;
    *out = d.d_un.d_val;
    return true;
  }
  return false;
}

static const char *dynamic_text(const struct fs_elf *e, uint64_t off) {
  if (!e->strings || off >= e->strings_size) return NULL;
  return memchr(e->strings + off, '\0', e->strings_size - off) ? e->strings + off : NULL;
}

static const char *dynamic_name(const struct fs_elf *e, int64_t tag) {
  uint64_t off;
  return dynamic_value(e, tag, &off) ? dynamic_text(e, off) : NULL;
}

/* Returns the number of symbols, at least of the undefined ones. These come first and are not in
   the GNU hash table, which says where the others begin. If there are no others, ld writes a table
   without a shift, which says 1. ld puts the strings behind the symbols. */
static uint64_t symbol_count(const struct fs_elf *e) {
  uint64_t address, off;
  uint32_t word[4];
  if (dynamic_value(e, DT_HASH, &address) && (off = offset_of(e, address)) != UINT64_MAX && get(e, off, word, 8))
    return word[1];
  if (dynamic_value(e, DT_GNU_HASH, &address) && (off = offset_of(e, address)) != UINT64_MAX && get(e, off, word, 16)) {
    uint64_t strings = e->strings ? (uint64_t)((const uint8_t *)e->strings - e->data) : 0;
    if (word[3] != 0 || strings < e->symbols_off) return word[1];
    return (strings - e->symbols_off) / sizeof(Elf64_Sym);
  }
  return 0;
}

static void read_dynamic(struct fs_elf *e, const Elf64_Phdr *ph) {
  uint64_t address, off, size;
  e->dynamic = true;
  e->dyn_off = ph->p_offset;
  e->dyn_count = FS_MIN(ph->p_filesz / sizeof(Elf64_Dyn), FS_ELF_DYN_MAX);
  if (dynamic_value(e, DT_STRTAB, &address) && dynamic_value(e, DT_STRSZ, &size) &&
      (off = offset_of(e, address)) != UINT64_MAX) {
    e->strings = (const char *)e->data + off;
    e->strings_size = FS_MIN(size, e->size - off);
  }
  if (dynamic_value(e, DT_SYMTAB, &address) && (off = offset_of(e, address)) != UINT64_MAX) {
    e->symbols_off = off;
    e->symbols = FS_MIN(symbol_count(e), (e->size - off) / sizeof(Elf64_Sym));
  }
  dynamic_value(e, DT_FLAGS_1, &e->flags_1);
  e->soname = dynamic_name(e, DT_SONAME);
  e->rpath = dynamic_name(e, DT_RPATH);
  e->runpath = dynamic_name(e, DT_RUNPATH);
}

/* Reads only whether a 32-bit file is a program. */
static void read_interp32(struct fs_elf *e) {
  Elf32_Ehdr h;
  Elf32_Phdr ph;
  if (!get(e, 0, &h, sizeof(h)) || h.e_phentsize != sizeof(ph)) return;
  for (uint64_t i = 0; i < h.e_phnum && get(e, h.e_phoff + i * sizeof(ph), &ph, sizeof(ph)); i++)
    if (ph.p_type == PT_INTERP) e->interp = text_at(e, ph.p_offset, ph.p_filesz);
}

fs_err fs_elf_attach(struct fs_elf *e, const void *data, uint64_t size) {
  Elf64_Ehdr h;
  Elf64_Phdr ph;
  *e = (struct fs_elf){.data = data, .size = size};
  if (size < EI_NIDENT || memcmp(data, ELFMAG, SELFMAG) != 0) return -ENOEXEC;
  if (!get(e, 0, &h, sizeof(Elf32_Ehdr))) return -EBADMSG;
  e->bits = h.e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
  e->little = h.e_ident[EI_DATA] == ELFDATA2LSB;
  e->type = e->little ? h.e_type : (uint16_t)__builtin_bswap16(h.e_type);
  e->machine = e->little ? h.e_machine : (uint16_t)__builtin_bswap16(h.e_machine);
  if (e->bits == 32 && e->little) read_interp32(e);
  if (e->bits != 64 || !e->little) return 0;
  if (!get(e, 0, &h, sizeof(h)) || (h.e_phnum > 0 && h.e_phentsize != sizeof(ph))) return -EBADMSG;
  if (h.e_phoff > size) return -EBADMSG;
  e->deep = true;
  e->phoff = h.e_phoff;
  e->phnum = FS_MIN(h.e_phnum, (size - h.e_phoff) / sizeof(ph));
  e->shoff = FS_MIN(h.e_shoff, size); /* a program needs no sections to run */
  e->shnum = h.e_shentsize == sizeof(Elf64_Shdr) ? FS_MIN(h.e_shnum, (size - e->shoff) / sizeof(Elf64_Shdr)) : 0;
  e->shstr = h.e_shstrndx;
  for (uint64_t i = 0; segment(e, i, &ph); i++) {
    if (ph.p_type == PT_INTERP && !e->interp) e->interp = text_at(e, ph.p_offset, ph.p_filesz);
    if (ph.p_type == PT_DYNAMIC && !e->dynamic && ph.p_offset < size) read_dynamic(e, &ph);
  }
  return 0;
}

bool fs_elf_program(const struct fs_elf *e) {
  return e->type == ET_EXEC || e->interp || (e->type == ET_DYN && (e->flags_1 & DF_1_PIE));
}

bool fs_elf_static(const struct fs_elf *e) {
  return e->deep && fs_elf_program(e) && !e->interp;
}

const char *fs_elf_needed(const struct fs_elf *e, uint64_t *cursor) {
  Elf64_Dyn d;
  while (dynamic_at(e, *cursor, &d)) {
    ++*cursor;
    const char *name = d.d_tag == DT_NEEDED ? dynamic_text(e, d.d_un.d_val) : NULL;
    if (name && name[0] != '\0') return name;
  }
  return NULL;
}

static const char *symbol(const struct fs_elf *e, uint64_t i, bool *defined) {
  Elf64_Sym s;
  if (i >= e->symbols || !get(e, e->symbols_off + i * sizeof(s), &s, sizeof(s))) return NULL;
  *defined = s.st_shndx != SHN_UNDEF;
  return dynamic_text(e, s.st_name);
}

const char *fs_elf_import(const struct fs_elf *e, uint64_t i) {
  bool defined = true;
  const char *name = symbol(e, i, &defined);
  return name && !defined && name[0] != '\0' ? name : NULL;
}

bool fs_elf_section(const struct fs_elf *e, const char *name) {
  Elf64_Shdr names, sh;
  if (!section(e, e->shstr, &names)) return false;
  for (uint64_t i = 0; section(e, i, &sh); i++) {
    if (sh.sh_name >= names.sh_size || names.sh_offset > e->size) continue;
    const char *text = text_at(e, names.sh_offset + sh.sh_name, names.sh_size - sh.sh_name);
    if (text && strcmp(text, name) == 0) return true;
  }
  return false;
}

bool fs_elf_note(const struct fs_elf *e, const char *owner) {
  Elf64_Phdr ph;
  size_t len = strlen(owner) + 1;
  for (uint64_t i = 0; segment(e, i, &ph); i++) {
    Elf64_Nhdr n;
    if (ph.p_type != PT_NOTE || ph.p_offset > e->size) continue;
    uint64_t at = ph.p_offset, end = ph.p_offset + FS_MIN(ph.p_filesz, e->size - ph.p_offset);
    while (at < end && get(e, at, &n, sizeof(n))) {
      const char *name = (const char *)e->data + at + sizeof(n);
      uint64_t room = e->size - at - sizeof(n);
      if (n.n_namesz >= len && n.n_namesz <= room && memcmp(name, owner, len) == 0) return true;
      at += sizeof(n) + fs_round_up(n.n_namesz, 4) + fs_round_up(n.n_descsz, 4);
    }
  }
  return false;
}

static bool code_at(const struct fs_elf *e, uint64_t off, uint64_t n, uint64_t address, struct fs_elf_code *out) {
  if (off >= e->size || n == 0) return false;
  *out = (struct fs_elf_code){e->data + off, FS_MIN(n, e->size - off), address};
  return true;
}

bool fs_elf_code(const struct fs_elf *e, uint64_t *cursor, struct fs_elf_code *out) {
  Elf64_Shdr sh;
  Elf64_Phdr ph;
  while (section(e, *cursor, &sh)) {
    ++*cursor;
    if (sh.sh_type == SHT_PROGBITS && (sh.sh_flags & SHF_EXECINSTR) &&
        code_at(e, sh.sh_offset, sh.sh_size, sh.sh_addr, out))
      return true;
  }
  while (e->shnum == 0 && segment(e, *cursor, &ph)) {
    ++*cursor;
    if (ph.p_type == PT_LOAD && (ph.p_flags & PF_X) && code_at(e, ph.p_offset, ph.p_filesz, ph.p_vaddr, out))
      return true;
  }
  return false;
}

/* Looks for the import in one table of relocations. *n counts down to the wanted slot. */
static bool slot_in(const struct fs_elf *e, int64_t table, int64_t size, const char *import, unsigned *n,
                    uint64_t *address) {
  uint64_t at, bytes;
  bool defined = true;
  Elf64_Rela r;
  if (!dynamic_value(e, table, &at) || !dynamic_value(e, size, &bytes)) return false;
  at = offset_of(e, at);
  if (at == UINT64_MAX) return false;
  for (uint64_t i = 0; i < bytes / sizeof(r) && get(e, at + i * sizeof(r), &r, sizeof(r)); i++) {
    if (ELF64_R_SYM(r.r_info) == 0) continue;
    const char *name = symbol(e, ELF64_R_SYM(r.r_info), &defined);
    if (!name || defined || strcmp(name, import) != 0 || (*n)-- > 0) continue;
    *address = r.r_offset;
    return true;
  }
  return false;
}

bool fs_elf_slot(const struct fs_elf *e, const char *import, unsigned n, uint64_t *address) {
  return slot_in(e, DT_JMPREL, DT_PLTRELSZ, import, &n, address) || slot_in(e, DT_RELA, DT_RELASZ, import, &n, address);
}

bool fs_elf_mentions(const struct fs_elf *e, const char *text) {
  Elf64_Shdr sh;
  for (uint64_t i = 0; section(e, i, &sh); i++) {
    if (sh.sh_type != SHT_PROGBITS || !(sh.sh_flags & SHF_ALLOC) || (sh.sh_flags & SHF_EXECINSTR)) continue;
    if (sh.sh_offset >= e->size) continue;
    uint64_t n = FS_MIN(sh.sh_size, e->size - sh.sh_offset);
    if (memmem(e->data + sh.sh_offset, n, text, strlen(text) + 1)) return true;
  }
  return false;
}
