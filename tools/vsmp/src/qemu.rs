// SPDX-License-Identifier: GPL-2.0

//! The interface to QEMU: version 4 of its plugin API, as in QEMU 10.
//!
//! The header, qemu-plugin.h, is in no package of Debian's, so what is needed of it is declared here. QEMU resolves it when
//! it loads the plugin. Where the version does not fit, it refuses the plugin and says so.

use std::{
    collections::HashMap,
    ffi::{c_char, c_int, c_uint, c_void, CStr},
    ptr,
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::{profile::Counts, Options, Plugin};

type PluginId = u64;
type CpuCallback = unsafe extern "C" fn(PluginId, c_uint);
type DataCallback = unsafe extern "C" fn(c_uint, *mut c_void);

#[repr(C)]
struct Block {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Instruction {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Scoreboard {
    _opaque: [u8; 0],
}

/// A 64-bit number of each CPU, `offset` bytes into its entry of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
struct Number {
    score: *mut Scoreboard,
    offset: usize,
}

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;
/// `QEMU_PLUGIN_COND_GE`.
const AT_LEAST: c_int = 7;
/// `QEMU_PLUGIN_CB_NO_REGS`.
const NO_REGISTERS: c_int = 0;

extern "C" {
    fn qemu_plugin_scoreboard_new(size: usize) -> *mut Scoreboard;
    fn qemu_plugin_scoreboard_find(score: *mut Scoreboard, cpu: c_uint) -> *mut c_void;
    fn qemu_plugin_u64_sum(number: Number) -> u64;
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    fn qemu_plugin_insn_data(instruction: *const Instruction, to: *mut c_void, len: usize)
        -> usize;
    fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: PluginId,
        callback: unsafe extern "C" fn(PluginId, *mut Block),
    );
    fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        operation: c_int,
        number: Number,
        operand: u64,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut Block,
        callback: DataCallback,
        flags: c_int,
        condition: c_int,
        number: Number,
        operand: u64,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: DataCallback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: CpuCallback);
    fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, callback: CpuCallback);
    fn qemu_plugin_register_vcpu_idle_cb(id: PluginId, callback: CpuCallback);
    fn qemu_plugin_register_vcpu_resume_cb(id: PluginId, callback: CpuCallback);
}

/// The version of the API that this is for: QEMU looks for the symbol.
#[no_mangle]
pub static qemu_plugin_version: c_int = 4;

/// `xchg %bx,%bx`.
const MARK: [u8; 3] = [0x66, 0x87, 0xdb];

/// What the CPUs count for themselves.
#[repr(C)]
struct Counters {
    /// Instructions that were not reported yet.
    unreported: u64,
}

struct Loaded {
    plugin: Plugin,
    counters: *mut Scoreboard,
    /// Instructions executed in each block, where they are wanted: a scoreboard of its own for each address.
    blocks: Mutex<HashMap<u64, Number>>,
}

// SAFETY: A scoreboard may be used from any thread; each CPU has an entry of its own.
unsafe impl Send for Loaded {}
// SAFETY: As above.
unsafe impl Sync for Loaded {}

static LOADED: OnceLock<Loaded> = OnceLock::new();

impl Loaded {
    /// What `cpu` has executed since it was asked last. Called in that CPU's thread.
    fn take_unreported(&self, cpu: c_uint) -> u64 {
        // SAFETY: The scoreboard's entries are `Counters`, and nobody but this thread uses that of `cpu`.
        let counters =
            unsafe { &mut *qemu_plugin_scoreboard_find(self.counters, cpu).cast::<Counters>() };
        std::mem::take(&mut counters.unreported)
    }

    /// Where instructions of the block at `address` are counted: the same however often it is translated.
    fn block(&self, address: u64) -> Number {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        *blocks.entry(address).or_insert_with(|| Number {
            // SAFETY: QEMU is ready for this whenever it translates.
            score: unsafe { qemu_plugin_scoreboard_new(size_of::<u64>()) },
            offset: 0,
        })
    }

    /// What was executed in each block.
    fn executed(&self) -> Counts {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = blocks.iter().map(|(address, number)| {
            // SAFETY: The scoreboards are never freed, and have one number.
            (*address, unsafe { qemu_plugin_u64_sum(*number) })
        });
        counts.collect()
    }

