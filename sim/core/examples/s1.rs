use orbitcc_core::{spec::NetworkSpec, time::Nanos, world::World};
fn main() {
    let cc = std::env::args().nth(1).unwrap();
    let params = std::env::args().nth(2).unwrap_or("{}".into());
    let json = format!(r#"{{"seed":1,"duration":60000000000,"tcp":{{"header_bytes":52,"ack_bytes":52,"hz":100,"rmem":[4096,67108864,268435456],"wmem":[4096,65536,268435456]}},
     "links":[{{"name":"l","forward":{{"rate":[[0,100000000]],"delay":{{"points":[[0,25000000]]}},"queue":{{"kind":"drop_tail_bytes","limit":625000}}}},"reverse":{{"delay":{{"points":[[0,25000000]]}}}}}}],
     "flows":[{{"name":"f","path":[0],"controller":{{"name":"{cc}","params":{params}}}}}]}}"#);
    let spec = NetworkSpec::from_json(&json).unwrap();
    let mut w = World::new(&spec, &Default::default(), Nanos::from_millis(100)).unwrap();
    let show = |w: &World, t: f64| {
        let s = &w.flows()[0].sender;
        println!("{t:.1} srtt {:.3} cwnd {} ssthresh {} out {} state {:?} retx {} acked {}", s.conn.srtt8_us as f64/8000., s.conn.cwnd, s.conn.ssthresh, s.packets_out(), s.conn.state, s.counters.retransmitted, s.counters.acked_bytes);
    };
    for k in 1..=20 { w.run_until(Nanos::from_millis(100*k)); show(&w, k as f64/10.); }
    let t = std::time::Instant::now();
    for k in 21..=600 { w.run_until(Nanos::from_millis(100*k)); if k%50==0 {show(&w, k as f64/10.);} }
    let el = t.elapsed().as_nanos() as f64;
    let pk = w.flows()[0].receiver.rcv_nxt as f64;
    println!("events {} ns/packet {:.1} goodput {:.3} counters {:?}", w.events(), el/pk, w.flows()[0].received_bytes() as f64*8e-6/60., w.flows()[0].sender.counters);
}
