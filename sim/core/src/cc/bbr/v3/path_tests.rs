//! The state machine over simulated paths (after the draft's example test cases).

use super::super::BW_SCALE;
use super::super::testing::{mbps, path, secs, watch};
use super::*;
use crate::spec::{GateSpec, LossSpec, NetworkSpec, TrafficSpec};
use crate::time::Nanos;

/// What one ACK leaves.
#[derive(Clone, Copy, Debug)]
struct Row {
    t_s: f64,
    mode: Mode,
    phase: Phase,
    round: u32,
    /// Segments per second.
    sample: f64,
    max_bw: f64,
    bw: f64,
    inflight_hi: u32,
    in_flight: u32,
    /// Without what the pacer will have seen delivered before the next packet leaves.
    in_network: u32,
    target: u32,
    cwnd: u32,
    product: u32,
    full_bw_reached: bool,
}

fn per_second(bw: u64) -> f64 {
    bw as f64 * 1e6 / f64::from(1u32 << BW_SCALE)
}

fn read<const DRAFT: bool>(bbr: &Bbr3<DRAFT>, conn: &Conn, rate: &RateSample) -> Row {
    Row {
        t_s: conn.now.secs_f64(),
        mode: bbr.mode,
        phase: bbr.probe.phase,
        round: bbr.rounds.count,
        sample: if rate.interval_us > 0 { f64::from(rate.delivered) * 1e6 / rate.interval_us as f64 } else { 0.0 },
        max_bw: per_second(bbr.max_bw()),
        bw: per_second(bbr.bw()),
        inflight_hi: bbr.bounds.inflight_hi,
        in_flight: conn.in_flight,
        in_network: bbr.in_flight_at_departure(conn, conn.in_flight),
        target: bbr.inflight(conn, bbr.max_bw(), UNIT),
        cwnd: conn.cwnd,
        product: bbr.bdp(conn, bbr.bw(), UNIT),
        full_bw_reached: bbr.full_bw_reached,
    }
}

fn rows(spec: &NetworkSpec) -> Vec<Row> {
    match spec.flows[0].controller.params["draft"] == "06" {
        true => watch(spec, Bbr3::<true>::new(), read),
        false => watch(spec, Bbr3::<false>::new(), read),
    }
}

/// Times in ProbeBW's `phase` from its first ACK to the ACK after its last: (first, after).
fn visits(rows: &[Row], phase: Phase) -> Vec<(Row, Row)> {
    let inside = |r: &Row| r.mode == Mode::ProbeBw && r.phase == phase;
    let mut visits = Vec::new();
    let mut first = None;
    for row in rows {
        match (first, inside(row)) {
            (None, true) => first = Some(*row),
            (Some(start), false) => {
                visits.push((start, *row));
                first = None;
            }
            _ => {}
        }
    }
    visits
}

#[test]
fn start_up_ends_three_rounds_after_the_last_growth_with_the_link_s_rate() {
    for controller in ["bbr3", "bbr3:06"] {
        let rows = rows(&path(controller, 100.0, 50.0, 3.0, 3.0));
        let end = rows.iter().position(|r| r.full_bw_reached).unwrap();
        assert_eq!(rows[end].mode, Mode::Drain);
        assert!((rows[end].max_bw / (100e6 / 12e3) - 1.0).abs() < 0.02, "{}", rows[end].max_bw);
        // The sample from which nothing grew by a quarter.
        let (mut full, mut since) = (0.0, 0);
        for row in &rows[..end] {
            if row.sample >= 1.25 * full {
                (full, since) = (row.sample, row.round);
            }
        }
        let rounds = rows[end].round - since;
        assert!(rounds == 3 || controller == "bbr3:06" && rounds <= 4, "{controller}: {rounds}");
    }
}

#[test]
fn drain_ends_when_drained_or_in_the_draft_after_three_rounds_of_too_low_a_rate() {
    for (controller, most) in [("bbr3", u32::MAX), ("bbr3:06", 4)] {
        let drain = |spec: &NetworkSpec| {
            let rows = rows(spec);
            let from = rows.iter().position(|r| r.mode == Mode::Drain).unwrap();
            let after = from + rows[from..].iter().position(|r| r.mode != Mode::Drain).unwrap();
            (rows[from], rows[after])
        };
        let spec = path(controller, 100.0, 50.0, 3.0, 3.0);
        let (from, after) = drain(&spec);
        assert!(from.in_flight > 3 * from.target / 2 && after.in_network <= after.target, "{from:?} {after:?}");
        assert!(after.round - from.round <= 3, "in a round or two");
        // A tenth of the rate goes just as Drain begins.
        let mut slower = spec.clone();
        slower.links[0].forward.rate.push((secs(from.t_s), mbps(50.0)));
        let (from, after) = drain(&slower);
        assert!(after.round - from.round <= most, "{} rounds", after.round - from.round);
        if controller == "bbr3" {
            assert!(after.in_network <= after.target);
        }
    }
}

#[test]
fn up_ends_by_plateau_after_three_rounds_and_down_when_drained() {
    let rows = rows(&path("bbr3", 100.0, 50.0, 3.0, 30.0));
    let ups = visits(&rows, Phase::Up);
    // A probe comes two to three seconds after the last one or a ProbeRTT, which comes every five: one or two in between.
    assert!((6..=11).contains(&ups.len()), "{}", ups.len());
    for (start, after) in ups.iter().filter(|v| v.1.mode == Mode::ProbeBw) {
        let rounds = after.round - start.round;
        assert!((3..=5).contains(&rounds) && after.phase == Phase::Down, "{rounds}");
    }
    for (_, after) in visits(&rows, Phase::Down).iter().filter(|v| v.1.mode == Mode::ProbeBw) {
        assert_eq!(after.phase, Phase::Cruise);
        assert!(after.in_network <= after.target, "{after:?}");
    }
}

