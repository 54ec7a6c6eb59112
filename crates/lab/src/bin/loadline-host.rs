//! A process of a lab's host, for programs that use the library without being able to become one
//! themselves: see `loadline_lab::host::Options::program`.
#![forbid(unsafe_code)]

fn main() -> std::io::Result<()> {
    loadline_lab::host::serve()
}
