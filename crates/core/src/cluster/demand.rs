//! How much clients want of a service, from what is counted.
