use orbitcc_core::{spec::NetworkSpec, time::Nanos, world::World};
fn main() {
    let cc = std::env::args().nth(1).unwrap_or("cubic".into());
    let flows: usize = std::env::args().nth(2).map_or(1, |s| s.parse().unwrap());
    let n: usize = std::env::args().nth(3).map_or(1, |s| s.parse().unwrap());
    let jitter: u64 = std::env::args().nth(4).map_or(0, |s| s.parse().unwrap());
    let fl: Vec<String> = (0..flows).map(|i| format!(r#"{{"name":"f{i}","path":[0],"controller":{{"name":"{cc}"}}}}"#)).collect();
    let json = format!(r#"{{"seed":1,"duration":60000000000,"noise":{{"send_jitter":{jitter},"start_jitter":50000000}},
     "links":[{{"name":"l","forward":{{"rate":[[0,100000000]],"delay":{{"points":[[0,25000000]]}},"queue":{{"kind":"drop_tail_bytes","limit":625000}}}},"reverse":{{"delay":{{"points":[[0,25000000]]}}}}}}],
     "flows":[{}]}}"#, fl.join(","));
    let spec = NetworkSpec::from_json(&json).unwrap();
    let mut best = f64::MAX;
    for _ in 0..n {
        let mut w = World::new(&spec, &Default::default(), Nanos(0)).unwrap();
        let t = std::time::Instant::now();
        w.run();
        let el = t.elapsed().as_nanos() as f64;
        let pk: f64 = w.flows().iter().map(|f| f.receiver.rcv_nxt as f64).sum();
        best = best.min(el / pk);
    }
    println!("best ns/packet {best:.1}");
}
