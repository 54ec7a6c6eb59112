//! Stores of objects in the place of servers, over sockets.

mod bucket;
mod files;
mod support;
