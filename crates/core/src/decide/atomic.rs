//! Atomics that can be copied, so that a snapshot of all that is counted can be taken: a copy has
//! the value of that moment.

use core::{ops::Deref, sync::atomic};

macro_rules! copied {
    ($($name:ident of $value:ty),*) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name(atomic::$name);

        impl $name {
            #[inline]
            pub(crate) const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }
        }

        impl Clone for $name {
            fn clone(&self) -> Self {
                Self::new(self.load(atomic::Ordering::Relaxed))
            }
        }

        impl Deref for $name {
            type Target = atomic::$name;

            fn deref(&self) -> &atomic::$name {
                &self.0
            }
        }
    )*};
}

copied!(AtomicBool of bool, AtomicI32 of i32, AtomicU8 of u8, AtomicU16 of u16, AtomicU32 of u32);
copied!(AtomicU64 of u64);
