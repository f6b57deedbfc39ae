# SPDX-License-Identifier: GPL-2.0
#
# What people call; the kernel's build system reads the Kbuild file beside it. Everything that needs more than a line is
# done by tools/build (which kernel, which toolchain) and tools/xtask (all else, inside a build root of its own).

MAKEFLAGS += --no-print-directory
xtask := tools/bootstrap xtask --

.PHONY: all module install modules_install demo check check-debug bench soak fuzz clippy fmt fmt-check doc rust-analyzer update-kernel clean distclean help

all: module

module:
	@KDIR='$(KDIR)' tools/build $(if $(LOCKING_LAB),modules LOCKING_LAB=1)

install modules_install:
	@DESTDIR='$(DESTDIR)' tools/build --install

demo:
	@$(xtask) demo

check:
	@$(xtask) check $(if $(ONLY),--only '$(ONLY)')

check-debug:
	@$(xtask) check --kernel debug $(if $(ONLY),--only '$(ONLY)') $(if $(WITHIN),--within '$(WITHIN)')

soak:
	@$(xtask) soak $(if $(OPERATIONS),--operations '$(OPERATIONS)') $(if $(SEED),--seed '$(SEED)')

fuzz:
	@$(xtask) fuzz $(if $(RUNS),--runs '$(RUNS)') $(if $(ONLY),--only '$(ONLY)')

bench:
	@tools/bench $(if $(ONLY),--only '$(ONLY)') $(if $(OUT),--out '$(OUT)')

clippy:
	@$(xtask) clippy

fmt:
	@$(xtask) fmt

fmt-check:
	@$(xtask) fmt --check

doc:
	@$(xtask) doc

rust-analyzer:
	@KDIR='$(KDIR)' tools/build rust-analyzer

update-kernel:
	@$(xtask) kernel --update

clean:
	@rm -f *.ko *.o *.mod *.mod.c .*.cmd .*.d .module-common.o Module.symvers modules.order rzram_bindings.rs rust-project.json

distclean: clean
	@tools/bootstrap distclean $(if $(YES),--yes)

help:
	@echo 'make                    build rzram.ko: for the running kernel where that is possible, else for the guest'"'"'s'
	@echo 'make LOCKING_LAB=1      build it for comparing ways to lock its table, chosen by a parameter; not for use'
	@echo 'make KDIR=DIR           build it for the kernel build tree DIR, which has to carry Rust support'
	@echo 'make install            install the rzram.ko that was built into /lib/modules (DESTDIR=DIR: below DIR)'
	@echo 'make demo               set everything up and show in a guest what rzram does'
	@echo 'make check              set everything up and run all tests (ONLY=TEXT: those with TEXT in their name;'
	@echo '                        ONLY="TEXT|TEXT": with one of these)'
	@echo 'make check-debug        run the tests in guests with a debug kernel, which is built first (ONLY=TEXT as above,'
	@echo '                        WITHIN=MINUTES: begin nothing more after these)'
	@echo 'make soak               do a million random things and compare with a model (OPERATIONS=N, SEED=N)'
	@echo 'make fuzz               give the codec ten million inputs that a fuzzer finds worth trying (RUNS=N, ONLY=decode or encode)'
	@echo 'make bench              measure rzram beside C zram: tables and plots (ONLY=TEXT: sets with TEXT in their name, OUT=DIR)'
	@echo 'make clippy             lint the module and the tools'
	@echo 'make fmt, fmt-check     format them, or say where they are not formatted'
	@echo 'make doc                write the documentation of the sources'
	@echo 'make rust-analyzer      write rust-project.json for editors'
	@echo 'make update-kernel      use the newest kernel of the archive from now on'
	@echo 'make clean              remove what a build left in the tree'
	@echo 'make distclean          remove everything that was set up, after asking (YES=1: without)'
	@echo 'tools/vm -- COMMAND     run COMMAND in a guest that has rzram.ko at hand; see tools/README.md'
