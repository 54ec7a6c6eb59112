//! Stores of objects in the place of servers, over sockets.

mod files;
mod support;
