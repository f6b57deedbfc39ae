// SPDX-License-Identifier: GPL-2.0

//! Algorithms, and the buffers that they work in.
//!
//! Each CPU has a stream to compress with, behind a mutex: the only thing that writes wait for. One stream for the whole
//! disk is what zram once had; `max_comp_streams` set to 1 still gives that.
//!
//! What a read needs, state for decompressing and a buffer for an object that lies in two pages, is apart from the streams,
//! so no read waits for a compression.

mod codec;
mod params;
mod wlz;

use crate::sys::{
    codec::lz4hc,
    hotplug::{
        self,
        Instance,
        PerCpu, //
    },
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    }, //
};
pub(crate) use params::Params;

use codec::{
    Decoder,
    Encoder, //
};
use core::pin::Pin;
use kernel::{
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc,
        Mutex, //
    }, //
};
use params::Setup;

/// A way to compress, by its name in `comp_algorithm`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    LzoRle,
    Lzo,
    Lz4,
    Lz4hc,
    Zstd,
    Deflate,
    Wlz,
}

impl Algorithm {
    /// All of them, in the order in which zram lists them, and at the end our own.
    pub(crate) const ALL: [Self; 7] = [
        Self::LzoRle,
        Self::Lzo,
        Self::Lz4,
        Self::Lz4hc,
        Self::Zstd,
        Self::Deflate,
        Self::Wlz,
    ];

    /// What a new disk uses.
    pub(crate) const DEFAULT: Self = Self::LzoRle;

    /// The name that user space knows it by.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LzoRle => "lzo-rle",
            Self::Lzo => "lzo",
            Self::Lz4 => "lz4",
            Self::Lz4hc => "lz4hc",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Wlz => "wlz",
        }
    }

    /// The algorithm of this name.
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name().as_bytes() == name)
    }

    /// Whether a disk could be set up with it now: lz4hc comes in a module of its own.
    pub(crate) fn is_available(self) -> bool {
        self != Self::Lz4hc || lz4hc::Library::get().is_some()
    }

    /// Makes it available, if need be by loading its module. May sleep for long.
    ///
    /// `EINVAL`, with a line in the log that says what is missing.
    pub(crate) fn make_available(self) -> Result {
        if self == Self::Lz4hc {
            lz4hc::Library::load()?;
        }
        Ok(())
    }
}

fn buffer(len: usize) -> Result<KVVec<u8>> {
    Ok(KVVec::from_elem(0, len, GFP_KERNEL)?)
}

/// What compresses a block: the state of the algorithm, and room for the result if that has none.
pub(crate) struct Press {
    setup: Arc<Setup>,
    encoder: Encoder,
    output: KVVec<u8>,
}

impl Press {
    /// Compresses a block. What is returned may be longer than the block.
    #[inline]
    pub(crate) fn compress(&mut self, block: Source<'_>) -> Result<&[u8]> {
        self.encoder.compress(&self.setup, block, &mut self.output)
    }
}

/// What a write uses.
pub(crate) struct Stream {
    /// Compresses.
    pub(crate) press: Press,
    /// Where a block is put together that comes in pieces.
    pub(crate) bounce: KVVec<u8>,
}

/// What a read of compressed data uses.
pub(crate) struct Unpacker {
    setup: Arc<Setup>,
    decoder: Decoder,
    /// Where an object is put together that lies in two pages; see `Pool::read()`.
    pub(crate) object: KVVec<u8>,
}

impl Unpacker {
    /// Splits into the buffer for the object, and a function that decompresses the object.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [u8], impl FnOnce(&[u8], Dest<'_>) -> Result + '_) {
        let (setup, decoder) = (&self.setup, &mut self.decoder);
        (&mut self.object, move |object, block| {
            decoder.decompress(setup, object, block)
        })
    }
}

/// What a CPU has, behind a mutex, while it is up. Apart from its neighbours in the cache.
#[pin_data]
#[repr(align(64))]
struct Lane<T> {
    #[pin]
    inner: Mutex<Option<T>>,
}

type Held<'a, T> = Guard<'a, Option<T>, MutexBackend>;

