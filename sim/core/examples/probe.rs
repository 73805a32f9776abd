#[path = "../tests/common/mod.rs"]
mod common;
use common::*;
// probe RATE RTT BUFFER SECONDS STEP CONTROLLER...
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let f = |i: usize| a[i].parse::<f64>().unwrap();
    let flows: Vec<&str> = a[5..].iter().map(|s| s.as_str()).collect();
    let mut spec = dumbbell(f(0), f(1), f(2) as u64, f(3), &flows);
    if let Ok(p) = std::env::var("LOSS") {
        spec.links[0].forward.loss =
            vec![(orbitcc_core::time::Nanos::ZERO, orbitcc_core::spec::LossSpec::Bernoulli { p: p.parse().unwrap() })];
    }
    if let Ok(p) = std::env::var("HZ") {
        spec.tcp.hz = p.parse().unwrap();
    }
    if let Ok(p) = std::env::var("SEED") {
        spec.seed = p.parse().unwrap();
    }
    if let Ok(p) = std::env::var("STEP") {
        let v: Vec<f64> = p.split(',').map(|x| x.parse().unwrap()).collect();
        let pts = delay(&[(0.0, f(1) / 2.0), (v[0], v[1] / 2.0)]);
        spec.links[0].forward.delay = pts.clone();
        spec.links[0].reverse.delay = pts;
    }
    if let Ok(p) = std::env::var("RATE") {
        let v: Vec<f64> = p.split(',').map(|x| x.parse().unwrap()).collect();
        spec.links[0].forward.rate.push((secs(v[0]), orbitcc_core::units::BitRate((v[1] * 1e6) as u64)));
    }
    if std::env::var("NOISE").is_ok() {
        spec = with_noise(spec, f(0), f(1));
    }
    let r = run(&spec);
    let n = (f(4) / INTERVAL_S) as usize;
    for k in (n - 1..r.t_s.len()).step_by(n) {
        if std::env::var("QUIET").is_ok() {
            break;
        }
        print!("{:7.2} q {:7.0} |", r.t_s[k], r.link(0, "queue_bytes")[k]);
        for i in 0..flows.len() {
            print!(
                " good {:6.2} srtt {:7.2} cwnd {:6.0} fl {:6.0} pace {:7.2} rt {:5.0} |",
                r.mean(i, "goodput_mbps", r.t_s[k] - f(4), r.t_s[k]),
                r.flow(i, "srtt_ms")[k],
                r.flow(i, "cwnd_packets")[k],
                r.flow(i, "in_flight_packets")[k],
                r.flow(i, "pacing_mbps")[k],
                r.mean(i, "retransmitted_packets", r.t_s[k] - f(4), r.t_s[k]) * n as f64
            );
        }
        println!();
    }
    for t in &r.flow_totals {
        println!("{t:?}");
    }
    for t in &r.link_totals {
        println!("{t:?}");
    }
    println!(
        "second half goodput {:?} queue {}",
        (0..flows.len()).map(|i| r.mean(i, "goodput_mbps", f(3) / 2.0, f(3))).collect::<Vec<_>>(),
        r.queue(f(3) / 2.0, f(3))
    );
}