#[test]
fn without_loss_an_application_s_limit_never_ends_start_up() {
    for controller in ["bbr3", "bbr3:06"] {
        let mut spec = path(controller, 100.0, 50.0, 1.0, 30.0);
        spec.flows[0].traffic = TrafficSpec::Cbr { rate: mbps(5.0), packet: None };
        let rows = rows(&spec);
        assert!(rows.len() > 5_000 && rows.iter().all(|r| !r.full_bw_reached));
        assert!(rows.iter().all(|r| matches!(r.mode, Mode::Startup | Mode::ProbeRtt)));
    }
}

#[test]
fn down_goes_straight_to_refill_when_its_wait_is_over_first() {
    // Short enough a path for the wait to be over (63 rounds) before the next ProbeRTT.
    let spec = path("bbr3", 100.0, 20.0, 3.0, 12.0);
    let (down, _) = visits(&rows(&spec), Phase::Down)[1];
    let mut slower = spec.clone();
    // A tenth less: DOWN's own gain does no more than keep what is queued.
    slower.links[0].forward.rate.push((secs(down.t_s), mbps(90.0)));
    let (from, after) = visits(&rows(&slower), Phase::Down)[1];
    assert!((from.t_s - down.t_s).abs() < 1e-9);
    assert_eq!((after.mode, after.phase), (Mode::ProbeBw, Phase::Refill), "{from:?} {after:?}");
    assert!((62..=63).contains(&(after.round - from.round)) || after.t_s - from.t_s >= 2.0);
    assert!(after.in_network > after.target);
}

#[test]
fn ten_times_the_rate_is_found_in_one_probe() {
    let mut spec = path("bbr3", 10.0, 50.0, 10.0, 15.0);
    spec.links[0].forward.rate.push((secs(6.0), mbps(100.0)));
    let rows = rows(&spec);
    let (start, after) = *visits(&rows, Phase::Up).iter().find(|v| v.0.t_s > 6.0).unwrap();
    let found = rows.iter().find(|r| r.t_s > 6.0 && r.max_bw >= 0.95 * 100e6 / 12e3).expect("found");
    assert!(found.t_s <= after.t_s, "{} {}", found.t_s, after.t_s);
    // 1.25 times as much per round: log(10) / log(1.25) = 10.3.
    assert!(found.round - start.round <= 16, "{}", found.round - start.round);
}

#[test]
fn bounds_hold_on_every_ack() {
    let mut lossy = path("bbr3", 20.0, 50.0, 1.0, 30.0);
    lossy.links[0].forward.loss = vec![(Nanos::ZERO, LossSpec::Bernoulli { p: 0.02 })];
    let mut changing = path("bbr3", 20.0, 50.0, 0.5, 30.0);
    changing.links[0].forward.rate.extend([(secs(8.0), mbps(2.0)), (secs(16.0), mbps(40.0))]);
    let mut outage = lossy.clone();
    outage.links[0].forward.loss.push((secs(10.0), LossSpec::Bernoulli { p: 0.5 }));
    outage.links[0].forward.loss.push((secs(12.0), LossSpec::Bernoulli { p: 0.001 }));
    for (i, spec) in [lossy, changing, path("bbr3", 20.0, 50.0, 0.1, 30.0), outage].iter().enumerate() {
        let rows = rows(spec);
        assert!(rows.iter().all(|r| r.bw <= r.max_bw), "{i}");
        let lowest = rows.iter().min_by_key(|r| r.inflight_hi).unwrap();
        // Below the least window it is no bound: half the packets lost leave as little in flight.
        assert!(lowest.inflight_hi >= if i < 3 { CWND_MIN } else { 1 }, "{i}: {lowest:?}");
        assert!(rows.iter().all(|r| r.cwnd >= CWND_MIN), "{i}");
    }
}

#[test]
fn aggregated_acks_raise_the_window_above_two_products() {
    let mut spec = path("bbr3", 100.0, 50.0, 2.0, 12.0);
    spec.links[0].reverse.gate = Some(GateSpec { period: Nanos::from_millis(40), phase: Nanos::ZERO });
    let rows = rows(&spec);
    let cruising = rows.iter().filter(|r| r.mode == Mode::ProbeBw && r.phase == Phase::Cruise);
    let above: Vec<f64> = cruising.map(|r| f64::from(r.cwnd) / f64::from(r.product)).collect();
    let mean = above.iter().sum::<f64>() / above.len() as f64;
    assert!(mean > 2.2, "{mean}");
}

#[test]
fn products_below_a_packet_leave_a_window_of_four_at_least() {
    let rows = rows(&path("bbr3", 0.1, 50.0, 1.0, 60.0));
    assert!(rows.iter().all(|r| r.cwnd >= 4));
    let settled: Vec<&Row> = rows.iter().filter(|r| r.t_s > 20.0).collect();
    // ProbeRTT's four are a queue here: the product it measures is of four packets, the window at most twice that and two.
    assert!(settled.iter().all(|r| (4..=10).contains(&r.cwnd)), "{:?}", settled.iter().map(|r| r.cwnd).max());
    assert!(settled.iter().all(|r| (r.max_bw / (1e5 / 12e3) - 1.0).abs() < 0.02));
}
