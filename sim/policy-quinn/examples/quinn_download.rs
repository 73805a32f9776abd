//! A download over QUIC whose sender a trained policy controls, or one of quinn's own controllers.
//!
//!     quinn_download server --listen 127.0.0.1:4433 --certificate /tmp/cert.der --policy checkpoints/zenith
//!     quinn_download client --connect 127.0.0.1:4433 --certificate /tmp/cert.der --bytes 100000000
//!
//! The server writes its self-signed certificate into the file, which the client reads. `--controller cubic|newreno|bbr` takes
//! the place of `--policy`. The client takes `--seconds S` in the place of `--bytes`. Both take `--stream-window BYTES`,
//! `--send-window BYTES`, and `--mtu BYTES`: packets of this size from the start, without discovery.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orbitcc_policy_quinn::{PolicyConfig, PolicyController};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

pub struct Options(HashMap<String, String>);

impl Options {
    pub fn parse(words: &[String]) -> Outcome<Options> {
        let known = "listen connect certificate policy controller bytes seconds stream-window send-window mtu";
        let mut found = HashMap::new();
        for pair in words.chunks(2) {
            let name = pair[0].strip_prefix("--").filter(|name| known.split(' ').any(|word| word == *name));
            match (name, pair.get(1)) {
                (Some(name), Some(value)) => found.insert(name.to_owned(), value.clone()),
                _ => return Err(format!("{}: must be an option with a value: {known}", pair[0]).into()),
            };
        }
        Ok(Options(found))
    }

    fn text(&self, name: &str) -> Outcome<&str> {
        Ok(self.0.get(name).ok_or_else(|| format!("--{name} is missing"))?)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Outcome<Option<T>> {
        let read = |value: &String| value.parse().map_err(|_| format!("--{name} {value}: must be a number"));
        Ok(self.0.get(name).map(read).transpose()?)
    }

    pub fn transport(&self) -> Outcome<Arc<TransportConfig>> {
        let controller: Arc<dyn ControllerFactory + Send + Sync> =
            match (self.0.get("policy"), self.0.get("controller")) {
                (Some(folder), None) => Arc::new(PolicyConfig::load(folder)?),
                (None, Some(name)) if name == "newreno" => Arc::new(NewRenoConfig::default()),
                (None, Some(name)) if name == "bbr" => Arc::new(BbrConfig::default()),
                (None, Some(name)) if name == "cubic" => Arc::new(CubicConfig::default()),
                (None, None) => Arc::new(CubicConfig::default()),
                _ => return Err("give --policy FOLDER or --controller cubic, newreno or bbr".into()),
            };
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(controller);
        if let Some(bytes) = self.number::<u32>("stream-window")? {
            transport.stream_receive_window(VarInt::from_u32(bytes));
        }
        if let Some(bytes) = self.number("send-window")? {
            transport.send_window(bytes);
        }
        if let Some(bytes) = self.number("mtu")? {
            transport.initial_mtu(bytes).mtu_discovery_config(None);
        }
        Ok(Arc::new(transport))
    }
}

/// Send what a client asks for; how that went.
pub async fn serve(connection: Connection) -> Outcome<String> {
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut asked = [0; 8];
    receive.read_exact(&mut asked).await?;
    let watched = connection.clone();
    let watching = tokio::spawn(async move {
        let (mut sum_ms, mut samples) = (0.0, 0);
        let mut clock = tokio::time::interval(Duration::from_millis(100));
        while watched.close_reason().is_none() {
            clock.tick().await;
            (sum_ms, samples) = (sum_ms + watched.rtt().as_secs_f64() * 1e3, samples + 1);
        }
        (sum_ms / f64::from(samples), watched.stats().path)
    });
    let (mut left, zeros) = (u64::from_be_bytes(asked), [0; 1 << 16]);
    while left > 0 {
        let size = left.min(zeros.len() as u64) as usize;
        if send.write_all(&zeros[..size]).await.is_err() {
            break; // the client has enough
        }
        left -= size as u64;
    }
    let _ = send.finish();
    let (rtt_ms, path) = watching.await?;
    let mut report = format!("rtt_ms={rtt_ms:.2} lost={} sent={}", path.lost_packets, path.sent_packets);
    if let Ok(policy) = connection.congestion_state().into_any().downcast::<PolicyController>() {
        report += &format!(" decisions={} fallback={}", policy.decisions(), policy.has_fallen_back());
    }
    Ok(report)
}

pub fn listen(options: &Options) -> Outcome<Endpoint> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key)?;
    config.transport_config(options.transport()?);
    let endpoint = Endpoint::server(config, options.text("listen")?.parse()?)?;
    std::fs::write(options.text("certificate")?, made.cert.der())?;
    Ok(endpoint)
}

async fn server(options: &Options) -> Outcome<()> {
    let endpoint = listen(options)?;
    println!("listening on {}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let done = async { serve(incoming.await?).await }.await;
            match done {
                Ok(report) => println!("{report}"),
                Err(error) => eprintln!("a connection failed: {error}"),
            }
        });
    }
    Ok(())
}

/// Download; the bytes received.
pub async fn client(options: &Options) -> Outcome<usize> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(options.text("certificate")?)?))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(options.transport()?);
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(config);
    let began = Instant::now();
    let connection = endpoint.connect(options.text("connect")?.parse()?, "localhost")?.await?;
    let handshake = began.elapsed();
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&options.number("bytes")?.unwrap_or(u64::MAX).to_be_bytes()).await?;
    let seconds = options.number("seconds")?.unwrap_or(f64::from(u32::MAX));
    let end = tokio::time::Instant::from_std(began + Duration::from_secs_f64(seconds));
    let (mut received, mut last) = (0, began);
    while let Ok(chunk) = tokio::time::timeout_at(end, receive.read_chunk(usize::MAX, true)).await {
        let Some(chunk) = chunk? else { break };
        (received, last) = (received + chunk.bytes.len(), Instant::now());
    }
    let took = (last - began).as_secs_f64();
    let mbps = received as f64 * 8e-6 / took;
    println!(
        "goodput_mbps={mbps:.3} seconds={took:.3} bytes={received} handshake_ms={:.1}",
        handshake.as_secs_f64() * 1e3
    );
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(received)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let done = match words.split_first() {
        Some((role, rest)) if role == "server" => runtime.block_on(async { server(&Options::parse(rest)?).await }),
        Some((role, rest)) if role == "client" => {
            runtime.block_on(async { client(&Options::parse(rest)?).await.map(|_| ()) })
        }
        _ => Err("give server or client, and options".into()),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(2);
    }
}
