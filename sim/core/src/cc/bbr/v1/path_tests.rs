//! Version 1 over simulated paths.

use super::super::BW_SCALE;
use super::super::testing::{mbps, path, watch};
use super::*;
use crate::spec::{GateSpec, TrafficSpec};
use crate::time::Nanos;

#[test]
fn a_sample_never_exceeds_the_rate_at_which_its_flight_was_sent() {
    // Sent at 10 Mbit/s of 100, once the first windows have caught up; acknowledged in bunches.
    let mut spec = path("bbr", 100.0, 50.0, 1.0, 10.0);
    spec.flows[0].traffic = TrafficSpec::Cbr { rate: mbps(10.0), packet: None };
    spec.links[0].reverse.gate = Some(GateSpec { period: Nanos::from_millis(40), phase: Nanos::ZERO });
    let samples = watch(&spec, Bbr::new(Kernel::V6, Variant::default()), |_, conn, rate| {
        (rate.interval_us > 0 && conn.now > Nanos::from_secs(2))
            .then(|| f64::from(rate.delivered) * 12e3 / rate.interval_us as f64)
    });
    let valid: Vec<f64> = samples.into_iter().flatten().collect();
    assert!(valid.len() > 150, "{}", valid.len());
    let highest = valid.iter().copied().fold(0.0, f64::max);
    assert!((9.5..=10.01).contains(&highest), "{highest} Mbit/s");
}

#[test]
fn samples_of_probe_rtt_do_not_enter_the_maximum() {
    let spec = path("bbr", 50.0, 50.0, 1.0, 30.0);
    let rows = watch(&spec, Bbr::new(Kernel::V6, Variant::default()), |bbr, conn, rate| {
        let sample = sample_rate(rate).unwrap_or(0);
        (conn.now.secs_f64(), bbr.mode, sample, bbr.max_bw.get())
    });
    let dips = rows.iter().filter(|r| r.1 == Mode::ProbeRtt && r.2 < r.3 / 2).count();
    assert!(dips > 10, "{dips}");
    let full = 50e6 / 12e3 / 1e6 * f64::from(1u32 << BW_SCALE);
    assert!(rows.iter().filter(|r| r.0 > 2.0).all(|r| (r.3 as f64 / full - 1.0).abs() < 0.02));
}

#[test]
fn aggregated_acks_raise_the_window_above_two_products_but_not_in_linux_4_15() {
    let mean = |kernel| {
        let mut spec = path("bbr", 100.0, 50.0, 2.0, 9.0);
        spec.tcp.kernel = kernel;
        spec.links[0].reverse.gate = Some(GateSpec { period: Nanos::from_millis(40), phase: Nanos::ZERO });
        let windows = watch(&spec, Bbr::new(kernel, Variant::default()), |bbr, conn, _| {
            let product = bbr.bdp(conn, bbr.bw(), UNIT);
            (bbr.mode == Mode::ProbeBw).then(|| f64::from(conn.cwnd) / f64::from(product))
        });
        let windows: Vec<f64> = windows.into_iter().flatten().collect();
        windows.iter().sum::<f64>() / windows.len() as f64
    };
    let (v6, v4_15) = (mean(Kernel::V6), mean(Kernel::V4_15));
    assert!(v6 > 2.2 && v4_15 < 2.2, "{v6} {v4_15}");
}

#[test]
fn products_below_a_packet_leave_a_window_of_four_at_least() {
    let spec = path("bbr", 0.1, 50.0, 1.0, 60.0);
    let rows =
        watch(&spec, Bbr::new(Kernel::V6, Variant::default()), |bbr, conn, _| (conn.now, conn.cwnd, bbr.max_bw.get()));
    assert!(rows.iter().all(|r| r.1 >= CWND_MIN));
    let full = 1e5 / 12e3 / 1e6 * f64::from(1u32 << BW_SCALE);
    let settled = rows.iter().filter(|r| r.0 > Nanos::from_secs(20));
    assert!(settled.clone().all(|r| (r.2 as f64 / full - 1.0).abs() < 0.02));
    assert!(settled.clone().all(|r| r.1 <= 16), "{:?}", settled.map(|r| r.1).max());
}
