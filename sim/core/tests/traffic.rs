//! Downloads on one connection, and flows whose path changes.

mod common;

use common::{dumbbell, secs};
use orbitcc_core::spec::TrafficSpec;
use orbitcc_core::time::Nanos;
use orbitcc_core::world::{Policies, World};

#[test]
fn downloads_arrive_as_asked_and_are_timed() {
    let mut spec = dumbbell(50.0, 40.0, 250_000, 600.0, &["cubic"]);
    spec.flows[0].traffic = TrafficSpec::Objects { per_s: 2.0, mean_bytes: 30_000.0, sigma: 1.3 };
    let mut world = World::new(&spec, &Policies::new(), Nanos::ZERO).unwrap();
    world.run();
    let totals = &world.flow_totals()[0];
    let n = totals.objects.len() as f64;
    // 1,200 expected: within four standard deviations of a Poisson count.
    assert!((n - 1200.0).abs() < 4.0 * 1200f64.sqrt(), "{n}");
    let mean = totals.objects.iter().map(|o| o.1 as f64).sum::<f64>() / n;
    assert!((20_000.0..45_000.0).contains(&mean), "{mean}");
    let unfinished = totals.objects.iter().filter(|o| o.2.is_none()).count();
    assert!(unfinished <= 3, "{unfinished}");
    // An object takes half a round trip and its own transmission at least, and most of these take a few round trips.
    assert!(totals.objects.iter().filter_map(|o| o.2).all(|s| s >= 0.02));
    let done: Vec<f64> = totals.objects.iter().filter_map(|o| o.2).collect();
    let average = done.iter().sum::<f64>() / done.len() as f64;
    assert!((0.02..0.25).contains(&average), "{average}");
    let segments: u64 = totals.objects.iter().filter(|o| o.2.is_some()).map(|o| o.1.div_ceil(1448) * 1448).sum();
    assert!(totals.received_bytes >= segments && totals.received_bytes < segments + 4_000_000);
}

#[test]
fn after_a_reroute_data_and_acknowledgements_take_the_new_path() {
    let mut spec = dumbbell(50.0, 40.0, 250_000, 20.0, &["cubic"]);
    let mut other = spec.links[0].clone();
    other.name = "other".into();
    other.forward.rate[0].1.0 = 20_000_000;
    spec.links.push(other);
    spec.flows[0].reroutes = vec![(secs(10.0), vec![1]), (secs(15.0), vec![0])];
    let mut world = World::new(&spec, &Policies::new(), secs(1.0)).unwrap();
    world.run();
    let rows = &world.recorder().unwrap().links[1];
    let delivered = |link: usize| rows.iter().skip(link).step_by(2).copied().collect::<Vec<f64>>();
    let (first, second) = (delivered(0), delivered(1));
    assert!(second[..9].iter().all(|x| *x == 0.0) && second[11..15].iter().all(|x| *x > 15.0), "{second:?}");
    assert!(first[11..15].iter().all(|x| *x == 0.0) && first[17..].iter().all(|x| *x > 20.0), "{first:?}");
    common::check_conservation(&world).unwrap();
}
