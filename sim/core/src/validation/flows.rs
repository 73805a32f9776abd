//! What flows may do: paths, traffic, receivers, proxies.

use crate::cc;
use crate::spec::{DirectionSpec, FlowSpec, NetworkSpec, ReceiverSpec, RelaySpec, SpecError, TrafficSpec, Way};
use crate::time::Nanos;

use super::{LATEST, MOST_BITS_PER_S, MOST_EVENTS, MOST_OBJECTS, delay, fail, probability, time, within};

impl NetworkSpec {
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

    pub(super) fn validate_flow(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        time(format_args!("flows[{i}].start"), flow.start)?;
        time(format_args!("flows[{i}].stop"), flow.stop.unwrap_or(Nanos::ZERO))?;
        delay(format_args!("flows[{i}].uplink_delay"), flow.uplink_delay)?;
        probability(flow.delay_preference, format_args!("flows[{i}].delay_preference"))?;
        self.validate_paths(i, flow)?;
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
        validate_receiver(i, flow)?;
        self.validate_transport(i, flow)?;
        let datagram = flow.controller.name == "udp";
        if !datagram {
            self.validate_number_of_packets(i, flow)?;
        }
        self.validate_traffic(i, flow)?;
        if !datagram && flow.quic.is_none() {
            cc::check(&flow.controller, &self.tcp).map_err(|e| SpecError(format!("flows[{i}].controller: {e}")))?;
        }
        Ok(())
    }

    /// QUIC has hosts of its own, which take the place of TCP's.
    fn validate_transport(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        let name = flow.controller.name.as_str();
        let Some(quic) = flow.quic else {
            let allowed = "a controller of TCP; those of quinn are for flows with transport quic";
            return if cc::QUINN.contains(&name) {
                fail(format!("flows[{i}].controller"), name, allowed)
            } else {
                Ok(())
            };
        };
        within(format_args!("flows[{i}].quic.mtu"), u32::from(quic.mtu), 1_200, 9_000)?;
        within(format_args!("flows[{i}].quic.ack_every"), quic.ack_every, 0, 1_000)?;
        let least = 2 * u64::from(quic.mtu);
        for (field, bytes) in [
            ("initial_window", quic.initial_window.unwrap_or(least)),
            ("stream_window", quic.stream_window),
            ("connection_window", quic.connection_window),
            ("send_window", quic.send_window),
        ] {
            if !(least..1 << 62).contains(&bytes) {
                return fail(
                    format!("flows[{i}].quic.{field}"),
                    bytes,
                    &format!("must lie in {least} .. 2^62 - 1 bytes"),
                );
            }
        }
        let proxied = |f: &FlowSpec| f.relays.is_some_and(|relay| relay.from == i);
        if flow.relays.is_some() || self.flows.iter().any(proxied) {
            return fail(format!("flows[{i}].quic"), "a proxy", "a proxy cannot split a connection of QUIC");
        }
        if flow.receiver != ReceiverSpec::Honest {
            return fail(format!("flows[{i}].receiver"), "not honest", "QUIC's receivers are honest");
        }
        cc::fits_quic(&flow.controller, &self.tcp).map_err(|e| SpecError(format!("flows[{i}].controller: {e}")))
    }

    fn validate_paths(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
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
        Ok(())
    }

    /// Segment numbers have 32 bits.
    fn validate_number_of_packets(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        let seconds = self.duration.secs_f64();
        for way in flow.ways() {
            let Some(most) = self.most_per_s(flow, way) else {
                let allowed = "some link has a rate, or a delay at all times";
                return fail(format!("flows[{i}].path"), "[..]", allowed);
            };
            let asked = match flow.traffic {
                TrafficSpec::Bytes { bytes } => bytes as f64 / f64::from(self.tcp.mss),
                _ => f64::INFINITY,
            };
            if (most * seconds).min(asked) > MOST_EVENTS {
                return fail("duration", self.duration.0, "a flow may send at most 4e9 packets");
            }
        }
        Ok(())
    }

    fn validate_traffic(&self, i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
        let datagram = flow.controller.name == "udp";
        let seconds = self.duration.secs_f64();
        let wire = match flow.traffic {
            TrafficSpec::Cbr { packet: Some(packet), .. } => packet,
            _ => self.tcp.mss + self.tcp.header_bytes,
        };
        let wire_bits = f64::from(wire) * 8.0;
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
        Ok(())
    }

    fn validate_relay(&self, i: usize, relay: RelaySpec) -> Result<(), SpecError> {
        let fail = |field: &str, value: &dyn std::fmt::Display, allowed: &str| {
            Err(SpecError(format!("flows[{i}].relays.{field} = {value}: {allowed}")))
        };
        let (least, most) = (2 * u64::from(self.tcp.mss), 1 << 40);
        if !(least..=most).contains(&relay.buffer) {
            return fail("buffer", &relay.buffer, &format!("must lie in {least} .. {most} bytes"));
        }
        if relay.from >= i {
            return fail("from", &relay.from, "an earlier flow");
        }
        let (first, second) = (&self.flows[relay.from], &self.flows[i]);
        let same = match (first.traffic, second.traffic) {
            (TrafficSpec::Bulk, TrafficSpec::Bulk) => true,
            (TrafficSpec::Bytes { bytes }, TrafficSpec::Bytes { bytes: others }) => bytes == others,
            _ => false,
        };
        let once = self.flows.iter().filter(|f| f.relays.is_some_and(|r| r.from == relay.from)).count() == 1;
        let honest = first.receiver == ReceiverSpec::Honest;
        if !same || !once || !honest || [first, second].iter().any(|f| f.controller.name == "udp") {
            let allowed =
                "a TCP flow that no other relays, with the same traffic, bulk or bytes, and an honest receiver";
            return fail("from", &relay.from, allowed);
        }
        Ok(())
    }
}

fn validate_receiver(i: usize, flow: &FlowSpec) -> Result<(), SpecError> {
    match flow.receiver {
        ReceiverSpec::Stretch { segments, hold } => {
            within(format_args!("flows[{i}].receiver.segments"), segments, 2, 1_000)?;
            delay(format_args!("flows[{i}].receiver.hold"), hold)?;
        }
        ReceiverSpec::Divide { parts } => within(format_args!("flows[{i}].receiver.parts"), parts, 2, 100)?,
        ReceiverSpec::Optimistic { share } => probability(share, format_args!("flows[{i}].receiver.share"))?,
        ReceiverSpec::Honest => {}
    }
    Ok(())
}
