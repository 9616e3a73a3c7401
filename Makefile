# A thin front to CMake: what a newcomer types. Everything else is CMake's (see docs/building.md).
#
#   make            builds into build/
#   make demo       installs what is missing, builds, and settles the orders of examples/settlement
#                   (STORE=redis://localhost: with its locks there, instead of in a file of its own;
#                   STORE=mysql://user@host/database or postgresql://...: locks and orders there)
#   make test       installs what the tests need, builds, and runs all tests
#   make bench      builds and runs the benchmarks (BENCH=--full: those of minutes too; BENCH=sqlite: one of them)
#   make bench-redis  the same for the Redis store, on servers that it starts (BENCH=--full, BENCH=pair)
#   make install    [PREFIX=/usr/local] [DESTDIR=...]
#   make deb        builds Debian packages into build/deb/
#   make clean      removes build/
#
# BUILD=<folder>, JOBS=<n>, TEST_JOBS=<n> and CONFIGURE=<options for cmake> change what they say.
BUILD     ?= build
JOBS      ?= $(shell nproc)
# Most tests sleep most of the time: they wait for leases to end.
TEST_JOBS ?= $(shell expr 3 '*' $$(nproc))
PREFIX    ?= /usr/local
CONFIGURE ?=
STORE     ?=

# The build is a make of its own: what this one tells its children must not leak into it.
run_build = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build $(BUILD) -j $(JOBS)
configure = cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CONFIGURE)
step      = @printf '\n==> %s\n'

.PHONY: all demo test bench bench-redis install deb clean

all:
	$(step) "configure $(BUILD)/"
	@$(configure) -DHF_TESTS=OFF -DHF_BENCH=OFF
	$(step) "build"
	@$(run_build)

demo:
	$(step) "packages"
	@scripts/install-packages build
	@$(MAKE) --no-print-directory all
	$(step) "demo: order settlement, locks $(if $(STORE),in the store of STORE,in the embedded store)"
	@$(BUILD)/examples/settlement/settlement demo $(if $(STORE),--store '$(STORE)')

test:
	$(step) "packages"
	@scripts/install-packages test
	$(step) "configure $(BUILD)/"
	@$(configure) -DHF_TESTS=ON -DHF_BENCH=ON
	$(step) "build"
	@$(run_build)
	$(step) "test"
	@ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure --no-tests=error --no-label-summary \
	    -O $(BUILD)/ctest.log

bench bench-redis:
	$(step) "packages"
	@scripts/install-packages $(if $(filter bench-redis,$@),test,build)
	$(step) "configure $(BUILD)/"
	@$(configure) -DHF_BENCH=ON
	$(step) "build"
	@$(run_build)
	$(step) "bench"
	@$(BUILD)/bench/$@ --folder $(BUILD) $(BENCH)

install: all
	$(step) "install"
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)

deb:
	$(step) "packages"
	@scripts/install-packages deb
	$(step) "build the Debian packages in $(BUILD)/deb/"
	@JOBS=$(JOBS) scripts/make-deb $(BUILD)

clean:
	rm -rf $(BUILD)
