# SPDX-License-Identifier: BSD-3-Clause
# FanStore's build. `make` builds; `make V=1` shows the commands; `make help` lists the targets.
# Variants build in directories of their own: make SAN=address,undefined | SAN=thread -> build/<variant>/

CC ?= gcc
MPICC ?= mpicc
SAN ?=
WERROR ?=
PREFIX ?= /usr/local
DESTDIR ?=

empty :=
comma := ,
B := build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
O := $(B)/obj

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla -Wpointer-arith $(if $(WERROR),-Werror)
# With a sanitizer compilers take far longer for -O2 and for all that -g tells, and the tests are no faster by it.
CFLAGS ?= $(if $(SAN),-O1 -g1,-O2 -g)
BASE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Iinclude -Ilibfanstore $(WARN) -fPIC -fvisibility=hidden -pthread \
               -fno-strict-aliasing -fno-semantic-interposition -ffunction-sections -fdata-sections -MMD -MP
# libfanstore.so is for every glibc from 2.17 on. A sanitizer's own dlsym must be the one that is called.
ifeq ($(SAN),)
BASE_CFLAGS += -include libfanstore/preload/oldest.h
else
BASE_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SAN)
endif

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

# The stack, lowest first (docs/internals/design.md; tests/lint/layers.sh holds the includes to it).
COMMON_MODULES := util codec format index ipc cache
COMMON_SRC := $(foreach m,$(COMMON_MODULES),$(wildcard libfanstore/$(m)/*.c))
CLIENT_SRC := $(wildcard libfanstore/client/*/*.c)
PRELOAD_SRC := $(wildcard libfanstore/preload/*.c) $(wildcard libfanstore/preload/*.S)
MPI_SRC := $(wildcard libfanstore/daemon/mpi/*.c)
DAEMON_SRC := $(filter-out $(MPI_SRC),$(wildcard libfanstore/daemon/*.c libfanstore/daemon/*/*.c))
NODES_SRC := $(wildcard fs-prepare/nodes/*.c)
PREPARE_SRC := $(filter-out $(NODES_SRC),$(wildcard fs-prepare/*.c fs-prepare/*/*.c))
FANSTORED_SRC := fs-launch/fanstored.c
STATIC_SRC := $(wildcard fs-launch/static/*.c)
LAUNCH_SRC := $(filter-out $(FANSTORED_SRC) $(STATIC_SRC),$(wildcard fs-launch/*.c fs-launch/*/*.c) fs-launch/pagetext.S)

obj = $(patsubst %,$(O)/%.o,$(basename $(1)))
COMMON_OBJ := $(call obj,$(COMMON_SRC))
CLIENT_OBJ := $(call obj,$(CLIENT_SRC))
PRELOAD_OBJ := $(call obj,$(PRELOAD_SRC))
DAEMON_OBJ := $(call obj,$(DAEMON_SRC))
MPI_OBJ := $(call obj,$(MPI_SRC))
PREPARE_OBJ := $(call obj,$(PREPARE_SRC))
# What makes and checks staged copies. Other parts of the daemon have names that fs-prepare has too.
STAGED_OBJ := $(addprefix $(O)/libfanstore/daemon/staging/,adopt.o copy.o dir.o reuse.o stage.o stamp.o)
NODES_OBJ := $(call obj,$(NODES_SRC)) $(filter-out $(O)/fs-prepare/main.o,$(PREPARE_OBJ))
LAUNCH_OBJ := $(call obj,$(LAUNCH_SRC))
FANSTORED_OBJ := $(call obj,$(FANSTORED_SRC))
STATIC_OBJ := $(call obj,$(STATIC_SRC))

