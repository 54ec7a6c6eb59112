//! Test runs of frames, which go nowhere (`BPF_PROG_TEST_RUN`).

use aya::{
    Ebpf,
    programs::{SchedClassifier, TestRun as _, TestRunOptions, Xdp},
};

use crate::{
    datapath::Datapath,
    error::LoadError,
    object::{BALANCER, Object},
    traffic_control,
};

/// Where a program is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// Before the kernel has made anything of the frame.
    #[default]
    Xdp,
    /// With a packet of the kernel.
    TrafficControl,
}

/// What the kernel is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// What no program of ours says.
    Unknown,
    /// It is dropped.
    Drop,
    /// The kernel goes on with it.
    Pass,
    /// It leaves where it came in.
    Send,
}

/// The result of a test run of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRunResult {
    /// What the kernel is told.
    pub action: Action,
    /// The frame as it is now.
    pub frame: Vec<u8>,
}

impl Hook {
    /// The meaning of what a program returns here.
    const fn action(self, code: u32) -> Action {
        const NEXT: u32 = u32::MAX;
        match (self, code) {
            // `XDP_DROP`, `TC_ACT_SHOT`
            (Self::Xdp, 1) | (Self::TrafficControl, 2) => Action::Drop,
            // `XDP_PASS`, `TCX_NEXT`
            (Self::Xdp, 2) | (Self::TrafficControl, NEXT) => Action::Pass,
            // `XDP_TX`, `TC_ACT_REDIRECT`
            (Self::Xdp, 3) | (Self::TrafficControl, 7) => Action::Send,
            _ => Action::Unknown,
        }
    }
}

impl Datapath {
    /// Has frames tried by the program of this hook; without, by that of XDP.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub fn try_at(&mut self, hook: Hook) -> Result<(), LoadError> {
        if hook == Hook::TrafficControl {
            let program = Object::program_mut(&mut self.loaded, BALANCER.traffic_control)?;
            traffic_control::load(program)?;
        }
        self.hook = hook;
        Ok(())
    }

    /// What would become of a frame; it is counted and remembered as one that arrived, but goes
    /// nowhere.
    ///
    /// # Errors
    /// The kernel refuses a frame of this length, less than 14 bytes or more than a page.
    pub fn try_packet(&self, frame: &[u8]) -> Result<TestRunResult, LoadError> {
        try_packet(&BALANCER, &self.loaded, self.hook, frame)
    }
}

/// Runs the program of a hook on a frame that goes nowhere.
pub(crate) fn try_packet(
    object: &Object,
    loaded: &Ebpf,
    hook: Hook,
    frame: &[u8],
) -> Result<TestRunResult, LoadError> {
    let mut after = vec![0; frame.len() + HEADROOM];
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.data_out = Some(&mut after);
    let ran = match hook {
        Hook::Xdp => {
            let program: &Xdp = Object::program(loaded, object.xdp)?;
            program.test_run(options)
        }
        Hook::TrafficControl => {
            let program: &SchedClassifier = Object::program(loaded, object.traffic_control)?;
            program.test_run(options)
        }
    };
    let ran = ran.map_err(|error| LoadError::from_kernel(error.into()))?;
    after.truncate(ran.data_size_out as usize);
    Ok(TestRunResult { action: hook.action(ran.return_value), frame: after })
}

/// What an outer header adds at most.
const HEADROOM: usize = 40;
