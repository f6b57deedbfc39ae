// SPDX-License-Identifier: GPL-2.0
//! Starting QEMU: its arguments, with sockets for the guest's console and ports.

use super::{
    accel::Accel,
    machine::{self, Machine},
    Platform, Spec,
};
use crate::kernel::Kind;
use anyhow::{Context, Result};
use rzram_init::{PORT_CTL, PORT_ERR, PORT_OUT};
use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    os::unix::net::UnixStream,
    process::{Command, Stdio},
    time::Instant,
};

const QEMU: &str = "qemu-system-x86_64";
/// Without fast string instructions, of which the translator makes loops over bytes, the kernel copies by words.
const CPU: &str = "max,erms=off,fsrm=off";

/// Collects arguments, and the descriptors that QEMU inherits.
struct Builder {
    command: Command,
    inherited: Vec<OwnedFd>,
}

impl Builder {
    fn args<const N: usize>(&mut self, args: [&str; N]) {
        self.command.args(args);
    }

    /// A character device named `id`; returns our end of it.
    fn channel(&mut self, id: &str) -> Result<UnixStream> {
        let (ours, theirs) = machine::channel()?;
        self.args([
            "-chardev",
            &format!("socket,id={id},fd={}", theirs.as_raw_fd()),
        ]);
        self.inherited.push(theirs);
        Ok(ours)
    }

    /// The console, named so.
    fn console(&mut self) -> Result<File> {
        let (ours, theirs) = machine::console()?;
        self.args([
            "-chardev",
            &format!("file,id=console,path=/proc/self/fd/{}", theirs.as_raw_fd()),
        ]);
        self.inherited.push(theirs);
        Ok(ours)
    }

    fn port(&mut self, id: &str, number: u32) -> Result<UnixStream> {
        let stream = self.channel(id)?;
        self.args([
            "-device",
            &format!("virtserialport,bus=vs.0,nr={number},chardev={id},name={id}"),
        ]);
        Ok(stream)
    }
}

/// Starts a guest.
pub fn start(platform: &Platform, accel: Accel, spec: &Spec, initrd: File) -> Result<Machine> {
    let mut builder = Builder {
        command: Command::new(QEMU),
        inherited: Vec::new(),
    };
    builder.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-net",
        "none",
    ]);
    let cpus = spec.cpus.to_string();
    // A plugin needs the translator.
    let accel = match spec.plugin {
        Some(_) => Accel::Tcg,
        None => accel,
    };
    match (spec.icount, accel) {
        (true, _) => builder.args([
            "-accel",
            "tcg,thread=single",
            "-icount",
            "shift=1,sleep=off",
            "-cpu",
            CPU,
            "-smp",
            "1",
        ]),
        (false, Accel::Kvm) => builder.args(["-accel", "kvm", "-cpu", "host", "-smp", &cpus]),
        (false, Accel::Tcg) => {
            builder.args(["-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", &cpus])
        }
    }
    if let Some(plugin) = &spec.plugin {
        builder.args(["-plugin", plugin]);
    }
    builder.args(["-m", &format!("{}M", spec.mem >> 20)]);
    builder.command.arg("-kernel").arg(platform.kernel.image());
    builder.args(["-initrd", &format!("/proc/self/fd/{}", initrd.as_raw_fd())]);
    builder.inherited.push(initrd.into());
    builder.args(["-append", &parameters(platform, spec, accel)]);

    let console = builder.console()?;
    builder.args([
        "-serial",
        "chardev:console",
        "-device",
        "virtio-serial-pci,id=vs,max_ports=8",
    ]);
    let out = builder.port("out", PORT_OUT)?;
    let err = builder.port("err", PORT_ERR)?;
    let ctl = builder.port("ctl", PORT_CTL)?;
    if spec.terminal {
        builder.args([
            "-chardev",
            "stdio,id=tty,signal=off",
            "-device",
            "virtconsole,bus=vs.0,nr=0,chardev=tty",
        ]);
    } else {
        builder.command.stdin(Stdio::null());
    }
    if let Some(dir) = &spec.share {
        // A comma in a QEMU option is written twice.
        let path = dir.display().to_string().replace(',', ",,");
        builder.args([
            "-fsdev",
            &format!("local,id=share,path={path},security_model=none,multidevs=remap"),
        ]);
        builder.args(["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]);
    }
    let Builder {
        mut command,
        inherited,
    } = builder;
    if !spec.terminal {
        command.stdout(Stdio::null());
    }
    let child = machine::spawn(command, inherited).with_context(|| format!("cannot run {QEMU}"))?;
    Ok(Machine {
        child,
        console,
        out,
        err,
        ctl,
    })
}

/// The kernel's command line.
const PARAMETERS: &str = concat!(
    // A guest that is broken ends at once, and says all that it has to say.
    "console=ttyS0 ignore_loglevel oops=panic panic=-1",
    // Calibrations of clocks against each other go wrong on a busy host.
    " tsc=reliable no_timer_check lpj=4000000",
    // They would keep a CPU busy when the command has long begun.
    " cryptomgr.notests",
    // The userland may fill all memory, not only the half that a RAM file system usually gets.
    " initramfs_options=size=100%",
);

/// How fast the translator's time-stamp counter runs, in kHz: as the host's does.
///
/// A guest measures it against emulated timers. On a busy host these may stand still meanwhile, and then all clocks of the guest
/// run many times too fast.
fn tsc_khz() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::{arch::x86_64::_rdtsc, thread::sleep, time::Duration};
        // SAFETY: Every x86-64 processor has the instruction, and Linux lets programs use it.
        let now = || (unsafe { _rdtsc() }, Instant::now());
        let (ticks, start) = now();
        sleep(Duration::from_millis(20));
        let (later, end) = now();
        let micros = u64::try_from((end - start).as_micros()).ok()?;
        (later - ticks).checked_mul(1000)?.checked_div(micros)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn parameters(platform: &Platform, spec: &Spec, accel: Accel) -> String {
    let stall = (60 * platform.patience()).min(300); // RCU takes no more
    let watching = match platform.kernel.kind {
        Kind::Stock | Kind::Uml => "",
        // While the kernel finds out what its CPU can do, it does not know for a moment that pages have five levels, and an
        // interrupt in that moment makes KASAN take addresses for wild ones.
        Kind::Debug => " no5lvl",
    };
    // Without per-CPU arrays of free objects, in which kmemleak finds addresses of what is gone.
    let owners = if spec.leaks {
        " page_owner=on slab_debug=F"
    } else {
        ""
    };
    let clock = match (accel, spec.icount) {
        (Accel::Tcg, false) => tsc_khz().map(|khz| format!(" tsc_early_khz={khz}")),
        _ => None,
    };
    format!(
        "{PARAMETERS} rcupdate.rcu_cpu_stall_timeout={stall}{watching}{owners}{} {}",
        clock.unwrap_or_default(),
        spec.append
    )
}
