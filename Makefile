# Counterfoil. `make` builds, `make test` tests, `make demo` shows it, `make check` is what CI runs.

BUILD   ?= build
SAN     ?=
CRASH   ?=
CC      ?= cc
AR      ?= ar
PYTHON  ?= /usr/bin/python3
PACKAGES = libpq rdkafka libcurl libconfig libevent libxxhash libcrypto yajl ncursesw

ifdef SAN
override BUILD := $(BUILD)/asan
# -w: the plain build has the warnings; the branches that sanitizers add raise false ones
OPT      = -w -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else
OPT      = -O2
endif

# CRASH=1: the programs kill themselves where a test asks for it (include/crash.h). What has no such
# place is the same object in both builds.
USUAL   := $(BUILD)
ifdef CRASH
override BUILD := $(BUILD)/crash
CRASHING := common/crash.c $(shell grep -rl --include='*.c' '"crash\.h"' common relay ledger tui)
$(BUILD)/obj/%.o: CPPFLAGS += -DCOUNTERFOIL_CRASH_POINTS
else
LEFT_OUT = common/crash.c
endif

WARN     = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wcast-qual -Wwrite-strings -Wformat=2 -Wundef -Wvla -Wimplicit-fallthrough \
	-Wnull-dereference -Wconversion
ifneq ($(findstring clang,$(shell $(CC) --version 2>/dev/null | head -n 1)),clang)
WARN    += -Wlogical-op -Wduplicated-cond
endif
CPPFLAGS += -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -Iinclude -I$(USUAL) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CFLAGS   += -std=gnu17 -g $(WARN) $(OPT) -fstack-protector-strong
LDLIBS   += $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -lpthread

# On all cores, unless make was told how many.
IN_PARALLEL = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

# V=1 shows the commands
Q        = $(if $(V),,@)
say      = $(if $(V),,@echo '  $(1)')

PROGRAMS = $(BUILD)/counterfoil-relay $(BUILD)/counterfoil-ledger $(BUILD)/counterfoil
PARTS    = common relay ledger tui

sources  = $(sort $(wildcard $(1)/*.c $(1)/*/*.c))
object   = $(if $(filter $(1),$(CRASHING)),$(BUILD),$(USUAL))/obj/$(1:.c=.o)
objects  = $(foreach source,$(1),$(call object,$(source)))
library  = $(BUILD)/lib$(1).a

