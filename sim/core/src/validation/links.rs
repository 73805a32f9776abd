//! What a link's direction may be: schedules, disturbances, queue.

use std::fmt::Arguments;

use crate::packet::PROBE_BYTES;
use crate::spec::{CodelSpec, DirectionSpec, JitterSpec, LossSpec, Ordering, PieSpec, QueueSpec, RedSpec, SpecError};
use crate::time::Nanos;

use super::{LATEST, MOST_BITS_PER_S, MOST_BURST_BYTES, delay, fail, probability, time, within};

fn increasing<T>(points: &[(Nanos, T)], field: Arguments) -> Result<(), SpecError> {
    if points.first().is_some_and(|p| p.0 != Nanos::ZERO) {
        return fail(format_args!("{field}[0]"), points[0].0.0, "a schedule starts at time 0");
    }
    if let Some((at, _)) = points.last() {
        time(format_args!("{field}[{}]", points.len() - 1), *at)?;
    }
    match points.windows(2).position(|w| w[1].0 <= w[0].0) {
        Some(k) => fail(format_args!("{field}[{}]", k + 1), points[k + 1].0.0, "times must increase"),
        None => Ok(()),
    }
}

fn codel(target: Nanos, interval: Nanos, ce_threshold: Option<Nanos>, field: Arguments) -> Result<(), SpecError> {
    time(format_args!("{field}.queue.ce_threshold"), ce_threshold.unwrap_or(Nanos::ZERO))?;
    if target > interval || !(1_000..=100_000_000_000).contains(&interval.0) {
        return fail(format_args!("{field}.queue.interval"), interval.0, "must lie in 1 us .. 100 s, not below target");
    }
    Ok(())
}

impl DirectionSpec {
    pub(super) fn validate(&self, field: Arguments, packet: u64) -> Result<(), SpecError> {
        increasing(&self.rate, format_args!("{field}.rate"))?;
        increasing(&self.delay.points, format_args!("{field}.delay.points"))?;
        increasing(&self.loss, format_args!("{field}.loss"))?;
        if let Some((_, rate)) = self.rate.iter().find(|(_, r)| r.0 > MOST_BITS_PER_S) {
            return fail(format_args!("{field}.rate"), rate.0, "at most 1e12 bit/s (an empty schedule is unlimited)");
        }
        if self.burst > 0 {
            let packet = packet.max(PROBE_BYTES);
            if self.burst < packet || self.burst > MOST_BURST_BYTES {
                let allowed = format!("0, or a bucket for a packet: {packet} .. 2^31 bytes");
                return fail(format_args!("{field}.burst"), self.burst, &allowed);
            }
            if self.rate.is_empty() || self.rate.iter().any(|(_, r)| r.0 == 0) {
                return fail(format_args!("{field}.burst"), self.burst, "0 without a rate, or where it stops");
            }
        }
        probability(self.bleached, format_args!("{field}.bleached"))?;
        probability(self.marked, format_args!("{field}.marked"))?;
        for (k, point) in self.delay.points.iter().enumerate() {
            delay(format_args!("{field}.delay.points[{k}]"), point.1)?;
        }
        self.validate_jitter(field)?;
        if let Some(late) = &self.late {
            probability(late.p, format_args!("{field}.late.p"))?;
            delay(format_args!("{field}.late.delay"), late.delay)?;
            if self.ordering == Ordering::Fifo {
                return fail(format_args!("{field}.late.p"), late.p, "only where packets may overtake");
            }
        }
        if let Some(gate) = &self.gate
            && !(1..=100_000_000_000).contains(&gate.period.0)
        {
            return fail(format_args!("{field}.gate.period"), gate.period.0, "must lie in 1 ns .. 100 s");
        }
        if let Some(gate) = &self.gate {
            time(format_args!("{field}.gate.phase"), gate.phase)?;
        }
        self.validate_loss(field)?;
        let limit = self.queue_limit(field, packet)?;
        if limit < packet {
            return fail(format_args!("{field}.queue.limit"), limit, &format!("must hold a packet of {packet} bytes"));
        }
        Ok(())
    }

    fn validate_jitter(&self, field: Arguments) -> Result<(), SpecError> {
        if let Some(jitter) = &self.jitter {
            let (levels, times) = match *jitter {
                JitterSpec::Gamma { mean, shape, tau } => {
                    within(format_args!("{field}.jitter.shape"), shape, 1, 16)?;
                    ([mean; 3], [("tau", tau); 2])
                }
                JitterSpec::SineAr1 { mean, sine_sd, sine_period, ar_sd, ar_tau } => {
                    ([mean, sine_sd, ar_sd], [("sine_period", sine_period), ("ar_tau", ar_tau)])
                }
            };
            for (name, level) in ["mean", "sine_sd", "ar_sd"].into_iter().zip(levels) {
                if level > Nanos::from_secs(100) {
                    return fail(format_args!("{field}.jitter.{name}"), level.0, "at most 100 s");
                }
            }
            for (name, time) in times {
                if !(100_000..=LATEST).contains(&time.0) {
                    return fail(format_args!("{field}.jitter.{name}"), time.0, "must lie in 0.1 ms .. 1e6 s");
                }
            }
        }
        Ok(())
    }