/// The CPU whose buffers are to be used, so that many can work at once. Any will do: the thread may be on another one by then.
#[derive(Clone, Copy)]
pub(crate) struct Cpu(usize);

impl Cpu {
    /// The current one.
    #[inline]
    pub(crate) fn current() -> Self {
        Self(CpuId::current().as_u32() as usize)
    }

    /// One of the first `max`: this one, if it is among them.
    #[inline]
    pub(crate) fn among(self, max: u32) -> Self {
        let max = max as usize;
        match self.0 < max {
            true => self,
            false => Self(self.0 % max.max(1)),
        }
    }
}

/// One lane for each CPU number.
struct Lanes<T>(Pin<KBox<[Lane<T>]>>);

impl<T: Unpin> Lanes<T> {
    fn lane(&self, index: usize) -> Option<Held<'_, T>> {
        self.0.get(index).map(|lane| lane.inner.lock())
    }

    /// Runs `f` with what some CPU has: that of `first` if it has something. May sleep.
    #[inline(always)]
    fn with<R>(&self, Cpu(first): Cpu, f: impl FnOnce(&mut T) -> R) -> Result<R> {
        let mut lane = self.lane(first).ok_or(EIO)?;
        loop {
            // In one place, so that the compiler makes one piece of it.
            if let Some(inner) = &mut *lane {
                return Ok(f(inner));
            }
            drop(lane);
            lane = self.other(first)?;
        }
    }

    /// The same for those who must not sleep: tries each in turn.
    #[cfg(locking_lab)]
    fn with_at_once<R>(&self, Cpu(first): Cpu, f: impl FnOnce(&mut T) -> R) -> Result<R> {
        loop {
            for index in Iterator::chain(first..self.0.len(), 0..first) {
                let lane = self.0.get(index).and_then(|lane| lane.inner.try_lock());
                if let Some(mut lane) = lane {
                    if let Some(inner) = &mut *lane {
                        return Ok(f(inner));
                    }
                }
            }
            kernel::processor::cpu_relax();
        }
    }

    /// The CPU is gone, or was about to come up when we asked: takes the next one that is there.
    #[cold]
    fn other(&self, first: usize) -> Result<Held<'_, T>> {
        // Ends: the CPU that runs this has a lane, though which one that is may change while we look.
        loop {
            for index in Iterator::chain(first..self.0.len(), 0..first) {
                let lane = self.lane(index).ok_or(EIO)?;
                if lane.is_some() {
                    return Ok(lane);
                }
            }
        }
    }
}

/// The buffers of one disk for one algorithm.
#[pin_data]
pub(crate) struct Buffers {
    setup: Arc<Setup>,
    streams: Lanes<Stream>,
    unpackers: Lanes<Unpacker>,
    bounces: Lanes<KVVec<u8>>,
    /// Bytes of all of these.
    bytes: Atomic<u64>,
}

/// Tells all [`Buffers`] of CPUs that come and go.
pub(crate) type Hotplug = hotplug::State<Buffers>;

/// Lanes without anything in them, for each CPU number that there can be.
macro_rules! lanes {
    ($name:literal) => {
        Lanes(KBox::pin_slice(
            |_| pin_init!(Lane { inner <- new_mutex!(None, $name) }? Error),
            nr_cpu_ids() as usize,
            GFP_KERNEL,
        )?)
    };
}

impl Buffers {
    /// Allocates buffers for the CPUs that are up; those that come up later get theirs then. May sleep.
    fn new(setup: Arc<Setup>, hotplug: Arc<Hotplug>) -> Result<Pin<KBox<Instance<Self>>>> {
        let streams = lanes!("rzram_stream");
        let unpackers = lanes!("rzram_unpacker");
        let bounces = lanes!("rzram_bounce");
        Instance::new(
            hotplug,
            pin_init!(Self {
                setup,
                streams,
                unpackers,
                bounces,
                bytes: Atomic::new(0),
            }? Error),
        )
    }

