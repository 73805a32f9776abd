//! Receivers that acknowledge seldom, in parts or too early, packets that come late, and datagrams on their way.

mod common;

use orbitcc_core::spec::*;
use orbitcc_core::time::Nanos;
use orbitcc_core::units::BitRate;
use orbitcc_core::world::totals::FlowTotals;
use orbitcc_core::world::{Policies, World};

use common::{bdp_bytes, dumbbell, secs};

fn totals(spec: &NetworkSpec) -> Vec<FlowTotals> {
    let mut world = World::new(spec, &Policies::new(), secs(1.0)).unwrap();
    world.run();
    common::check_conservation(&world).unwrap();
    world.flow_totals()
}

/// Two flows share 20 Mbit/s; the first one's receiver is of this kind.
fn beside_an_honest_one(receiver: ReceiverSpec, controller: &str) -> Vec<FlowTotals> {
    let mut spec = dumbbell(20.0, 40.0, bdp_bytes(20.0, 40.0), 90.0, &[controller, controller]);
    spec.noise = NoiseSpec {
        send_jitter: Nanos::from_micros(600),
        start_jitter: Nanos::from_millis(40),
        ..NoiseSpec::default()
    };
    spec.flows[0].receiver = receiver;
    totals(&spec)
}

#[test]
fn parts_of_acknowledgements_bring_an_attacker_nothing() {
    let honest = beside_an_honest_one(ReceiverSpec::Honest, "reno");
    let divided = beside_an_honest_one(ReceiverSpec::Divide { parts: 8 }, "reno");
    let share = |t: &[FlowTotals]| t[0].goodput_mbps / (t[0].goodput_mbps + t[1].goodput_mbps);
    assert!((share(&divided) / share(&honest) - 1.0).abs() < 0.2, "{} {}", share(&divided), share(&honest));
}

#[test]
fn an_optimistic_receiver_hides_its_losses_and_makes_its_sender_flood_the_link() {
    let got = beside_an_honest_one(ReceiverSpec::Optimistic { share: 0.8 }, "cubic");
    // 90 s of 20 Mbit/s are 150,000 packets.
    assert!(got[0].sent_packets > 10 * 150_000, "{}", got[0].sent_packets);
    assert_eq!(got[0].retransmitted_packets, 0);
    assert!(got[0].received_bytes < got[0].sent_packets * 1448);
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_ignored() {
    // All of half a round trip ahead, of a flow that slows down at once: some of that has not been sent.
    let mut spec = dumbbell(20.0, 40.0, 20_000, 20.0, &["reno"]);
    spec.flows[0].receiver = ReceiverSpec::Optimistic { share: 1.0 };
    spec.links[0].forward.rate.push((secs(5.0), BitRate(1_000_000)));
    assert!(totals(&spec)[0].received_bytes > 0);
}

#[test]
fn a_receiver_that_stretches_sends_one_acknowledgement_for_many_segments() {
    let acks = |receiver| {
        let mut spec = dumbbell(20.0, 40.0, bdp_bytes(20.0, 40.0), 20.0, &["cubic"]);
        spec.flows[0].receiver = receiver;
        let mut world = World::new(&spec, &Policies::new(), secs(1.0)).unwrap();
        world.run();
        let data = world.flow_totals()[0].sent_packets;
        data as f64 / world.link_directions()[1].counters.arrived as f64
    };
    assert!((1.0..2.1).contains(&acks(ReceiverSpec::Honest)));
    let stretched = acks(ReceiverSpec::Stretch { segments: 10, hold: Nanos::from_millis(40) });
    assert!((7.0..10.1).contains(&stretched), "{stretched}");
}

#[test]
fn late_packets_are_overtaken_not_lost() {
    let mut spec = dumbbell(10.0, 40.0, 1_000_000, 20.0, &["udp"]);
    spec.flows[0].traffic = TrafficSpec::Cbr { rate: BitRate(5_000_000), packet: Some(500) };
    spec.links[0].forward.ordering = Ordering::Overtaking;
    spec.links[0].forward.late = Some(LateSpec { p: 0.1, delay: Nanos::from_millis(40) });
    let got = &totals(&spec)[0];
    // 25,000 datagrams of 500 bytes; a tenth of them takes 60 ms instead of 20.
    assert!(got.received_datagrams + 100 > got.sent_packets && got.sent_packets > 24_900);
    let [median, p95, p99] = got.delay_percentiles_ms;
    assert!((20.0..21.0).contains(&median) && (60.0..61.5).contains(&p95) && (60.0..61.5).contains(&p99));
    assert!(got.late_share < 1e-9);
}

#[test]
fn late_packets_need_a_link_on_which_others_may_overtake() {
    let mut spec = dumbbell(10.0, 40.0, 1_000_000, 20.0, &["reno"]);
    spec.links[0].forward.late = Some(LateSpec { p: 0.1, delay: Nanos::from_millis(40) });
    let refused = World::new(&spec, &Policies::new(), secs(1.0)).err().unwrap();
    assert!(refused.to_string().contains("forward.late.p"), "{refused}");
}
