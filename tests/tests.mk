# SPDX-License-Identifier: BSD-3-Clause
# The tests. A unit test is tests/unit/test_MODULE.c, linked with whatever it needs of the libraries below; the others
# are scripts tests/KIND/*.sh (tests/README.md). All go through tests/run.sh. A script with a line "# slow" is left to
# `make check-slow` and .ci/run. So is one half of a script with a line "# rest: WHAT" (half in functions.sh).

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
# Tests at once: two for each processor, up to eight, and half as many beside them that sleep and say "# waits". Every test
# has a TMPDIR and mounts of its own; what measures says "# alone: WHY".
AT_ONCE ?= $(shell n=$$((2 * $(JOBS))); echo $$((n < 8 ? n : 8)))
# Three of scripts that start jobs: with two a quarter of the processors' time is left.
JOBS_AT_ONCE ?= $(shell n=$$((3 * $(JOBS))); echo $$((n < 8 ? n : 8)))
RUN := tests/run.sh
SUB := $(MAKE) $(if $(V),,-s) --no-print-directory -j$(JOBS)

UNIT_SRC := $(wildcard tests/unit/test_*.c)
UNIT_BIN := $(UNIT_SRC:tests/%.c=$(B)/tests/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN := $(FUZZ_SRC:tests/%.c=$(B)/tests/%)
HELPER_SRC := $(wildcard tests/helpers/*.c)
HELPER_BIN := $(HELPER_SRC:tests/%.c=$(B)/tests/%)

KINDS := prepare posix doctor static mpi fault
scripts = $(filter-out $(SLOW),$(sort $(wildcard tests/$(1)/*.sh)))
REST := $(shell grep -l '^\# rest: ' $(KINDS:%=tests/%/*.sh) | sort)
SLOW := $(shell grep -lx '\# slow' $(KINDS:%=tests/%/*.sh) tests/lint/*.sh tests/deploy/*.sh 2>/dev/null | sort)
LINT_FAST := $(wildcard $(addprefix tests/lint/,layers.sh spdx.sh size.sh words.sh symbols.sh libc.sh man.sh messages.sh))
LINT_TOOLS := $(wildcard $(addprefix tests/lint/,format.sh shell.sh cppcheck.sh tidy.sh))

# Archives, so that a test pulls in only what it uses. Objects of one name in two directories are both kept (ar q).
test_lib = $(O)/libtest-$(1).a
TEST_LIBS := $(foreach l,common client daemon launch nodes prepare preload,$(call test_lib,$(l)))
$(call test_lib,common): $(COMMON_OBJ)
$(call test_lib,client): $(CLIENT_OBJ)
$(call test_lib,daemon): $(DAEMON_OBJ)
$(call test_lib,launch): $(filter-out %/main.o,$(LAUNCH_OBJ))
$(call test_lib,prepare): $(filter-out %/main.o,$(PREPARE_OBJ))
$(call test_lib,preload): $(PRELOAD_OBJ)
$(call test_lib,nodes): $(filter-out %/main.o,$(NODES_OBJ)) $(STAGED_OBJ)
$(TEST_LIBS):
	@rm -f $@; mkdir -p $(@D)
	$(Q)ar qcsD $@ $^
lib_common := common
lib_client := client common
lib_daemon := daemon common
lib_launch := launch common
lib_prepare := prepare common
lib_nodes := nodes common
lib_preload := preload client common
lib_channel := daemon client common
# test_daemon_* and fuzz_daemon link the daemon's parts, *_launch_*, test_placement and fuzz_elf and fuzz_live fs-launch's,
# test_prepare_* fs-prepare's, *_nodes_* those of its pack over nodes, test_preload_* the wrappers, test_channel_* daemon
# and client; all others the client and what is below it.
test_kind = $(or $(findstring channel_,$(1)),$(findstring nodes_,$(1)),$(findstring daemon_,$(patsubst %fuzz_daemon,daemon_,$(1))),$(findstring launch_,$(1)),$(findstring prepare_,$(1)),$(findstring preload_,$(1)),$(if \
  $(or $(findstring placement,$(1)),$(filter fuzz_elf% fuzz_live%,$(1))),launch_),client_)
test_links = $(foreach l,$(lib_$(patsubst %_,%,$(call test_kind,$(1)))),$(call test_lib,$(l)))

# The tests themselves, and fuzz targets that are not linked: gcc takes a third of the time without optimisation. But those of
# the name service are simulations, and run for seconds.
SIMULATED := $(wildcard tests/unit/test_daemon_ns*.c)
UNOPTIMISED := $(if $(filter thread,$(SAN)),,$(filter-out $(SIMULATED),$(UNIT_SRC)) tests/unit/channel_client.c) $(if $(SAN),,$(FUZZ_SRC))
$(UNOPTIMISED:%.c=$(O)/%.o): CFLAGS += -O0
$(SIMULATED:%.c=$(O)/%.o): CFLAGS += -O1

.SECONDEXPANSION:
$(UNIT_BIN): $(B)/tests/%: $(O)/tests/%.o $$(call test_links,$$(notdir $$*))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDFLAGS) \
	  -Wl,--gc-sections $(CODECS) -lcmocka $(ARCHIVE) -ldl -pthread
$(B)/tests/unit/test_channel_stress: $(O)/tests/unit/channel_client.o
$(FUZZ_BIN): $(B)/tests/%: $(O)/tests/%.o $$(call test_links,$$(notdir $$*))
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LDFLAGS) \
	  -fsanitize=fuzzer $(CODECS) -lcmocka $(ARCHIVE) -ldl -pthread
$(HELPER_BIN): $(B)/tests/%: $(O)/tests/%.o $(call test_lib,common)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDFLAGS) -Wl,--gc-sections $(CODECS) -ldl -pthread

.PHONY: check check-load check-unit check-lint $(KINDS:%=check-%) check-fault-table check-systems check-processors check-deploy check-containers check-slow fuzz-afl fuzz-coverage model check-clients check-clients-valgrind \
  check-clients-asan check-bin lint asan tsan sanitized valgrind fuzz fuzz-bin compdb format demo example-report setup-check
.SECONDARY: $(UNIT_SRC:%.c=$(O)/%.o) $(FUZZ_SRC:%.c=$(O)/%.o)
# The fuzz targets are compiled only: linking them takes clang. Sanitizers get the unit tests.
check-bin: $(filter-out $(UNIT_SKIP),$(UNIT_BIN)) $(if $(SAN),,$(HELPER_BIN) $(FUZZ_SRC:%.c=$(O)/%.o) $(B)/bench/mdphases $(B)/bench/ioblocks)
setup-check:
	@tests/setup/packages.sh build check

check: setup-check ## install what is missing, build, and run all tests but the slow ones
	@$(SUB) all check-bin
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(JOBS_AT_ONCE) $(foreach kind,$(KINDS),$(call scripts,$(kind))) $(LINT_FAST) \
	  $(UNIT_BIN:$(B)/%=$(CURDIR)/$(B)/%)

check-unit: setup-check ## the unit tests alone (SAN= and WRAPPER= as in asan, valgrind)
	@$(SUB) check-bin
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) -w '$(WRAPPER)' -p '$(PREFIX_NAME)' $(filter-out $(UNIT_SKIP),$(UNIT_BIN))
$(KINDS:%=check-%): check-%: setup-check
	@$(SUB) all check-bin
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(JOBS_AT_ONCE) $(call scripts,$*)
check-prepare: ## fs-prepare
check-posix: ## the mount as programs see it
check-doctor: ## fs-launch doctor
check-static: ## programs that LD_PRELOAD does not reach
check-mpi: ## several nodes
check-fault: ## what dies, breaks or is filled up
check-load: setup-check ## twenty minutes of many processes; millions of files and opens, 100 GB
	@$(SUB) all check-bin
	@FS_BUILD=$(CURDIR)/$(B) LOAD_SECONDS=1200 LARGE=1 $(RUN) tests/mpi/load.sh tests/mpi/large.sh

check-fault-table: setup-check ## daemons, hosts, links, disks and clients that die, with every byte checked: one table
	@$(SUB) all check-bin
	@FS_BUILD=$(CURDIR)/$(B) tests/fault/table/run.sh $(FAULTS_ARGS)
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) tests/fault/table/bitflips_all.sh tests/fault/table/bitflips_large_all.sh

check-slow: setup-check ## the tests that take minutes or gigabytes
	@$(SUB) all check-bin
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(SLOW) $(foreach t,$(REST),'$(t:tests/%.sh=%)-rest=FS_HALF=rest bash $(t)')

# Programs on a directory and on its mount (tests/clients/harness.bash). CLIENTS="GROUP ..." chooses groups.
CLIENTS ?= $(notdir $(basename $(sort $(wildcard tests/clients/*.sh))))
CLIENTS_COUNTS := $(B)/clients.counts
check-clients: ## programs print on the mount what they print on the directory: compared, counted
	@tests/setup/packages.sh build check clients
	@$(SUB) all
	@rm -f $(CLIENTS_COUNTS)
	@FS_BUILD=$(CURDIR)/$(B) FS_CLIENTS_COUNTS=$(CURDIR)/$(CLIENTS_COUNTS) \
	  $(RUN) -j $(AT_ONCE) -t 900 $(CLIENTS:%=tests/clients/%.sh); status=$$?; \
	awk '{ c += $$1; n += $$2; d += $$3; k += $$4 } END { printf "clients: %d cases, %d comparisons, %d differences, " \
	  "%d known ones\n", c, n, d, k }' $(CLIENTS_COUNTS); exit $$status
# Cases of each group that between them call most of the library, and start few processes: each costs valgrind a second. Left
# out: Python, for its time, and programs that lie in the dataset, whose real copies (/proc/self/fd/N) valgrind cannot start.
CLIENTS_VALGRIND ?= list/(ls-lR|stat-all|find-execdir-many|test-r)$$|text/(each-md5sum|head-leaves-offset|grep-r)$$|$\
  copy/(cp-a|rsync-a|tar-cx|rm|redirections)$$|$\
  shell/(exec-5|exec-0|children-share-offset|globs|coproc|perl-fds|dash)$$|$\
  programs/(git-status|sqlite)$$
check-clients-valgrind: ## some of them under valgrind: no errors of memory in the library, no crashes
	@tests/setup/packages.sh build check clients ci
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) FS_CLIENTS_MODES=valgrind FS_CLIENTS_ONLY='$(CLIENTS_VALGRIND)' \
	  $(RUN) -j $(AT_ONCE) -t 1800 -p valgrind/ $(addprefix tests/clients/,$(addsuffix .sh,list text copy shell programs))
# Not these: with the sanitizer's run-time alone, without the library, curl (languages asks its servers by it) and gdb
# hang, and man's sandbox refuses. PyTorch takes too long.
check-clients-asan: ## almost all of them with a library under AddressSanitizer and UBSan
	@tests/setup/packages.sh build check clients
	@$(SUB) all
	@$(SUB) SAN=address,undefined lib
	@FS_BUILD=$(CURDIR)/$(B) FS_CLIENTS_MODES=asan FS_CLIENTS_EXCEPT='^programs/(curl|gdb.*|less-man)$$' \
	  FS_ASAN_LIB=$(CURDIR)/$(ASAN_B)/lib/libfanstore.so \
	  $(RUN) -j $(AT_ONCE) -t 900 -p asan/ $(patsubst %,tests/clients/%.sh,$(filter-out languages python_torch,$(CLIENTS)))

check-systems: ## Debian 11 and 13 in roots that are kept: builds, and programs with this library (as root)
	@tests/setup/packages.sh build check systems
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(call scripts,systems)

check-processors: ## builds for aarch64 and ppc64le, and tests of them under qemu; SHORT=1: a few
	@tests/setup/packages.sh build check processors
	@tests/processors/run.sh $(if $(SHORT),short)

check-deploy: ## the Debian package, modules, recipes for Spack and Ansible, Slurm's prolog and epilog (as root)
	@tests/setup/packages.sh build check systems deploy
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(call scripts,deploy)

check-containers: ## programs in Docker, Podman, Charliecloud and namespaces, with the host's daemons (as root)
	@tests/setup/packages.sh build check systems containers
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(call scripts,containers)

check-lint: setup-check
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(LINT_FAST)
lint: ## layers, sizes, symbols, format, shellcheck, cppcheck, clang-tidy
	@tests/setup/packages.sh build check ci
	@$(SUB) all
	@FS_BUILD=$(CURDIR)/$(B) $(RUN) -j $(AT_ONCE) $(LINT_FAST) $(LINT_TOOLS)

# The fuzzers run code that clang has instrumented: a build of its own.
FUZZ_SAN := fuzzer-no-link,address,undefined
# The programs under sanitizers, with a library that is not: the sanitizer's run-time would have to be loaded first.
ASAN_B := build/san-address-undefined
ASAN_PROGRAMS := $(addprefix $(ASAN_B)/bin/,fs-prepare fs-launch fanstored)
MIXED := build/asan-programs
ASAN_SCRIPTS := $(filter-out %/large.sh %/memory.sh,$(wildcard tests/prepare/*.sh)) \
  $(addprefix tests/,$(addsuffix .sh,mpi/exact mpi/launch_basic mpi/launch_errors mpi/launch_signals mpi/outputs fault/kill))
asan: ## unit tests and programs with AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory check-unit SAN=address,undefined PREFIX_NAME=asan/ \
	  WRAPPER='env ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1'
	@$(SUB) all $(HELPER_BIN)
	@$(SUB) SAN=address,undefined $(ASAN_PROGRAMS)
	@mkdir -p $(MIXED)/bin $(MIXED)/lib $(MIXED)/tests; cp $(ASAN_B)/bin/* $(MIXED)/bin; cp build/lib/libfanstore.so $(MIXED)/lib
	@cp -r $(B)/tests/helpers $(MIXED)/tests
	@ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  FS_KILLS=2 FS_BUILD=$(CURDIR)/$(MIXED) $(RUN) -j $(JOBS_AT_ONCE) -t 900 -p asan/ $(ASAN_SCRIPTS)
# A test in which nothing starts a thread has no races: ThreadSanitizer would say nothing of it. The usual build tells them.
THREADLESS := for t in $(UNIT_SRC:tests/%.c=tests/%); do nm build/$$t 2>/dev/null | \
  awk '/pthread_create/ { threads = 1 } END { exit NR == 0 || threads }' && echo build/san-thread/$$t; done | xargs
tsan: ## the unit tests that start threads, with ThreadSanitizer
	@$(SUB) $(UNIT_BIN)
	@$(MAKE) --no-print-directory check-unit SAN=thread PREFIX_NAME=tsan/ UNIT_SKIP="$$($(THREADLESS))" \
	  WRAPPER='setarch -R env TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1'
sanitized: ## build what asan, tsan, fuzz and check-clients-asan run
	@$(SUB) SAN=address,undefined lib check-bin $(ASAN_PROGRAMS)
	@$(SUB) $(UNIT_BIN)
	@$(SUB) SAN=thread check-bin UNIT_SKIP="$$($(THREADLESS))"
	@$(SUB) CC=clang SAN=$(FUZZ_SAN) fuzz-bin
# Not under valgrind: tests of limits and numbers of descriptors (valgrind has its own up there), of bad pointers, of
# deadlines, of system calls that valgrind does not know, and those that run themselves again.
# Nor for minutes what AddressSanitizer sees as well: random tests and races.
NOT_VALGRIND := test_fdtab test_files test_slot test_remote test_fdclaim test_daemon_ns test_daemon_ns_storm test_daemon_ns_dirs \
  test_codec test_preload_older test_daemon_shared_names test_daemon_peers
valgrind: ## unit tests under valgrind
	@tests/setup/packages.sh build check ci
	@$(MAKE) --no-print-directory check-unit PREFIX_NAME=valgrind/ UNIT_SKIP='$(NOT_VALGRIND:%=$(B)/tests/unit/%)' \
	  WRAPPER='valgrind -q --fair-sched=yes --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite'

fuzz-bin: $(FUZZ_BIN)
fuzz: ## every fuzz target for FUZZ_SECONDS each
	@tests/setup/packages.sh build check ci
	@$(SUB) all
	@$(SUB) CC=clang SAN=$(FUZZ_SAN) fuzz-bin
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FS_BUILD=$(CURDIR)/build $(RUN) -j $(AT_ONCE) -t $$(($(FUZZ_SECONDS) + 120)) \
	  $(foreach f,$(notdir $(FUZZ_SRC:.c=)),'fuzz/$(f)=tests/fuzz/run.sh $(f)')

fuzz-afl: ## the same by AFL++, with the same inputs
	@tests/setup/packages.sh build check ci afl
	@$(SUB) all
	@AFL_QUIET=1 $(SUB) CC=afl-clang-fast B=build/afl fuzz-bin
	@FUZZ_SECONDS=$(FUZZ_SECONDS) FS_BUILD=$(CURDIR)/build $(RUN) -t $$(($(FUZZ_SECONDS) + 300)) \
	  $(foreach f,$(notdir $(FUZZ_SRC:.c=)),'fuzz/afl_$(f:fuzz_%=%)=tests/fuzz/afl.sh $(f)')

fuzz-coverage: ## how much of what they are about the corpora of `make fuzz` reach
	@tests/setup/packages.sh build check ci
	@$(SUB) CC=clang SAN=fuzzer-no-link B=build/coverage fuzz-bin \
	  CFLAGS='-O1 -g -fprofile-instr-generate -fcoverage-mapping'
	@tests/fuzz/coverage.sh build/coverage/tests/fuzz

model: ## model checking of the protocols in shared memory, and of the same with faults in them
	@tests/setup/packages.sh ci
	@$(RUN) -j $(AT_ONCE) -t 1500 $(foreach m,$(notdir $(basename $(filter-out %/memory.pml,$(wildcard tests/model/*.pml)))),'model/$(m)=tests/model/run.sh tests/model/$(m).pml')

ALL_C = $(COMMON_SRC) $(CLIENT_SRC) $(filter %.c,$(PRELOAD_SRC)) $(DAEMON_SRC) $(MPI_SRC) $(PREPARE_SRC) $(NODES_SRC) \
  $(LAUNCH_SRC) $(FANSTORED_SRC) $(STATIC_SRC) $(UNIT_SRC) tests/unit/channel_client.c $(FUZZ_SRC) $(HELPER_SRC) $(wildcard bench/*.c)
ALL_H = $(wildcard include/fanstore/*.h libfanstore/*/*.h libfanstore/*/*/*.h fs-prepare/*.h fs-prepare/*/*.h fs-launch/*.h fs-launch/*/*.h tests/unit/*.h)
compdb: ## compile_commands.json for editors and clang-tidy
	@{ echo '['; first=1; for f in $(ALL_C); do [ -n "$$first" ] || echo ','; first=; \
	  printf '{"directory": "%s", "file": "%s", "arguments": ["clang"%s, "-c", "%s"]}' '$(CURDIR)' "$$f" \
	    "$$(printf ', "%s"' $(filter-out -fno-semantic-interposition -MMD -MP,$(BASE_CFLAGS)) \
	      $$($(MPICC) --showme:compile 2>/dev/null))" "$$f"; done; echo; echo ']'; } >compile_commands.json
format: ## clang-format on all sources
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

example-report: ## make docs/examples/report.html anew (two minutes)
	@$(SUB) all
	@tests/demo/report.sh

demo: ## train from two emulated nodes and from the plain directory: same losses, and where the reads came from
	@tests/setup/packages.sh build demo
	@$(SUB) all
	@tests/demo/run.sh $(DEMO_ARGS)
