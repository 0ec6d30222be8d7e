# SPDX-License-Identifier: BSD-3-Clause
# The benchmarks (bench/README.md).

BENCH_SRC := $(filter-out bench/slowdir.c,$(wildcard bench/*.c)) # that is preloaded: checkpoint.sh makes it
BENCH_MPI := $(addprefix $(B)/bench/,limit_mpi limit_relay limit_ahead mdphases ioblocks)
BENCH_BIN := $(filter-out $(BENCH_MPI),$(BENCH_SRC:%.c=$(B)/%))
BENCH_ARGS ?=

$(BENCH_BIN): $(B)/%: $(O)/%.o
	$(say) LINK $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LDFLAGS) $(CODECS) -ldl -pthread

$(B)/bench/codecs $(B)/bench/limit_pack $(B)/bench/limit_index $(B)/bench/hitratio: $(COMMON_OBJ)

$(BENCH_MPI): $(B)/%: %.c bench/common.h bench/mpicommon.h
	$(say) MPICC $@
	@mkdir -p $(@D)
	$(Q)$(MPICC) $(CFLAGS) $(BASE_CFLAGS) -o $@ $< $(LDFLAGS)

.PHONY: bench bench-bin bench-overhead
bench-bin: $(BENCH_BIN) $(BENCH_MPI)
bench: ## FanStore next to other file systems, in turns: a table, JSON and plots (BENCH_ARGS=--quick; --list)
	@tests/setup/packages.sh build bench
	@$(SUB) all bench-bin
	@/usr/bin/python3 bench/run.py $(BENCH_ARGS)
bench-overhead: ## what the library costs other calls, and programs at their start (BENCH_ARGS=--quick)
	@tests/setup/packages.sh build bench
	@$(SUB) all bench-bin
	@/usr/bin/python3 bench/overhead.py $(BENCH_ARGS)
