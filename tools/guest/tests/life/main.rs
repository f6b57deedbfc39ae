// SPDX-License-Identifier: GPL-2.0
// vm: --mem 2G --cpus 2

//! How the module, its disks and the machine's CPUs come and go.

mod busy;
mod disks;
mod hotplug;
mod module;
mod races;
