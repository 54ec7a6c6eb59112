//! The capacity search: a pure state machine from trials to a load line.