    fn allocate(&self) -> Result<(Stream, Unpacker, KVVec<u8>)> {
        let encoder = Encoder::new(&self.setup)?;
        let stream = Stream {
            press: Press {
                setup: self.setup.clone(),
                output: buffer(encoder.output_len())?,
                encoder,
            },
            bounce: buffer(BLOCK_SIZE)?,
        };
        let unpacker = Unpacker {
            setup: self.setup.clone(),
            decoder: Decoder::new(&self.setup)?,
            object: buffer(BLOCK_SIZE)?,
        };
        Ok((stream, unpacker, buffer(BLOCK_SIZE)?))
    }
}

/// Bytes that the buffers of a CPU take.
fn bytes(stream: &Stream, unpacker: &Unpacker, bounce: &KVVec<u8>) -> u64 {
    let buffers = [
        &stream.press.output,
        &stream.bounce,
        &unpacker.object,
        bounce,
    ];
    let buffers = buffers.into_iter().map(|buffer| buffer.capacity() as u64);
    let states = [stream.press.encoder.bytes(), unpacker.decoder.bytes()];
    Iterator::chain(buffers, states).fold(0, u64::saturating_add)
}

impl PerCpu for Buffers {
    fn prepare(&self, cpu: u32) -> Result {
        let (stream, unpacker, bounce) = self.allocate().inspect_err(|_| {
            pr_err!("Can't allocate a compression stream\n");
        })?;
        self.bytes.add(bytes(&stream, &unpacker, &bounce), Relaxed);
        let index = cpu as usize;
        *self.streams.lane(index).ok_or(EINVAL)? = Some(stream);
        *self.unpackers.lane(index).ok_or(EINVAL)? = Some(unpacker);
        *self.bounces.lane(index).ok_or(EINVAL)? = Some(bounce);
        Ok(())
    }

    fn dead(&self, cpu: u32) {
        let index = cpu as usize;
        // Dropped after the mutex is let go of: freeing may take a while.
        let stream = self.streams.lane(index).and_then(|mut lane| lane.take());
        let unpacker = self.unpackers.lane(index).and_then(|mut lane| lane.take());
        let bounce = self.bounces.lane(index).and_then(|mut lane| lane.take());
        if let (Some(stream), Some(unpacker), Some(bounce)) = (stream, unpacker, bounce) {
            self.bytes
                .fetch_sub(bytes(&stream, &unpacker, &bounce), Relaxed);
        }
    }
}

/// Compresses and decompresses for one disk.
pub(crate) struct Compressor(Pin<KBox<Instance<Buffers>>>);

impl Compressor {
    /// Allocates what `algorithm` needs. May sleep.
    ///
    /// `EINVAL` or `EOPNOTSUPP` if it does not take `params`; `ENOMEM`.
    pub(crate) fn new(
        algorithm: Algorithm,
        params: &Params,
        hotplug: Arc<Hotplug>,
    ) -> Result<Self> {
        let setup = Arc::new(Setup::new(algorithm, params)?, GFP_KERNEL)?;
        Ok(Self(Buffers::new(setup, hotplug)?))
    }

    /// Bytes that the buffers of all CPUs take.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    /// Runs `f` with a stream. May sleep: for the stream, and in `f`.
    #[inline]
    pub(crate) fn with_stream<R>(&self, cpu: Cpu, f: impl FnOnce(&mut Stream) -> R) -> Result<R> {
        self.0.streams.with(cpu, f)
    }

    /// Runs `f` with what it takes to decompress. May sleep: for that, and in `f`.
    #[inline]
    pub(crate) fn with_unpacker<R>(
        &self,
        cpu: Cpu,
        f: impl FnOnce(&mut Unpacker) -> R,
    ) -> Result<R> {
        #[cfg(locking_lab)]
        if crate::table::lab::scheme().spins() {
            return self.0.unpackers.with_at_once(cpu, f);
        }
        self.0.unpackers.with(cpu, f)
    }

    /// Runs `f` with room for a block that will be taken apart. May sleep: for that, and in `f`.
    pub(crate) fn with_bounce<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        self.0.bounces.with(Cpu::current(), |bounce| f(bounce))
    }
}