    fn number(&self, offset: usize) -> Number {
        Number {
            score: self.counters,
            offset,
        }
    }
}

// Callbacks. QEMU calls those of a CPU in that CPU's thread, and none before `qemu_plugin_install()` has returned, so
// `LOADED` is set.

unsafe extern "C" fn on_init(_id: PluginId, cpu: c_uint) {
    if let Some(loaded) = LOADED.get() {
        loaded.plugin.clocks.add(cpu as usize);
    }
}

unsafe extern "C" fn on_stop(_id: PluginId, cpu: c_uint) {
    if let Some(loaded) = LOADED.get() {
        let executed = loaded.take_unreported(cpu);
        loaded.plugin.clocks.stop(cpu as usize, executed);
    }
}

unsafe extern "C" fn on_go(_id: PluginId, cpu: c_uint) {
    if let Some(loaded) = LOADED.get() {
        let executed = loaded.take_unreported(cpu);
        loaded.plugin.clocks.go_on(cpu as usize, executed);
    }
}

unsafe extern "C" fn on_quantum(cpu: c_uint, _data: *mut c_void) {
    if let Some(loaded) = LOADED.get() {
        let executed = loaded.take_unreported(cpu);
        loaded.plugin.clocks.report(cpu as usize, executed);
    }
}

unsafe extern "C" fn on_mark(cpu: c_uint, data: *mut c_void) {
    if let Some(loaded) = LOADED.get() {
        // Not `report()`: a mark is a point in time, and not a place to wait.
        let executed = loaded.take_unreported(cpu);
        loaded.plugin.clocks.go_on(cpu as usize, executed);
        // The counter was raised for the whole block when it was entered: what is behind the mark is not executed yet.
        loaded
            .plugin
            .mark(cpu as usize, data as u64, || loaded.executed());
    }
}

unsafe extern "C" fn on_translate(_id: PluginId, block: *mut Block) {
    let Some(loaded) = LOADED.get() else {
        return;
    };
    // SAFETY: The block is QEMU's, and is valid during this call; its instructions are numbered from 0 on.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        for index in 0..count {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            if qemu_plugin_insn_size(instruction) != MARK.len() {
                continue;
            }
            let mut bytes = [0u8; MARK.len()];
            qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), bytes.len());
            if bytes == MARK {
                let behind = (count - index) as *mut c_void;
                qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, NO_REGISTERS, behind);
            }
        }
        let unreported = loaded.number(std::mem::offset_of!(Counters, unreported));
        qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, ADD, unreported, count as u64);
        qemu_plugin_register_vcpu_tb_exec_cond_cb(
            block,
            on_quantum,
            NO_REGISTERS,
            AT_LEAST,
            unreported,
            loaded.plugin.clocks.quantum(),
            ptr::null_mut(),
        );
        if loaded.plugin.profile.wanted() {
            let here = loaded.block(qemu_plugin_tb_vaddr(block));
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, ADD, here, count as u64);
        }
    }
}

/// What QEMU calls when it loads the plugin.
///
/// # Safety
///
/// `arguments` are `count` C strings.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    let arguments = (0..count).map(|index| {
        // SAFETY: By the safety requirements of this function.
        unsafe { CStr::from_ptr(*arguments.add(index)) }
            .to_str()
            .unwrap_or("")
    });
    let plugin = Options::parse(arguments).and_then(|options| Plugin::new(&options));
    let plugin = match plugin {
        Ok(plugin) => plugin,
        Err(error) => {
            eprintln!("vsmp: {error}");
            return -1;
        }
    };
    // SAFETY: QEMU is ready for all of these during this call, and keeps what it is given.
    unsafe {
        let counters = qemu_plugin_scoreboard_new(size_of::<Counters>());
        let loaded = Loaded {
            plugin,
            counters,
            blocks: Mutex::default(),
        };
        if LOADED.set(loaded).is_err() {
            eprintln!("vsmp: loaded twice");
            return -1;
        }
        qemu_plugin_register_vcpu_init_cb(id, on_init);
        qemu_plugin_register_vcpu_exit_cb(id, on_stop);
        qemu_plugin_register_vcpu_idle_cb(id, on_stop);
        qemu_plugin_register_vcpu_resume_cb(id, on_go);
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    }
    0
}