UNIT_SOURCES = $(sort $(wildcard tests/unit/*/test_*.c))
UNIT_TESTS   = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT_SOURCES))
TOOL_SOURCES = $(sort $(wildcard tests/tools/*.c))
PRELOADED    = tests/tools/wrong-clock tests/tools/no-fsync
TOOLS        = $(patsubst %.c,$(BUILD)/%,$(filter-out $(PRELOADED:=.c),$(TOOL_SOURCES))) $(PRELOADED:%=$(BUILD)/%.so)
BENCH_SOURCES = $(sort $(wildcard tests/bench/*.c))
BENCH_TOOLS  = $(patsubst tests/bench/%.c,$(BUILD)/tests/bench/%,$(BENCH_SOURCES))
C_FILES      = $(foreach part,$(PARTS),$(call sources,$(part))) $(UNIT_SOURCES) $(TOOL_SOURCES) $(BENCH_SOURCES)
H_FILES      = $(wildcard include/*.h $(foreach part,$(PARTS),$(part)/*.h $(part)/*/*.h) tests/unit/*/*.h tests/tools/*.h tests/bench/*.h)
SCREEN_PROGRAM = $(BUILD)/tests/tools/counterfoil-screens
MIGRATIONS   = $(sort $(wildcard conf/migrations/*.sql))

.PHONY: all programs tools unit-tests deps demo bench test unit integration screens check gates format format-check \
	lint checks valgrind coverage clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: deps ## build the three programs, after getting what that needs
	@+$(IN_PARALLEL) programs
programs: $(PROGRAMS)
tools: $(TOOLS) $(SCREEN_PROGRAM)
unit-tests: $(UNIT_TESTS)

help:
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile

# --- build -----------------------------------------------------------------------------------------

deps:
	@tests/tools/deps build

define compile
@mkdir -p $(@D)
$(call say,cc   $<)
$(Q)$(CC) $(CPPFLAGS) -I$(firstword $(subst /, ,$<)) $(CFLAGS) -MMD -MP -c -o $@ $<
endef
$(BUILD)/obj/%.o: %.c
	$(compile)
ifneq ($(BUILD),$(USUAL))
$(USUAL)/obj/%.o: %.c
	$(compile)
endif

define part_library
$(call library,$(1)): $(call objects,$(filter-out $(1)/main.c $(LEFT_OUT),$(call sources,$(1))))
	@rm -f $$@
	$$(Q)$(AR) rcs $$@ $$^
endef
$(foreach part,$(PARTS),$(eval $(call part_library,$(part))))

# The migrations travel inside the console.
$(USUAL)/migrations.h: $(MIGRATIONS) tests/tools/embed-migrations
	@mkdir -p $(@D)
	$(Q)tests/tools/embed-migrations $(MIGRATIONS) >$@
$(call objects,$(call sources,tui)): | $(USUAL)/migrations.h
$(USUAL)/obj/tui/commands/migrate.o: $(USUAL)/migrations.h

define program
$(BUILD)/$(1): $(call objects,$(2)/main.c) $(call library,$(2)) $(call library,common)
	$$(call say,link $$@)
	$$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $$@ $$^ $(LDLIBS)
endef
$(eval $(call program,counterfoil-relay,relay))
$(eval $(call program,counterfoil-ledger,ledger))
$(eval $(call program,counterfoil,tui))

# The console as the tests of its screens drive it: with the hooks of tui/terminal/testing.c.
$(BUILD)/obj/tests/testing.o: tui/terminal/testing.c
	@mkdir -p $(@D)
	$(call say,cc   $< for the screens)
	$(Q)$(CC) $(CPPFLAGS) -Itui -DCOUNTERFOIL_SCREEN_TEST $(CFLAGS) -MMD -MP -c -o $@ $<
$(SCREEN_PROGRAM): $(BUILD)/obj/tui/main.o $(BUILD)/obj/tests/testing.o $(call library,tui) $(call library,common)
	@mkdir -p $(@D)
	$(call say,link $@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# tests/unit/PART/test_x.c is linked with PART and common.
define unit_part
$(BUILD)/tests/unit/$(1)/%: tests/unit/$(1)/%.c $(call library,$(1)) $(call library,common)
	@mkdir -p $$(@D)
	$$(call say,test $$<)
	$$(Q)$(CC) $(CPPFLAGS) -I$(1) -Itests/unit $(CFLAGS) $(LDFLAGS) -MMD -MP -o $$@ $$< $(call library,$(1)) \
		$(call library,common) $(LDLIBS) -lcmocka
endef
$(foreach part,$(PARTS),$(eval $(call unit_part,$(part))))

$(BUILD)/tests/tools/%: tests/tools/%.c
	@mkdir -p $(@D)
	$(call say,tool $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(LDLIBS)

# Preloaded into programs as they are shipped: without sanitizers.
$(PRELOADED:%=$(BUILD)/%.so): $(BUILD)/%.so: %.c
	@mkdir -p $(@D)
	$(call say,tool $<)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fsanitize%,$(CFLAGS)) -fPIC -shared $(LDFLAGS) -o $@ $<

$(BUILD)/tests/bench/%: tests/bench/%.c $(call library,relay) $(call library,ledger) $(call library,common)
	@mkdir -p $(@D)
	$(call say,tool $<)
	$(Q)$(CC) $(CPPFLAGS) -Irelay -Iledger $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(call library,relay) \
		$(call library,ledger) $(call library,common) $(LDLIBS)

-include $(shell find $(USUAL) -name '*.d' 2>/dev/null)

compile_commands.json: Makefile $(C_FILES)
	@{ echo '['; n=; for f in $(C_FILES); do \
		case $$f in tests/unit/*) d=$${f#tests/unit/}; i=" -I$${d%%/*} -Itests/unit";; \
			tests/bench/*) i=" -Irelay -Iledger";; *) i=" -I$${f%%/*}";; esac; \
		printf '%s{"directory":"%s","file":"%s","command":"cc %s%s %s -c %s"}\n' \
		"$$n" "$(CURDIR)" "$$f" "$(CPPFLAGS)" "$$i" "-std=gnu17 $(filter-out -Wlogical-op -Wduplicated-cond,$(WARN))" "$$f"; \
		n=,; done; echo ']'; } >$@

# --- the demo --------------------------------------------------------------------------------------

SEED ?= 42
demo: ## the whole way, with things killed; SEED=7 KEEP=1 KAFKA=real
	@tests/tools/deps $(if $(KAFKA),kafka,demo)
	@SEED=$(SEED) KAFKA=$(KAFKA) $(PYTHON) -B -m tests.demo

# --- benches ---------------------------------------------------------------------------------------

# ONLY=relay|ledger, or a part: ledger_rate, ledger_rival, ledger_memory, ledger_growth; ROWS=20000, or
# BENCH_SCALE=0.02, for a quick look; BENCH_ROUNDS=3. Writes $(BUILD)/bench.tsv.
bench: ## measure; ONLY=relay or ONLY=ledger
	@tests/tools/deps demo
	@+$(IN_PARALLEL) programs tools $(BENCH_TOOLS)
	@BUILD=$(BUILD) ONLY=$(ONLY) $(PYTHON) -B -m tests.bench

# --- tests -----------------------------------------------------------------------------------------

test: ## unit tests, integration, screens
	@tests/tools/deps test
	@+$(IN_PARALLEL) programs tools unit-tests
	@+$(IN_PARALLEL) CRASH=1 programs
	@BUILD=$(BUILD) tests/run unit integration screens

unit: ## the unit tests; SAN=1 with sanitizers
	@+$(IN_PARALLEL) unit-tests
	@BUILD=$(BUILD) tests/run unit

integration: ## the programs against real servers
	@+$(IN_PARALLEL) programs tools
	@+$(IN_PARALLEL) CRASH=1 programs
	@BUILD=$(BUILD) tests/run integration

screens: ## the console through a terminal
	@+$(IN_PARALLEL) programs tools
	@BUILD=$(BUILD) tests/run screens

# The gates, then everything that `make test` runs, and the same under the sanitizers and valgrind.
check: ## the gates and every test, what CI runs
	@tests/tools/deps check
	@$(MAKE) --no-print-directory gates
	@+$(IN_PARALLEL) programs tools unit-tests
	@+$(IN_PARALLEL) CRASH=1 programs
	@+$(IN_PARALLEL) SAN=1 programs tools unit-tests
	@+$(IN_PARALLEL) SAN=1 CRASH=1 programs
	@BUILD=$(BUILD) tests/run unit unit-valgrind unit-san integration integration-san screens

gates: format-check checks lint

format: ## lay out all C code
	clang-format -i $(C_FILES) $(H_FILES)
format-check:
	@clang-format --dry-run -Werror $(C_FILES) $(H_FILES)
checks:
	@tests/checks/run

LINT_FLAGS = --quiet --warnings-as-errors='*'
lint: $(USUAL)/migrations.h compile_commands.json
	@cppcheck -j 2 --quiet --error-exitcode=1 --inline-suppr --std=c11 --enable=warning,performance,portability \
		--suppress=missingIncludeSystem -Iinclude -Icommon -I$(BUILD) $(PARTS)
	@printf '%s\n' $(filter-out tests/%,$(C_FILES)) | xargs -P 2 -n 4 sh -c \
		'for f; do $(CC) $(CPPFLAGS) -I$${f%%/*} -std=gnu17 -O1 -w -fanalyzer -Werror -c -o /dev/null $$f || exit 255; done' _
	@printf '%s\n' $(C_FILES) | xargs -P 2 -n 8 clang-tidy -p . $(LINT_FLAGS) 2>/dev/null

clean: ## remove build/
	rm -rf build compile_commands.json