# lz4 and zstd are linked statically with their symbols hidden: the training process may bring its own.
CODECS := -l:liblz4.a -l:libzstd.a
# Only fs-prepare reads archives.
ARCHIVE := -Wl,--as-needed -larchive
LIB := $(B)/lib/libfanstore.so
# The supervisor of static programs knows the registers and numbers of these processors only.
STATIC := $(if $(filter x86_64-% aarch64-%,$(shell $(CC) -dumpmachine)),fanstore-static)
BINS := $(addprefix $(B)/bin/,fs-prepare fs-launch fanstored fanstore-pack $(STATIC))
PYTHON := $(patsubst libfanstore/%,$(B)/share/fanstore/%,$(wildcard libfanstore/python/*.py))

.DEFAULT_GOAL := all
.PHONY: all lib clean install uninstall deb help
all: lib $(BINS) $(PYTHON)
lib: $(LIB)

$(LIB): $(COMMON_OBJ) $(CLIENT_OBJ) $(PRELOAD_OBJ) libfanstore/preload/exports.map
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -o $@ $(filter %.o,$^) $(LDFLAGS) -Wl,--version-script=libfanstore/preload/exports.map \
	  -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions -Wl,-z,now -Wl,-z,relro -Wl,--gc-sections -Wl,-soname,libfanstore.so $(CODECS) -Wl,--no-as-needed -l:libdl.so.2

$(B)/share/fanstore/%: libfanstore/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

$(B)/bin/fs-prepare: $(PREPARE_OBJ) $(COMMON_OBJ)
$(B)/bin/fs-prepare: LDLIBS += $(ARCHIVE)
$(B)/bin/fs-launch: $(LAUNCH_OBJ) $(COMMON_OBJ)
$(B)/bin/fanstore-static: $(STATIC_OBJ) $(CLIENT_OBJ) $(COMMON_OBJ)
$(B)/bin/fs-prepare $(B)/bin/fs-launch $(B)/bin/fanstore-static:
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDFLAGS) -Wl,--gc-sections $(CODECS) $(LDLIBS) -ldl -pthread

$(B)/bin/fanstored: $(FANSTORED_OBJ) $(DAEMON_OBJ) $(MPI_OBJ) $(COMMON_OBJ)
$(B)/bin/fanstore-pack: $(NODES_OBJ) $(STAGED_OBJ) $(MPI_OBJ) $(COMMON_OBJ)
$(B)/bin/fanstore-pack: LDLIBS += $(ARCHIVE)
$(B)/bin/fanstored $(B)/bin/fanstore-pack:
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(MPICC) $(CFLAGS) -o $@ $^ $(LDFLAGS) -Wl,--gc-sections $(CODECS) $(LDLIBS) -ldl -pthread

$(O)/libfanstore/daemon/mpi/%.o: libfanstore/daemon/mpi/%.c
	$(say) MPICC $<
	@mkdir -p $(@D)
	$(Q)$(MPICC) $(CFLAGS) $(BASE_CFLAGS) -c -o $@ $<
$(O)/%.o: %.c
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(BASE_CFLAGS) -c -o $@ $<
$(O)/fs-launch/pagetext.o: fs-launch/report.html fs-launch/report.js
$(O)/%.o: %.S
	$(say) AS $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Iinclude -Ilibfanstore -c -o $@ $<

clean: ## remove build/
	$(Q)rm -rf build

VERSION := $(shell sed -n 's/^.define FS_VERSION "\(.*\)"/\1/p' libfanstore/util/util.h)
MAN := $(wildcard docs/*.1)
# All that `make install` makes: `uninstall` removes it. fs-launch looks for the library in lib, lib64 and lib/fanstore.
LIBDIR ?= $(PREFIX)/lib
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
LIBDIRS := $(addprefix $(PREFIX)/,lib lib64 lib/fanstore)
TO := $(DESTDIR)$(PREFIX)
COMPLETIONS := $(TO)/share/bash-completion/completions
MODULES := $(TO)/share/fanstore/modulefiles/fanstore
INSTALLED = $(addprefix $(TO)/bin/,$(notdir $(BINS))) $(DESTDIR)$(LIBDIR)/libfanstore.so \
  $(DESTDIR)$(PKGCONFIGDIR)/fanstore.pc $(TO)/include/fanstore $(TO)/share/fanstore \
  $(addprefix $(TO)/share/man/man1/,$(notdir $(MAN))) $(TO)/share/doc/fanstore $(addprefix $(COMPLETIONS)/,fs-launch fs-prepare)

install: all ## into DESTDIR, PREFIX and LIBDIR, with manual pages, documents and completion
	$(if $(filter $(LIBDIRS),$(LIBDIR)),,$(error LIBDIR=$(LIBDIR): fs-launch looks for the library in $(LIBDIRS) only))
	$(Q)install -d $(addprefix $(TO)/,bin include/fanstore share/man/man1 share/fanstore/python) $(MODULES) $(COMPLETIONS) \
	  $(DESTDIR)$(LIBDIR) $(DESTDIR)$(PKGCONFIGDIR) $(TO)/share/doc/fanstore/docs/internals $(TO)/share/doc/fanstore/docs/howto
	$(Q)install $(BINS) $(TO)/bin
	$(Q)install -m 644 $(LIB) $(DESTDIR)$(LIBDIR)
	$(Q)install -m 644 include/fanstore/*.h $(TO)/include/fanstore
	$(Q)install -m 644 $(PYTHON) $(TO)/share/fanstore/python
	$(Q)install -m 644 $(MAN) $(TO)/share/man/man1
	$(Q)install -m 644 README.md CHANGELOG.md LICENSE $(TO)/share/doc/fanstore
	$(Q)install -m 644 docs/*.md $(TO)/share/doc/fanstore/docs
	$(Q)install -m 644 docs/internals/*.md $(TO)/share/doc/fanstore/docs/internals
	$(Q)install -m 644 docs/howto/*.md $(TO)/share/doc/fanstore/docs/howto
	$(Q)cp -r docs/deploy docs/examples $(TO)/share/doc/fanstore/docs && chmod -R u=rwX,go=rX $(TO)/share/doc/fanstore
	$(Q)umask 022; for m in fanstore fanstore.lua; do sed 's|@PREFIX@|$(PREFIX)|; s|@PKGCONFIGDIR@|$(PKGCONFIGDIR)|' docs/deploy/modulefile/$$m \
	  >$(MODULES)/$(VERSION)$${m#fanstore}; done
	$(Q)install -m 644 fs-launch/completion.bash $(COMPLETIONS)/fs-launch
	$(Q)ln -sf fs-launch $(COMPLETIONS)/fs-prepare
	$(Q)umask 022; printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(if $(filter $(PREFIX)/%,$(LIBDIR)),$${prefix}/$(LIBDIR:$(PREFIX)/%=%),$(LIBDIR))' \
	  'includedir=$${prefix}/include' 'Name: FanStore' \
	  'Description: transient distributed file system for deep learning' 'Version: $(VERSION)' \
	  'preload=$${libdir}/libfanstore.so' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lfanstore' \
	  >$(DESTDIR)$(PKGCONFIGDIR)/fanstore.pc
uninstall: ## remove what install has made with the same DESTDIR, PREFIX and LIBDIR
	$(Q)rm -rf $(INSTALLED)

# The package is of what is built, also by another compiler or with other CFLAGS. Its date is that of the changelog.
DEB := build/deb
DEB_MAINTAINER ?= $(or $(DEBFULLNAME),FanStore) <$(or $(DEBEMAIL),fanstore@$(shell hostname -f))>
deb: all ## a Debian package in build/deb (needs debhelper); DEBFULLNAME and DEBEMAIL name the maintainer
	$(Q)command -v dh >/dev/null || { echo "make deb needs debhelper: apt-get install debhelper" >&2; exit 1; }
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB) && cp -r docs/deploy/deb $(DEB)/debian
	$(Q)printf '%s\n' 'fanstore ($(VERSION)-1) UNRELEASED; urgency=medium' '' '  * See CHANGELOG.md.' '' \
	  ' -- $(DEB_MAINTAINER)  '"$$(date -u -R -r CHANGELOG.md)" >$(DEB)/debian/changelog
	$(Q)sed 's/^$$/./; s/^/ /' LICENSE | tail -n +5 >$(DEB)/license
	$(Q)sed -i 's/@MAINTAINER@/$(DEB_MAINTAINER)/' $(DEB)/debian/control
	$(Q)sed -n '/^ THIS/,$$p' $(DEB)/license >$(DEB)/disclaimer
	$(Q)sed -i -e '/@BSD-3-Clause@/{r $(DEB)/license' -e 'd}' -e '/@DISCLAIMER@/{r $(DEB)/disclaimer' -e 'd}' $(DEB)/debian/copyright
	$(Q)cd $(DEB) && DEB_RULES_REQUIRES_ROOT=no TOP=$(CURDIR) debian/rules binary $(if $(V),,>log 2>&1 || { tail -n 20 log; exit 1; })
	$(Q)ls $(DEB)/*.deb

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' Makefile tests/tests.mk bench/bench.mk 2>/dev/null | sed 's/:.*## /\t/' | expand -t 14

-include tests/tests.mk
-include bench/bench.mk
-include $(shell find $(O) -name '*.d' 2>/dev/null)
