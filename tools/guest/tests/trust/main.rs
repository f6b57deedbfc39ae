// SPDX-License-Identifier: GPL-2.0
// vm: --mem 768M --cpus 2 --timeout 600 --append init_on_alloc=0

//! What a disk may never do: lose a byte, show one that is not its own, or fall over what it is told.
//!
//! The guest's kernel does not clear memory that it hands out, so that what a disk does not clear is seen.

mod attributes;
mod crowd;
mod ioctls;
mod model;
mod parameters;
mod post;
mod privacy;
mod storm;
mod text;
mod users;
