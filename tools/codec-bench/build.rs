// SPDX-License-Identifier: GPL-2.0

//! Compiles the kernel's compressors from its source, with its headers and much as its own build does, and links them with
//! the object of the module's codec. Where that is not asked for the program only says how to do it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Below the kernel's source: lz4, lzo, zstd, and the functions of the kernel's for memory that they call.
const SOURCES: [&str; 12] = [
    "lib/lz4/lz4_compress.c",
    "lib/lz4/lz4_decompress.c",
    "lib/lzo/lzo1x_compress.c",
    "lib/lzo/lzo1x_compress_safe.c",
    "lib/lzo/lzo1x_decompress_safe.c",
    "lib/xxhash.c",
    "lib/zstd/zstd_common_module.c",
    "lib/zstd/zstd_compress_module.c",
    "lib/zstd/zstd_decompress_module.c",
    "arch/x86/lib/memset_64.S",
    "arch/x86/lib/memcpy_64.S",
    "arch/x86/lib/memmove_64.S",
];
/// All C in these as well.
const DIRECTORIES: [&str; 3] = [
    "lib/zstd/common",
    "lib/zstd/compress",
    "lib/zstd/decompress",
];

/// What the kernel compiles with, but for what only a kernel can link or run.
const FLAGS: &str = "-w -D__KERNEL__ -D__DISABLE_EXPORTS -std=gnu11 -fms-extensions -fshort-wchar -funsigned-char -fno-common \
    -fno-PIE -fno-strict-aliasing -m64 -mno-sse -mno-mmx -mno-sse2 -mno-3dnow -mno-avx -mno-80387 -mno-fp-ret-in-387 \
    -mpreferred-stack-boundary=3 -mskip-rax-setup -march=x86-64 -mtune=generic -mno-red-zone -fno-jump-tables \
    -fno-delete-null-pointer-checks -O2 -fno-allow-store-data-races -fstack-protector-strong -fno-strict-overflow \
    -fno-stack-check -fconserve-stack";

/// What is called from Rust; all other names are hidden, for some are those of the C library.
const NAMES: [&str; 6] = [
    "LZ4_compress_fast",
    "LZ4_decompress_safe",
    "lzorle1x_1_compress",
    "lzo1x_decompress_safe",
    "zstd_*",
    "wlz_*",
];

/// Where a warning of the kernel's would go to.
const STUBS: &str = ".globl __SCK__WARN_trap, __SCT__WARN_trap
__SCK__WARN_trap:
__SCT__WARN_trap:
	ud2
.section .note.GNU-stack,\"\",@progbits
";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(codecs)");
    let [source, build, object] = ["SOURCE", "BUILD", "OBJECT"].map(|name| {
        let name = format!("RZRAM_CODEC_{name}");
        println!("cargo::rerun-if-env-changed={name}");
        env::var_os(name).map(PathBuf::from)
    });
    let (Some(source), Some(build), Some(object)) = (source, build, object) else {
        return;
    };
    println!("cargo::rerun-if-changed={}", object.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut objects = vec![object];
    let mut sources: Vec<PathBuf> = SOURCES.iter().map(|file| source.join(file)).collect();
    for directory in DIRECTORIES {
        let entries = fs::read_dir(source.join(directory)).expect("the kernel has zstd");
        sources.extend(
            entries
                .map(|entry| entry.expect("readable").path())
                .filter(|file| file.extension().is_some_and(|ending| ending == "c")),
        );
    }
    sources.sort();
    for file in &sources {
        objects.push(compile(file, &source, &build, &out));
    }
    let stubs = out.join("stubs.s");
    fs::write(&stubs, STUBS).expect("writable");
    run(Command::new("as")
        .arg(&stubs)
        .arg("-o")
        .arg(out.join("stubs.o")));
    objects.push(out.join("stubs.o"));
    let all = out.join("codecs.o");
    run(Command::new("ld")
        .arg("-r")
        .arg("-o")
        .arg(&all)
        .args(&objects));
    let keep = NAMES
        .iter()
        .map(|name| format!("--keep-global-symbol={name}"));
    run(Command::new("objcopy").arg("-w").args(keep).arg(&all));
    println!("cargo::rustc-link-arg-bins={}", all.display());
    // As in the kernel, where code has one place for good.
    println!("cargo::rustc-link-arg-bins=-no-pie");
    println!("cargo::rustc-cfg=codecs");
}

fn compile(file: &Path, source: &Path, build: &Path, out: &Path) -> PathBuf {
    let name = file
        .strip_prefix(source)
        .expect("below it")
        .display()
        .to_string();
    let object = out.join(name.replace('/', "_")).with_extension("o");
    let mut command = Command::new("gcc");
    command.arg("-nostdinc").args(FLAGS.split_whitespace());
    for (tree, dir) in [
        (source, "arch/x86/include"),
        (build, "arch/x86/include/generated"),
        (source, "include"),
        (build, "include"),
        (source, "arch/x86/include/uapi"),
        (build, "arch/x86/include/generated/uapi"),
        (source, "include/uapi"),
        (build, "include/generated/uapi"),
        (source, "lib/zstd"),
    ] {
        command.arg("-I").arg(tree.join(dir));
    }
    for file in ["compiler-version.h", "kconfig.h", "compiler_types.h"] {
        command
            .arg("-include")
            .arg(source.join("include/linux").join(file));
    }
    if file.extension().is_some_and(|ending| ending == "S") {
        command.args(["-D__ASSEMBLY__", "-D__ASSEMBLER__"]);
    }
    command.args(
        ["KBUILD_MODNAME", "KBUILD_BASENAME", "KBUILD_MODFILE"]
            .map(|name| format!("-D{name}=\"codecs\"")),
    );
    command.arg("-D__KBUILD_MODNAME=codecs");
    run(command.arg("-c").arg(file).arg("-o").arg(&object));
    object
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(
        status.as_ref().is_ok_and(|status| status.success()),
        "{command:?}: {status:?}"
    );
}
