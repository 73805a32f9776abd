//! Keys that hide nothing, and a handshake of the sizes of TLS 1.3: packets are as long as real ones, without the work of a
//! cipher, and nothing is random.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey, KeyPair,
    Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// Length of the tag of AES-GCM and ChaCha20-Poly1305 (RFC 9001, section 5.3).
const TAG: usize = 16;
/// Messages of rustls 0.23 with X25519, AES-256-GCM and one ECDSA certificate, bytes: the hellos without transport parameters;
/// what follows ServerHello up to CertificateVerify, without them; Finished. As captured from quinn 0.11.12; a server also sends
/// tickets for resumption (178 bytes), which are left out.
const CLIENT_HELLO: usize = 183;
const SERVER_HELLO: usize = 90;
const CERTIFICATE: usize = 460;
const FINISHED: usize = 52;

struct Plain;

impl PacketKey for Plain {
    fn encrypt(&self, _packet: u64, _buf: &mut [u8], _header_len: usize) {}

    fn decrypt(&self, _packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        payload.truncate(payload.len().checked_sub(TAG).ok_or(CryptoError)?);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Plain {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        16
    }
}

/// Tokens for resets, and addresses that were seen before: as long as real ones.
pub struct Tokens;

impl HmacKey for Tokens {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.fill(0);
        signature.iter_mut().zip(data).for_each(|(out, byte)| *out = *byte);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _data: &[u8], _signature: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl HandshakeTokenKey for Tokens {
    fn aead_from_hkdf(&self, _random: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Tokens)
    }
}

impl AeadKey for Tokens {
    fn seal(&self, data: &mut Vec<u8>, _additional: &[u8]) -> Result<(), CryptoError> {
        data.resize(data.len() + TAG, 0);
        Ok(())
    }

    fn open<'a>(&self, data: &'a mut [u8], _additional: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        let length = data.len().checked_sub(TAG).ok_or(CryptoError)?;
        Ok(&mut data[..length])
    }
}

fn pair<T: ?Sized>(one: impl Fn() -> Box<T>) -> KeyPair<Box<T>> {
    KeyPair { local: one(), remote: one() }
}

fn keys() -> Keys {
    Keys {
        header: pair(|| Box::new(Plain) as Box<dyn HeaderKey>),
        packet: pair(|| Box::new(Plain) as Box<dyn PacketKey>),
    }
}

/// One side's part in the handshake of TLS 1.3: ClientHello; ServerHello, and the rest of the server's flight; Finished.
pub struct Handshake {
    side: Side,
    /// Messages of the peer that are understood, and steps of its own that are done.
    understood: usize,
    done: usize,
    /// What the peer has sent and is not understood yet.
    heard: Vec<u8>,
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// 0-RTT: data in the first flight.
    early: bool,
}

/// A message: its length without transport parameters, and whether it has them.
type Message = (usize, bool);

impl Handshake {
    /// What the peer says, in order.
    fn awaited(&self) -> Option<Message> {
        let messages: &[Message] = match self.side {
            Side::Client => &[(SERVER_HELLO, false), (CERTIFICATE + FINISHED, true)],
            Side::Server => &[(CLIENT_HELLO, true), (FINISHED, false)],
        };
        messages.get(self.understood).copied()
    }

    /// The next step of its own: after how many messages of the peer, what it says, and whether it has new keys then.
    fn step(&self) -> Option<(usize, Option<Message>, bool)> {
        let steps: &[_] = match self.side {
            Side::Client => {
                &[(0, Some((CLIENT_HELLO, true)), false), (1, None, true), (2, Some((FINISHED, false)), true)]
            }
            Side::Server => &[(1, Some((SERVER_HELLO, false)), true), (1, Some((CERTIFICATE + FINISHED, true)), true)],
        };
        steps.get(self.done).copied()
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _dst_cid: &ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.early.then(|| (Box::new(Plain) as Box<dyn HeaderKey>, Box::new(Plain) as Box<dyn PacketKey>))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        (self.side == Side::Client).then_some(self.early)
    }

    fn is_handshaking(&self) -> bool {
        self.awaited().is_some() || self.step().is_some()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.heard.extend_from_slice(buf);
        while let Some((length, parameters)) = self.awaited() {
            // Transport parameters come first, after their length.
            let extra = match (parameters, self.heard.first_chunk::<2>()) {
                (false, _) => 0,
                (true, Some(bytes)) => usize::from(u16::from_be_bytes(*bytes)),
                (true, None) => break,
            };
            if self.heard.len() < length + extra {
                break;
            }
            if parameters {
                self.peer = Some(TransportParameters::read(self.side, &mut &self.heard[2..2 + extra])?);
            }
            self.heard.drain(..length + extra);
            self.understood += 1;
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let (_, message, has_keys) = self.step().filter(|(after, ..)| *after <= self.understood)?;
        self.done += 1;
        if let Some((length, parameters)) = message {
            let mut end = out.len() + length;
            if parameters {
                end += self.own.len();
                out.extend_from_slice(&(self.own.len() as u16).to_be_bytes());
                out.extend_from_slice(&self.own);
            }
            out.resize(end, 0);
        }
        has_keys.then(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(keys().packet)
    }

    fn is_valid_retry(&self, _orig_dst_cid: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        true
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

/// Starts the sessions of one side. `known`: the server's transport parameters, if the client has them from before (0-RTT).
pub struct Config {
    pub known: Option<Vec<u8>>,
}

impl Config {
    fn session(&self, side: Side, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut own = Vec::new();
        parameters.write(&mut own);
        let remembered = self.known.as_ref().filter(|_| side == Side::Client);
        let peer = remembered.map(|known| TransportParameters::read(side, &mut &known[..]).expect("our own"));
        let early = self.known.is_some();
        Box::new(Handshake { side, understood: 0, done: 0, heard: Vec::new(), own, peer, early })
    }
}

impl ClientConfig for Config {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(self.session(Side::Client, parameters))
    }
}

impl ServerConfig for Config {
    fn initial_keys(&self, _version: u32, _dst_cid: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; TAG]
    }

    fn start_session(self: Arc<Self>, _version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        self.session(Side::Server, parameters)
    }
}
