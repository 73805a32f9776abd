//! What can be simulated: every number of a specification is bounded here, so that nothing behind it overflows, hangs or
//! runs out of memory. An error names the field, what it holds and what is allowed.

use std::fmt::{Arguments, Display};

use super::*;
use crate::link::jitter::KNOTS_PER_TAU;
use crate::packet::PROBE_BYTES;

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

    /// The most packets a second that data of this flow can make on a path: by its tightest link, or, where no link has a
    /// rate, by a window per round trip. None if a round trip may take no time.
    fn most_per_s(&self, flow: &FlowSpec, way: Way) -> Option<f64> {
        let tcp = &self.tcp;
        let wire_bits = f64::from(tcp.mss + tcp.header_bytes) * 8.0;
        let direction =
            |i: usize| if i.is_multiple_of(2) { &self.links[i / 2].forward } else { &self.links[i / 2].reverse };
        let directions = || way.data().chain(way.acks()).map(direction);
        let delays = directions().map(|d| d.delay.points.iter().map(|p| p.1.0).min().unwrap_or(0)).sum::<u64>();
        let served = directions().filter(|d| !d.rate.is_empty()).count() as u64;
        // No packet is served in less than a nanosecond.
        let least_rtt = flow.uplink_delay.0 + delays + served;
        if least_rtt == 0 {
            return None;
        }
        let fastest = |d: &DirectionSpec| d.rate.iter().map(|r| r.1.0).max();
        let by_link = way.data().map(direction).filter_map(fastest).min().map(|rate| rate as f64 / wire_bits);
        // Half of a receive buffer is offered as window.
        let window = tcp.rmem[2].max(tcp.rmem_default()) / 2;
        let by_window = window as f64 / f64::from(tcp.mss) / Nanos(least_rtt).secs_f64();
        Some(by_link.map_or(by_window, |by_link| by_link.min(by_window)))
    }

    fn validate_flow(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        time(format_args!("flows[{i}].start"), flow.start)?;
        time(format_args!("flows[{i}].stop"), flow.stop.unwrap_or(Nanos::ZERO))?;
        delay(format_args!("flows[{i}].uplink_delay"), flow.uplink_delay)?;
        for way in flow.ways() {
            let paths = std::iter::once(("path", way.path)).chain(way.return_path.map(|path| ("return_path", path)));
            for (name, path) in paths {
                if path.is_empty() || path.len() > 200 {
                    return fail(format!("flows[{i}].{name}"), path.len(), "a path has 1 .. 200 links");
                }
                if let Some(link) = path.iter().find(|&&l| l >= self.links.len()) {
                    return fail(format!("flows[{i}].{name}"), link, "no such link");
                }
            }
        }
        let mut before = Nanos::ZERO;
        for (k, reroute) in flow.reroutes.iter().enumerate() {
            if reroute.at <= before {
                return fail(format!("flows[{i}].reroutes[{k}]"), reroute.at.0, "times must increase from above 0");
            }
            time(format_args!("flows[{i}].reroutes[{k}]"), reroute.at)?;
            before = reroute.at;
        }
        if let Some(before) = flow.follows {
            let relieves = |f: &FlowSpec| f.controller.name == "external" && f.stop == Some(flow.start);
            let once = self.flows.iter().filter(|f| f.follows == Some(before)).count() == 1;
            if before >= i || !once || flow.controller.name != "external" || !relieves(&self.flows[before]) {
                let allowed = "an earlier flow, followed once, that stops when this one starts; both external";
                return fail(format!("flows[{i}].follows"), before, allowed);
            }
        }
        if let Some(relay) = flow.relays {
            self.validate_relay(i, relay)?;
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return fail(format!("flows[{i}].stop"), flow.stop.unwrap().0, "must be later than start");
        }
        let datagram = flow.controller.name == "udp";
        let seconds = self.duration.secs_f64();
        let wire = match flow.traffic {
            TrafficSpec::Cbr { packet: Some(packet), .. } => packet,
            _ => self.tcp.mss + self.tcp.header_bytes,
        };
        let wire_bits = f64::from(wire) * 8.0;
        match flow.receiver {
            ReceiverSpec::Stretch { segments, hold } => {
                within(format_args!("flows[{i}].receiver.segments"), segments, 2, 1_000)?;
                delay(format_args!("flows[{i}].receiver.hold"), hold)?;
            }
            ReceiverSpec::Divide { parts } => within(format_args!("flows[{i}].receiver.parts"), parts, 2, 100)?,
            ReceiverSpec::Optimistic { share } => probability(share, format_args!("flows[{i}].receiver.share"))?,
            ReceiverSpec::Honest => {}
        }
        for way in flow.ways().filter(|_| !datagram) {
            let Some(most) = self.most_per_s(flow, way) else {
                let allowed = "some link has a rate, or a delay at all times";
                return fail(format!("flows[{i}].path"), "[..]", allowed);
            };
            let asked = match flow.traffic {
                TrafficSpec::Bytes { bytes } => bytes as f64 / f64::from(self.tcp.mss),
                _ => f64::INFINITY,
            };
            // Segment numbers have 32 bits.
            if (most * seconds).min(asked) > MOST_EVENTS {
                return fail("duration", self.duration.0, "a flow may send at most 4e9 packets");
            }
        }
        match flow.traffic {
            TrafficSpec::Bytes { bytes } if bytes == 0 || bytes.div_ceil(u64::from(self.tcp.mss)) > 1 << 31 => {
                return fail(format!("flows[{i}].traffic.bytes"), bytes, "must make 1 .. 2^31 segments");
            }
            TrafficSpec::Cbr { packet: Some(packet), .. }
                if !datagram || !(self.tcp.header_bytes + 1..=u32::from(u16::MAX)).contains(&packet) =>
            {
                let allowed = "datagrams of udp alone, more than their headers, at most 65535 bytes";
                return fail(format!("flows[{i}].traffic.packet"), packet, allowed);
            }
            TrafficSpec::Cbr { rate, .. } | TrafficSpec::OnOff { rate: Some(rate), .. }
                if !(1..=MOST_BITS_PER_S).contains(&rate.0) || rate.0 as f64 * seconds / wire_bits > MOST_EVENTS =>
            {
                let allowed = "must lie in 1 .. 1e12 bit/s, and make at most 4e9 packets within duration";
                return fail(format!("flows[{i}].traffic.rate"), rate.0, allowed);
            }
            TrafficSpec::OnOff { on, off, .. }
                if !(1..=LATEST).contains(&on.0)
                    || !(1..=LATEST).contains(&off.0)
                    || 2.0 * seconds / (on.secs_f64() + off.secs_f64()) > MOST_EVENTS =>
            {
                let allowed =
                    "mean on and off times must lie in 1 ns .. 1e6 s, and change at most 4e9 times within duration";
                return fail(format!("flows[{i}].traffic.on"), on.0, allowed);
            }
            TrafficSpec::Objects { per_s, mean_bytes, sigma } => {
                for (name, value, least, most) in
                    [("per_s", per_s, 1e-6, 1e4), ("mean_bytes", mean_bytes, 1.0, 1e12), ("sigma", sigma, 0.0, 5.0)]
                {
                    if !(least..=most).contains(&value) {
                        let allowed = format!("must lie in {least} .. {most}");
                        return fail(format!("flows[{i}].traffic.{name}"), value, &allowed);
                    }
                }
                if per_s * seconds > MOST_OBJECTS {
                    return fail(format!("flows[{i}].traffic.per_s"), per_s, "at most 1e7 objects within duration");
                }
                if datagram {
                    return fail(
                        format!("flows[{i}].controller"),
                        "udp",
                        "a datagram sender needs traffic with a rate",
                    );
                }
            }
            TrafficSpec::Bulk | TrafficSpec::Bytes { .. } | TrafficSpec::OnOff { rate: None, .. } if datagram => {
                return fail(format!("flows[{i}].controller"), "udp", "a datagram sender needs traffic with a rate");
            }
            _ => {}
        }
        if !datagram {
            cc::check(&flow.controller, &self.tcp).map_err(|e| SpecError(format!("flows[{i}].controller: {e}")))?;
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
            within("tcp.ssthresh_cache", segments, 2, cc::SSTHRESH_INFINITE - 1)?;
        }
        Ok(())
    }
}

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

fn probability(p: f64, field: Arguments) -> Result<(), SpecError> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { fail(field, p, "a probability lies in 0 .. 1") }
}

fn codel(target: Nanos, interval: Nanos, ce_threshold: Option<Nanos>, field: Arguments) -> Result<(), SpecError> {
    time(format_args!("{field}.queue.ce_threshold"), ce_threshold.unwrap_or(Nanos::ZERO))?;
    if target > interval || !(1_000..=100_000_000_000).contains(&interval.0) {
        return fail(format_args!("{field}.queue.interval"), interval.0, "must lie in 1 us .. 100 s, not below target");
    }
    Ok(())
}

impl DirectionSpec {
    fn validate(&self, field: Arguments, packet: u64) -> Result<(), SpecError> {
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
        if limit < packet {
            return fail(format_args!("{field}.queue.limit"), limit, &format!("must hold a packet of {packet} bytes"));
        }
        Ok(())
    }
}
