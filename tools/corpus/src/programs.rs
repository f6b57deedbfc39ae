// SPDX-License-Identifier: GPL-2.0
//! The programs whose memory is collected: other work in the set for tuning than in the one that is held out.

use crate::{memory, sampler::Sampler};
use anyhow::{Context, Result};
use clap::ValueEnum;
use nix::{
    sys::signal::{killpg, Signal},
    unistd::Pid,
};
use std::{
    collections::HashSet,
    env, fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What pages are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Set {
    /// A codec is fitted to these.
    Tuning,
    /// A codec is measured with these, and nothing is ever chosen by them.
    HeldOut,
}

impl Set {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Tuning, Self::HeldOut];

    /// Its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::HeldOut => "held-out",
        }
    }
}

/// A program, and what it is to work on.
pub struct Program {
    /// What its pages are called.
    pub kind: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The program that has to be installed.
    pub needs: &'static str,
    /// A script of the shell, run in a directory that has the files.
    script: &'static str,
    /// Names and contents.
    files: &'static [(&'static str, &'static str)],
    /// A process is looked at when it has this many pages, and gives as many at most. Zero: when it has slept.
    from_each: usize,
}

/// The workload of this name.
macro_rules! workload {
    ($name:literal) => {
        ($name, include_str!(concat!("../workloads/", $name)))
    };
}

const TUNING: [Program; 6] = [
    Program {
        kind: "gcc",
        what: "g++ -O2 on templates of the standard library",
        needs: "g++",
        script: "exec g++ -std=c++20 -O2 -g -S -o /dev/null tune.cc",
        files: &[workload!("tune.cc")],
        from_each: 14_000,
    },
    Program {
        kind: "python",
        what: "python3 with syntax trees and documents",
        needs: "python3",
        script: "exec python3 tune.py",
        files: &[workload!("tune.py")],
        from_each: 0,
    },
    Program {
        kind: "rustc",
        what: "cargo building a program with serde and clap",
        needs: "cargo",
        script: "cd \"$TOOLS\" && exec cargo build --locked --offline -j1 -p xtask --target-dir \"$OLDPWD/target\"",
        files: &[],
        from_each: 3000,
    },
    Program {
        kind: "node",
        what: "node with records, a tree and text",
        needs: "node",
        script: "exec node tune.js",
        files: &[workload!("tune.js")],
        from_each: 0,
    },
    Program {
        kind: "java",
        what: "java with maps, records and lists",
        needs: "javac",
        script: "javac Tune.java && exec java -Xmx400m Tune",
        files: &[workload!("Tune.java")],
        from_each: 0,
    },
    Program {
        kind: "sqlite",
        what: "sqlite3 with tables of people and sales in memory",
        needs: "sqlite3",
        script: "exec sqlite3 :memory: <tune.sql",
        files: &[workload!("tune.sql")],
        from_each: 0,
    },
];

const HELD_OUT: [Program; 8] = [
    Program {
        kind: "gcc",
        what: "gcc -O2 on C of the kernel's build tools",
        needs: "gcc",
        script: ": \"${KERNEL:?}\"; find \"$KERNEL\"/scripts \"$KERNEL\"/tools/lib -name '*.c' -size +12k | while read -r file; do
            gcc -O2 -g -S -o /dev/null -I\"$KERNEL\"/scripts/include -I\"$KERNEL\"/tools/include \"$file\"; done",
        files: &[],
        from_each: 1500,
    },
    Program {
        kind: "python",
        what: "python3 with orders, an index of words and numbers",
        needs: "python3",
        script: "exec python3 held.py",
        files: &[workload!("held.py")],
        from_each: 0,
    },
    Program {
        kind: "rustc",
        what: "rustc on the core library",
        needs: "rustc",
        script: "exec rustc --edition 2021 --crate-name core --crate-type rlib -O --out-dir . \
            \"$(rustc --print sysroot)\"/lib/rustlib/src/rust/library/core/src/lib.rs",
        files: &[],
        from_each: 60_000,
    },
    Program {
        kind: "node",
        what: "node with all of npm loaded, and an index of its words",
        needs: "npm",
        script: "exec node held.js",
        files: &[workload!("held.js")],
        from_each: 0,
    },
    Program {
        kind: "java",
        what: "javac on the Java library's own java.util",
        needs: "javac",
        script: "src=$(find /usr/lib/jvm -name src.zip -type f | head -n1)
            python3 -m zipfile -e \"$src\" src && find src/java.base/java/util src/java.base/java/lang -name '*.java' >list &&
            exec javac -J-Xmx500m -d out --patch-module java.base=src/java.base @list",
        files: &[],
        from_each: 40_000,
    },
    Program {
        kind: "sqlite",
        what: "sqlite3 with documents, blobs and counts in memory",
        needs: "sqlite3",
        script: "exec sqlite3 :memory: <held.sql",
        files: &[workload!("held.sql")],
        from_each: 0,
    },
    Program {
        kind: "perl",
        what: "perl with an index of the words of its library",
        needs: "perl",
        script: "exec perl held.pl",
        files: &[workload!("held.pl")],
        from_each: 0,
    },
    Program {
        kind: "gdb",
        what: "gdb listing the types and functions of a program",
        needs: "gdb",
        script: "sleep 1000 | gdb -nx -q -ex 'set pagination off' -ex 'info types .' -ex 'info functions .' \"$PROGRAM\" >/dev/null",
        files: &[],
        from_each: 0,
    },
];

