//! Programs that the benchmark runs: compiled here, and loaded.

use std::{fs, path::Path, process::Command};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, ProgramArray},
    programs::{ProgramFd, TestRun as _, TestRunOptions, Xdp},
};

use crate::Result;

/// Compiles a program of this directory, and loads it.
pub(crate) fn build(name: &str) -> Result<Ebpf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/forward");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).with_extension("o");
    let include = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let status = Command::new("clang")
        .args(["-O2", "-g", "-Wall", "-target", "bpf", "-mcpu=v3", "-idirafter", &include, "-c"])
        .arg(here.join(format!("{name}.bpf.c")))
        .arg("-o")
        .arg(&object)
        .status()?;
    if !status.success() {
        return Err(format!("clang could not compile {name}.bpf.c").into());
    }
    load(&fs::read(object)?)
}

/// Loads all programs of an object.
pub(crate) fn load(object: &[u8]) -> Result<Ebpf> {
    let mut loaded = EbpfLoader::new().load(object)?;
    for (_, program) in loaded.programs_mut() {
        let program: &mut Xdp = program.try_into()?;
        program.load()?;
    }
    Ok(loaded)
}

/// A loaded program by its name.
pub(crate) fn program<'a>(loaded: &'a Ebpf, name: &str) -> Result<&'a ProgramFd> {
    let program: &Xdp =
        loaded.program(name).ok_or_else(|| format!("no program {name}"))?.try_into()?;
    Ok(program.fd()?)
}

/// What calls the others: `wrapper.bpf.c`.
pub(crate) struct Wrapper {
    loaded: Ebpf,
}

/// `struct work`.
const WORK: usize = FRAME + 12;
/// Bytes of a frame.
pub(crate) const FRAME: usize = 64;

impl Wrapper {
    pub(crate) fn build() -> Result<Self> {
        Ok(Self { loaded: build("wrapper")? })
    }

    /// The programs that do nothing, and nothing but grow the packet.
    pub(crate) fn idle(&self) -> Result<[ProgramFd; 2]> {
        let clone = |name| Ok::<_, crate::Failure>(program(&self.loaded, name)?.try_clone()?);
        Ok([clone("bounce")?, clone("grow")?])
    }

    /// A table of flows for who wants to be given one; taken once.
    pub(crate) fn take_flows(&mut self) -> Result<aya::maps::Map> {
        Ok(self.loaded.take_map("katran_flows").ok_or("no table of flows")?)
    }

    /// Sends a packet of each of these flows, a power of two.
    ///
    /// # Errors
    /// As of [`Self::run`].
    pub(crate) fn open(
        &mut self,
        target: &ProgramFd,
        frame: &[u8; FRAME],
        flows: u32,
    ) -> Result<u32> {
        self.test_run(target, frame, (flows - 1, true), flows)
    }

    /// Nanoseconds that the program takes for each of `packets`, with the wrapper, when they are of
    /// `flows` flows, a power of two and in no order, or all of flows of their own.
    ///
    /// # Errors
    /// The kernel's, and packets that are not sent.
    pub(crate) fn run(
        &mut self,
        target: &ProgramFd,
        frame: &[u8; FRAME],
        flows: Option<u32>,
        packets: u32,
    ) -> Result<u32> {
        let order = flows.map_or((u32::MAX, true), |flows| (flows - 1, false));
        self.test_run(target, frame, order, packets)
    }

    fn test_run(
        &mut self,
        target: &ProgramFd,
        frame: &[u8; FRAME],
        (mask, is_in_turn): (u32, bool),
        packets: u32,
    ) -> Result<u32> {
        let mut work: Array<_, [u8; WORK]> =
            self.loaded.map_mut("work").ok_or("no work")?.try_into()?;
        let mut todo = work.get(&0, 0)?;
        todo[..FRAME].copy_from_slice(frame);
        todo[FRAME + 4..FRAME + 8].copy_from_slice(&mask.to_ne_bytes());
        todo[FRAME + 8..].copy_from_slice(&u32::from(is_in_turn).to_ne_bytes());
        work.set(0, todo, 0)?;
        let mut targets: ProgramArray<_> =
            self.loaded.map_mut("target").ok_or("no target")?.try_into()?;
        targets.set(0, target, 0)?;
        let wrapper: &Xdp = self.loaded.program("wrapper").ok_or("no wrapper")?.try_into()?;
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = packets;
        let ran = wrapper.test_run(options)?;
        if ran.return_value != SENT {
            return Err(format!("a packet was not sent: action {}", ran.return_value).into());
        }
        Ok(ran.duration.as_nanos() as u32)
    }
}

/// `XDP_TX`.
const SENT: u32 = 3;
