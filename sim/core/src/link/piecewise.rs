//! A quantity given at points in time, read at times that never go back.

use std::sync::Arc;

use crate::spec::DelaySpec;
use crate::time::Nanos;

/// Steps: the value of the last point at or before `now`.
#[derive(Clone, Debug)]
pub struct Steps<T> {
    points: Arc<[(Nanos, T)]>,
    cursor: usize,
    /// The point at the cursor, and when the next one takes over.
    value: T,
    until: Nanos,
}

impl<T: Copy> Steps<T> {
    /// `points` start at time 0 and increase.
    pub fn new(points: Vec<(Nanos, T)>) -> Steps<T> {
        let until = points.get(1).map_or(Nanos::MAX, |p| p.0);
        Steps { value: points[0].1, until, points: points.into(), cursor: 0 }
    }

    /// The value at `now`.
    #[inline]
    pub fn at(&mut self, now: Nanos) -> T {
        if now >= self.until {
            self.advance(now);
        }
        self.value
    }

    #[inline(never)]
    fn advance(&mut self, now: Nanos) {
        while now >= self.until {
            self.cursor += 1;
            self.value = self.points[self.cursor].1;
            self.until = self.points.get(self.cursor + 1).map_or(Nanos::MAX, |p| p.0);
        }
    }

    /// Which point the last call of `at` read.
    pub fn index(&self) -> u32 {
        self.cursor as u32
    }

    pub fn values(&self) -> impl Iterator<Item = T> + '_ {
        self.points.iter().map(|p| p.1)
    }

    pub fn times(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.points.iter().map(|p| p.0)
    }

    /// Integral of `value` over [start, end] in value-nanoseconds; looks at the points in between only.
    pub fn integral(&self, start: Nanos, end: Nanos, value: impl Fn(T) -> f64) -> f64 {
        let first = self.points.partition_point(|p| p.0 <= start).saturating_sub(1);
        let mut sum = 0.0;
        for (i, &(from, v)) in self.points.iter().enumerate().skip(first).take_while(|(_, p)| p.0 < end) {
            let until = self.points.get(i + 1).map_or(end, |p| p.0.min(end));
            sum += value(v) * (until - from.max(start)).0 as f64;
        }
        sum
    }
}

/// One-way delay, as steps or as straight lines between points. The present line is kept here, as the points are rarely in
/// the cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Delay {
    /// When the next point takes over.
    until: Nanos,
    /// Delay at the present point, when that was, and how much it rises (0 for a step) over which time.
    value: Nanos,
    from: Nanos,
    rise: i64,
    span: i64,
    points: Arc<[(Nanos, Nanos)]>,
    cursor: u32,
    interpolate: bool,
}

impl Delay {
    pub fn new(spec: &DelaySpec) -> Delay {
        let points = if spec.points.is_empty() { vec![(Nanos::ZERO, Nanos::ZERO)] } else { spec.points.clone() };
        let mut delay = Delay {
            until: Nanos::ZERO,
            value: Nanos::ZERO,
            from: Nanos::ZERO,
            rise: 0,
            span: 1,
            points: points.into(),
            cursor: 0,
            interpolate: spec.interpolate,
        };
        delay.read();
        delay
    }

    #[inline(always)]
    pub fn at(&mut self, now: Nanos) -> Nanos {
        if now >= self.until {
            self.advance(now);
        }
        if self.rise == 0 { self.value } else { self.between(now) }
    }

    #[cold]
    #[inline(never)]
    fn advance(&mut self, now: Nanos) {
        while now >= self.until {
            self.cursor += 1;
            self.read();
        }
    }

    /// The point at the cursor, and the line to the next one.
    fn read(&mut self) {
        let point = self.cursor as usize;
        (self.from, self.value) = self.points[point];
        (self.until, self.rise, self.span) = (Nanos::MAX, 0, 1);
        if let Some(&(until, next)) = self.points.get(point + 1) {
            self.until = until;
            if self.interpolate {
                (self.rise, self.span) = (next.0 as i64 - self.value.0 as i64, (until - self.from).0 as i64);
            }
        }
    }

    /// Apart from the straight way of a constant delay.
    #[cold]
    #[inline(never)]
    fn between(&self, now: Nanos) -> Nanos {
        let (rise, into, span) = (self.rise, now.saturating_sub(self.from).0 as i64, self.span);
        // Divisions of 128 bits take several times as long.
        let part = rise
            .checked_mul(into)
            .map_or_else(|| (i128::from(rise) * i128::from(into) / i128::from(span)) as i64, |product| product / span);
        Nanos(self.value.0.wrapping_add_signed(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_and_lines_interpolate() {
        let points = vec![(Nanos(0), Nanos(100)), (Nanos(10), Nanos(200)), (Nanos(20), Nanos(0))];
        let mut step = Delay::new(&DelaySpec { interpolate: false, points: points.clone() });
        let mut line = Delay::new(&DelaySpec { interpolate: true, points });
        let read = |d: &mut Delay| [0, 5, 10, 15, 25].map(|t| d.at(Nanos(t)).0);
        assert_eq!(read(&mut step), [100, 100, 200, 200, 0]);
        assert_eq!(read(&mut line), [100, 150, 200, 100, 0]);
    }

    #[test]
    fn integral_covers_the_last_open_step() {
        let steps = Steps::new(vec![(Nanos(0), 2.0), (Nanos(10), 4.0)]);
        let integral = |from, to| steps.integral(Nanos(from), Nanos(to), |v| v);
        assert_eq!([integral(0, 15), integral(0, 5), integral(5, 15), integral(12, 15)], [40.0, 10.0, 30.0, 12.0]);
        assert_eq!(integral(10, 10), 0.0);
    }
}