/// The programs of a set.
pub fn of(set: Set) -> Vec<Program> {
    match set {
        Set::Tuning => Vec::from(TUNING),
        Set::HeldOut => Vec::from(HELD_OUT),
    }
}

/// A directory to run a program in, removed at the end.
pub struct Run(PathBuf);

/// How long a program may take to have the pages.
const PATIENCE: Duration = Duration::from_secs(300);

impl Program {
    /// Puts its files in place; `None` if it is not installed.
    pub fn prepare(&self) -> Result<Option<Run>> {
        let path = env::var_os("PATH").unwrap_or_default();
        if !env::split_paths(&path).any(|dir| dir.join(self.needs).is_file()) {
            return Ok(None);
        }
        let dir = env::temp_dir().join(format!("rzram-corpus-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for (name, content) in self.files {
            fs::write(dir.join(name), content)?;
        }
        Ok(Some(Run(dir)))
    }

    fn start(&self, run: &Run) -> Result<Child> {
        let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        Command::new("sh")
            .args(["-c", self.script])
            .current_dir(&run.0)
            .env("TOOLS", tools)
            .env(
                "PROGRAM",
                env::var_os("PROGRAM").map_or_else(env::current_exe, |file| Ok(file.into()))?,
            )
            .env("RUSTC_BOOTSTRAP", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run sh")
    }
}

impl Run {
    /// Runs the program until there are pages enough. Returns what processes they are from.
    pub fn sample(&self, program: &Program, sampler: &mut Sampler) -> Result<Vec<String>> {
        let mut child = program.start(self)?;
        let done = watch(&mut child, program, sampler);
        // With all that it started; it may have ended by itself.
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        child.wait()?;
        done
    }
}

fn watch(child: &mut Child, program: &Program, sampler: &mut Sampler) -> Result<Vec<String>> {
    let start = Instant::now();
    let mut sampled = HashSet::new();
    let mut names = Vec::new();
    let mut sizes = Vec::new();
    while !sampler.is_full() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(if program.from_each == 0 {
            2000
        } else {
            20
        }));
        let family = memory::family(child.id() as i32);
        if program.from_each == 0 {
            // It is done with its work when its memory does not change any more.
            let now: Vec<_> = family.iter().map(|pid| memory::resident(*pid)).collect();
            if sizes != now {
                sizes = now;
                continue;
            }
        }
        for pid in family {
            let pages = memory::resident(pid).unwrap_or(0);
            let enough = match program.from_each {
                0 => 2000,
                pages => pages,
            };
            if pages < enough || !sampled.insert(pid) {
                continue;
            }
            let Ok(name) = memory::command_line(pid) else {
                continue;
            };
            let most = match program.from_each {
                0 => usize::MAX,
                most => most,
            };
            // One that ends just now gives what it gave.
            if memory::sample(pid, most, sampler).is_ok() {
                names.push(format!("{name} ({pages} pages)"));
            }
        }
        if child.try_wait()?.is_some() || (program.from_each == 0 && !sampled.is_empty()) {
            break;
        }
    }
    Ok(names)
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
