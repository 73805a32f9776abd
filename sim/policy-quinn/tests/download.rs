//! The example over loopback: a policy decides in real connections.

#[allow(dead_code)]
#[path = "../examples/quinn_download.rs"]
mod quinn_download;

use quinn_download::{Options, client, listen, serve};

fn options(words: &str) -> Options {
    Options::parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_policy_controls_a_download_over_loopback() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let certificate = std::env::temp_dir().join(format!("orbitcc-{}.der", std::process::id()));
    let common = format!("--certificate {}", certificate.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Zenith decides every 30 ms here, in a download of six seconds; packets grow to 1,452 bytes by discovery.
    let (report, received) = runtime.block_on(async {
        let server =
            listen(&options(&format!("--listen 127.0.0.1:0 --policy {root}/checkpoints/zenith {common}"))).unwrap();
        let address = server.local_addr().unwrap();
        let served = tokio::spawn(async move { serve(server.accept().await.unwrap().await.unwrap()).await.unwrap() });
        let asked = options(&format!("--connect {address} --seconds 6 {common}"));
        let received = client(&asked).await.unwrap();
        (served.await.unwrap(), received)
    });
    std::fs::remove_file(certificate).unwrap();
    let figure = |name: &str| report.split(' ').find_map(|word| word.strip_prefix(name)).unwrap().to_owned();
    assert!(received > 1_000_000, "{received}");
    let decisions: u64 = figure("decisions=").parse().unwrap();
    assert!((90..=201).contains(&decisions), "{report}");
    let rtt_ms: f64 = figure("rtt_ms=").parse().unwrap();
    assert!(rtt_ms < 50.0, "{report}");
    // Loopback is outside of what it was trained on (8 ms and more): its safety filter hands over to Cubic after four seconds.
    assert_eq!(figure("fallback="), "true", "{report}");
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let refused = |words: &str| {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        Options::parse(&words).and_then(|options| options.transport()).err().unwrap().to_string()
    };
    assert!(refused("--polcy x").starts_with("--polcy: must be an option with a value: listen"));
    assert!(refused("--mtu").starts_with("--mtu: must be an option with a value"));
    assert_eq!(refused("--mtu big"), "--mtu big: must be a number");
    assert_eq!(refused("--controller vegas"), "give --policy FOLDER or --controller cubic, newreno or bbr");
    assert!(refused("--policy /nowhere").starts_with("checkpoint /nowhere: card.json: No such file"));
}
