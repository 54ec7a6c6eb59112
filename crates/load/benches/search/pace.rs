//! How fast a server works at what time: work and time, each a function of the other.

/// How fast a server works at what time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Always alike.
    Even,
    /// For `lasts` seconds of each `every` it works at this part of its speed.
    Slow { every: f64, lasts: f64, speed: f64 },
}

impl Pace {
    /// The work that can be done until so many seconds after the server began.
    pub(crate) fn work(self, at: f64) -> f64 {
        match self {
            Self::Even => at,
            Self::Slow { every, lasts, speed } => {
                let (cycles, within) = ((at / every).floor(), at % every);
                let each = every - lasts * (1.0 - speed);
                cycles * each + within.min(lasts) * speed + (within - lasts).max(0.0)
            }
        }
    }

    /// When so much work is done.
    pub(crate) fn done(self, work: f64) -> f64 {
        match self {
            Self::Even => work,
            Self::Slow { every, lasts, speed } => {
                let each = every - lasts * (1.0 - speed);
                let (cycles, within) = ((work / each).floor(), work % each);
                let slow = lasts * speed;
                let into = if within < slow { within / speed } else { lasts + (within - slow) };
                cycles * every + into
            }
        }
    }
}
