// SPDX-License-Identifier: GPL-2.0
// vm: --mem 640M --cpus 2

//! `compat=1`: rzram under zram's names, and zram's own clients and tests on it.

mod clients;
mod names;
mod selftests;
