//! What can be simulated: every number of a specification is bounded here, so that nothing behind it overflows, hangs or
//! runs out of memory. An error names the field, what it holds and what is allowed.

mod flows;
mod links;

use std::fmt::{Arguments, Display};

use crate::link::jitter::KNOTS_PER_TAU;
use crate::spec::{
    DirectionSpec, JitterSpec, LossSpec, NetworkSpec, SSTHRESH_INFINITE, SpecError, SsthreshCache, TcpSpec,
};
use crate::time::Nanos;

/// The latest instant and the longest time, nanoseconds: a million seconds. Keys of the tournament tree hold as much.
const LATEST: u64 = 1_000_000_000_000_000;
/// The most that may happen of one kind: packets of a flow, whose numbers have 32 bits, steps of a random process.
const MOST_EVENTS: f64 = 4e9;
const MOST_OBJECTS: f64 = 1e7;
const MOST_BITS_PER_S: u64 = 1_000_000_000_000;
/// As many bytes, in bits times 10^9, still fit 64 bits.
const MOST_BURST_BYTES: u64 = 1 << 31;

fn fail<T>(field: impl Display, value: impl Display, allowed: &str) -> Result<T, SpecError> {
    Err(SpecError(format!("{field} = {value}: {allowed}")))
}

fn within<T: PartialOrd + Display>(field: impl Display, value: T, least: T, most: T) -> Result<(), SpecError> {
    if value >= least && value <= most { Ok(()) } else { fail(field, value, &format!("must lie in {least} .. {most}")) }
}

fn time(field: impl Display, time: Nanos) -> Result<(), SpecError> {
    if time.0 <= LATEST { Ok(()) } else { fail(field, time.0, "at most 1e6 s") }
}

fn delay(field: impl Display, delay: Nanos) -> Result<(), SpecError> {
    if delay <= Nanos::from_secs(1_000) { Ok(()) } else { fail(field, delay.0, "at most 1000 s") }
}

fn probability(p: f64, field: Arguments) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { fail(field, p, "a probability lies in 0 .. 1") }
}

impl NetworkSpec {
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.duration.0 == 0 {
            return fail("duration", 0, "must be positive");
        }
        time("duration", self.duration)?;
        delay("noise.send_jitter", self.noise.send_jitter)?;
        delay("noise.queue_run_gap", self.noise.queue_run_gap)?;
        delay("noise.start_jitter", self.noise.start_jitter)?;
        let tcp = &self.tcp;
        tcp.validate()?;
        if self.links.is_empty() {
            return fail("links", "[]", "at least one link");
        }
        for (i, link) in self.links.iter().enumerate() {
            let wire = u64::from(tcp.mss + tcp.header_bytes);
            link.forward.validate(format_args!("links[{i}].forward"), wire)?;
            link.reverse.validate(format_args!("links[{i}].reverse"), u64::from(tcp.ack_bytes))?;
            self.validate_work(format_args!("links[{i}].forward"), &link.forward)?;
            self.validate_work(format_args!("links[{i}].reverse"), &link.reverse)?;
            let mut end = Nanos::ZERO;
            for (k, outage) in link.outages.iter().enumerate() {
                time(format_args!("links[{i}].outages[{k}].at"), outage.at)?;
                time(format_args!("links[{i}].outages[{k}].duration"), outage.duration)?;
                if outage.at < end {
                    return fail(
                        format!("links[{i}].outages[{k}].at"),
                        outage.at.0,
                        "outages must not overlap, in order",
                    );
                }
                end = outage.at + outage.duration;
            }
            for (k, handover) in link.handovers.iter().enumerate() {
                time(format_args!("links[{i}].handovers[{k}].at"), handover.at)?;
                time(format_args!("links[{i}].handovers[{k}].duration"), handover.duration)?;
            }
            if let Some(k) = link.handovers.windows(2).position(|w| w[1].at <= w[0].at) {
                let at = link.handovers[k + 1].at.0;
                return fail(format!("links[{i}].handovers[{}].at", k + 1), at, "times must increase");
            }
        }
        if self.flows.is_empty() {
            return fail("flows", "[]", "at least one flow");
        }
        for (i, flow) in self.flows.iter().enumerate() {
            self.validate_flow(i, flow)?;
        }
        Ok(())
    }

    /// What happens of itself on a link, whoever uses it, happens a bounded number of times.
    fn validate_work(&self, field: Arguments, direction: &DirectionSpec) -> Result<(), SpecError> {
        let seconds = self.duration.secs_f64();
        let few = |name: Arguments, value: f64, times: f64| {
            if times <= MOST_EVENTS { Ok(()) } else { fail(name, value, "more than 4e9 steps within duration") }
        };
        if let Some(jitter) = &direction.jitter {
            let (tau, processes) = match *jitter {
                JitterSpec::Gamma { shape, tau, .. } => (tau, 2 * shape),
                JitterSpec::SineAr1 { ar_tau, .. } => (ar_tau, 1),
            };
            let steps = KNOTS_PER_TAU * seconds / tau.secs_f64() * f64::from(processes);
            few(format_args!("{field}.jitter.tau"), tau.0 as f64, steps)?;
        }
        for (k, (_, loss)) in direction.loss.iter().enumerate() {
            if let LossSpec::GilbertElliott { to_bad_per_s, to_good_per_s, .. } = *loss {
                let per_s = 2.0 * to_bad_per_s.min(to_good_per_s);
                few(format_args!("{field}.loss[{k}].to_bad_per_s"), to_bad_per_s, per_s * seconds)?;
            }
        }
        Ok(())
    }
}

impl TcpSpec {
    fn validate(&self) -> Result<(), SpecError> {
        within("tcp.mss", self.mss, 1, 65_535)?;
        within("tcp.header_bytes", self.header_bytes, 0, 65_535)?;
        if self.mss + self.header_bytes > u32::from(u16::MAX) {
            return fail("tcp.mss", self.mss, "mss + header_bytes must lie in 1 .. 65535");
        }
        within("tcp.ack_bytes", self.ack_bytes, 1, 1500)?;
        within("tcp.initial_cwnd", self.initial_cwnd, 1, 10_000)?;
        within("tcp.hz", self.hz, 1, 10_000)?;
        if 1_000_000 % self.hz != 0 {
            return fail("tcp.hz", self.hz, "a tick must be a whole number of microseconds");
        }
        within("tcp.gro_segments", self.gro_segments, 1, 64)?;
        for (name, sizes) in [("rmem", self.rmem), ("wmem", self.wmem)] {
            for (k, bytes) in sizes.into_iter().enumerate() {
                within(format_args!("tcp.{name}[{k}]"), bytes, 0, u64::from(u32::MAX))?;
            }
        }
        // Towards a smaller window Linux sends smaller segments (`tcp_bound_to_half_wnd`).
        let least = 4 * (u64::from(self.mss) + 12);
        if self.rmem_default() < least {
            let allowed = format!("at least {least}: half of it is offered as window, which is to hold two segments");
            return fail("tcp.rmem[1]", self.rmem_default(), &allowed);
        }
        if let Some(SsthreshCache::Segments(segments)) = self.ssthresh_cache {
            within("tcp.ssthresh_cache", segments, 2, SSTHRESH_INFINITE - 1)?;
        }
        Ok(())
    }
}