    fn validate_loss(&self, field: Arguments) -> Result<(), SpecError> {
        for (k, (_, loss)) in self.loss.iter().enumerate() {
            match *loss {
                LossSpec::None => {}
                LossSpec::Bernoulli { p } => probability(p, format_args!("{field}.loss[{k}].p"))?,
                LossSpec::GilbertElliott { good_loss, bad_loss, to_bad_per_s, to_good_per_s } => {
                    probability(good_loss, format_args!("{field}.loss[{k}].good_loss"))?;
                    probability(bad_loss, format_args!("{field}.loss[{k}].bad_loss"))?;
                    for (name, rate) in [("to_bad_per_s", to_bad_per_s), ("to_good_per_s", to_good_per_s)] {
                        if !(0.0..=1e6).contains(&rate) {
                            return fail(
                                format_args!("{field}.loss[{k}].{name}"),
                                rate,
                                "a rate lies in 0 .. 1e6 per s",
                            );
                        }
                    }
                }
                LossSpec::Load { idle, full, tau } => {
                    probability(idle, format_args!("{field}.loss[{k}].idle"))?;
                    probability(full, format_args!("{field}.loss[{k}].full"))?;
                    within(format_args!("{field}.loss[{k}].tau"), tau.0, 1_000, 100_000_000_000)?;
                    if self.rate.is_empty() {
                        return fail(format_args!("{field}.loss[{k}].kind"), "load", "only where the link has a rate");
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the queue; returns its limit in bytes, where packets have at most so many.
    fn queue_limit(&self, field: Arguments, packet: u64) -> Result<u64, SpecError> {
        let limit = match self.queue {
            QueueSpec::DropTailBytes { limit } | QueueSpec::DropFrontBytes { limit } => limit,
            QueueSpec::DropTailPackets { limit } | QueueSpec::DropFrontPackets { limit } => {
                limit.saturating_mul(packet)
            }
            QueueSpec::Viasat { limit, drop_probability, .. } => {
                probability(drop_probability, format_args!("{field}.queue.drop_probability"))?;
                limit
            }
            QueueSpec::Codel(CodelSpec { limit, target, interval, ce_threshold, .. }) => {
                codel(target, interval, ce_threshold, field)?;
                limit.saturating_mul(packet)
            }
            QueueSpec::FqCodel(queue) => {
                codel(queue.target, queue.interval, queue.ce_threshold, field)?;
                for (name, value) in
                    [("flows", queue.flows), ("quantum", queue.quantum), ("drop_batch", queue.drop_batch)]
                {
                    if !(1..=1 << 20).contains(&value) {
                        return fail(format_args!("{field}.queue.{name}"), value, "must lie in 1 .. 2^20");
                    }
                }
                if queue.memory_limit < 4096 {
                    return fail(format_args!("{field}.queue.memory_limit"), queue.memory_limit, "at least 4096 bytes");
                }
                queue.limit.saturating_mul(packet)
            }
            QueueSpec::Pie(PieSpec { limit, target, update, alpha, beta, .. }) => {
                for (name, time) in [("target", target), ("update", update)] {
                    if !(1_000..=10_000_000_000).contains(&time.0) {
                        return fail(format_args!("{field}.queue.{name}"), time.0, "must lie in 1 us .. 10 s");
                    }
                }
                for (name, gain) in [("alpha", alpha), ("beta", beta)] {
                    if gain > 32 {
                        return fail(format_args!("{field}.queue.{name}"), gain, "must lie in 0 .. 32 (sixteenths)");
                    }
                }
                limit.saturating_mul(packet)
            }
            QueueSpec::DualPi2(queue) => {
                for (name, time) in [("target", queue.target), ("update", queue.update), ("step", queue.step)] {
                    within(format_args!("{field}.queue.{name}"), time.0, 1_000, 10_000_000_000)?;
                }
                for (name, gain) in [("alpha", queue.alpha), ("beta", queue.beta)] {
                    within(format_args!("{field}.queue.{name}"), gain, 0, (1 << 23) - 1)?;
                }
                within(format_args!("{field}.queue.coupling"), queue.coupling, 1, 255)?;
                within(format_args!("{field}.queue.classic_weight"), queue.classic_weight, 0, 100)?;
                queue.limit.saturating_mul(packet)
            }
            QueueSpec::Red(RedSpec { limit, min, max, max_probability, weight_log2, packet, .. }) => {
                within(format_args!("{field}.queue.limit"), limit, 1, u64::from(u32::MAX))?;
                probability(max_probability, format_args!("{field}.queue.max_probability"))?;
                if min > max || max > limit {
                    return fail(format_args!("{field}.queue.max"), max, "must lie in min .. limit");
                }
                if !(1..32).contains(&weight_log2) || !(1..=65_535).contains(&packet) {
                    return fail(
                        format_args!("{field}.queue.weight_log2"),
                        weight_log2,
                        "1 .. 31, with a packet of 1 .. 65535 bytes",
                    );
                }
                limit
            }
        };
        Ok(limit)
    }
}
