//! How a program is attached to an interface, said on the command line.

use clap::ValueEnum;
use loadline_l4::Attach;

/// The values of `--xdp-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum XdpMode {
    /// The first of the other modes that works; to forward on a veth interface not native
    Auto,
    /// In the network driver
    Native,
    /// In the network stack
    Generic,
    /// In traffic control (TCX); not for `l4 decapsulate`
    Tcx,
}

impl From<XdpMode> for Attach {
    fn from(mode: XdpMode) -> Self {
        match mode {
            XdpMode::Auto => Self::Auto,
            XdpMode::Native => Self::Native,
            XdpMode::Generic => Self::Generic,
            XdpMode::Tcx => Self::Tcx,
        }
    }
}
