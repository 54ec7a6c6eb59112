//! What a machine's resources do on the time axis of a run, and which gave out first.
