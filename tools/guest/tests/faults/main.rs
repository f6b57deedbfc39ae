// SPDX-License-Identifier: GPL-2.0
// vm: --kernel debug --mem 768M --cpus 2 --timeout 400

//! Every allocation that is made for the module fails once, in every operation there is, and by chance
//! under load; so do requests to the backing device. Whatever has failed succeeds when it is done again,
//! and no byte of what was written before is wrong.

mod attributes;
mod backing;
mod common;
mod cpu;
mod disks;
mod load;
mod post;
mod requests;
mod setup;
mod storm;
mod swap;
