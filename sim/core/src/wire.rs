//! How a live world and the process that holds its real hosts speak with each other, over any pair of streams.
//!
//! First the world sends a text (JSON: what to set up), and is answered. Then requests of four words go one way; those
//! for a reading and the last one are answered. Words are little-endian, answers are an error text or as many bytes as
//! they say.

use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::link::reading::LinkReading;
use crate::observe::policy::Failure;
use crate::tcp::sender::kernel_reading::FlowReading;
use crate::time::Nanos;
use crate::world::kernel_hosts::{Hosts, Reading};

/// No pacing rate of its own.
const UNSET: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Wait until then and send a reading.
    Read {
        at: Nanos,
    },
    Window {
        flow: usize,
        cwnd: u32,
        pacing: Option<u64>,
    },
    /// Close everything and send what is to be reported, as JSON.
    Finish,
}

impl Request {
    pub const BYTES: usize = 32;

    pub fn to_bytes(self) -> [u8; Request::BYTES] {
        let words = match self {
            Request::Read { at } => [1, at.0, 0, 0],
            Request::Window { flow, cwnd, pacing } => [2, flow as u64, u64::from(cwnd), pacing.unwrap_or(UNSET)],
            Request::Finish => [3, 0, 0, 0],
        };
        let mut bytes = [0; Request::BYTES];
        bytes.chunks_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Request::BYTES]) -> Option<Request> {
        let words = to_words(bytes);
        Some(match words[0] {
            1 => Request::Read { at: Nanos(words[1]) },
            2 => Request::Window {
                flow: words[1] as usize,
                cwnd: words[2] as u32,
                pacing: (words[3] != UNSET).then_some(words[3]),
            },
            3 => Request::Finish,
            _ => return None,
        })
    }
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes"))).collect()
}

/// Send bytes, or an error's text.
pub fn send(out: &mut impl Write, answer: Result<&[u8], &str>) -> io::Result<()> {
    let (sign, bytes) = match answer {
        Ok(bytes) => (0u64, bytes),
        Err(text) => (1, text.as_bytes()),
    };
    out.write_all(&sign.to_le_bytes())?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)?;
    out.flush()
}

/// What `send` sent. The outer error is the stream's.
pub fn receive(from: &mut impl Read) -> io::Result<Result<Vec<u8>, String>> {
    let mut head = [0; 16];
    from.read_exact(&mut head)?;
    let head = to_words(&head);
    let mut bytes = vec![0; head[1].min(1 << 30) as usize];
    from.read_exact(&mut bytes)?;
    Ok(if head[0] == 0 { Ok(bytes) } else { Err(String::from_utf8_lossy(&bytes).into_owned()) })
}

/// A reading as bytes.
pub fn pack(reading: &Reading) -> Vec<u8> {
    let counts = [reading.asked.0, reading.at.0, reading.flows.len() as u64, reading.links.len() as u64];
    let flows = reading.flows.iter().flat_map(|flow| flow.to_words());
    let links = reading.links.iter().flat_map(|link| link.to_words());
    counts.into_iter().chain(flows).chain(links).flat_map(u64::to_le_bytes).collect()
}

/// What `pack` packed; false if it is nothing of the kind.
pub fn unpack(bytes: &[u8], reading: &mut Reading) -> bool {
    let words = to_words(bytes);
    let Some((&[asked, at, flows, links], rest)) = words.split_first_chunk() else { return false };
    let middle = flows as usize * FlowReading::WORDS;
    if rest.len() != middle + links as usize * LinkReading::WORDS {
        return false;
    }
    let (flows, links) = rest.split_at(middle);
    (reading.asked, reading.at) = (Nanos(asked), Nanos(at));
    reading.flows.clear();
    reading.flows.extend(flows.as_chunks().0.iter().map(FlowReading::from_words));
    reading.links.clear();
    reading.links.extend(links.as_chunks().0.iter().map(LinkReading::from_words));
    true
}

/// Hosts at the other end of two streams.
pub struct Remote<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Remote<R, W> {
    /// Have everything set up as `setup` says.
    pub fn open(from: R, to: W, setup: &str) -> Result<Remote<R, W>, Failure> {
        let mut remote = Remote { from, to };
        send(&mut remote.to, Ok(setup.as_bytes())).map_err(lost)?;
        remote.answer()?;
        Ok(remote)
    }

    fn answer(&mut self) -> Result<Vec<u8>, Failure> {
        receive(&mut self.from).map_err(lost)?.map_err(|text| failure(&text))
    }

    fn ask(&mut self, request: Request) -> Result<(), Failure> {
        self.to.write_all(&request.to_bytes()).and_then(|()| self.to.flush()).map_err(lost)
    }

    /// The report, JSON text; nothing can be asked afterwards.
    pub fn finish(&mut self) -> Result<String, Failure> {
        self.ask(Request::Finish)?;
        Ok(String::from_utf8_lossy(&self.answer()?).into_owned())
    }
}

fn failure(text: &str) -> Failure {
    let error: Box<dyn std::error::Error + Send + Sync> = text.into();
    Arc::from(error)
}

fn lost(error: io::Error) -> Failure {
    failure(&format!("the emulator has ended by itself ({error})"))
}

impl<R: Read + Send, W: Write + Send> Hosts for Remote<R, W> {
    fn read_at(&mut self, at: Nanos, reading: &mut Reading) -> Result<(), Failure> {
        self.ask(Request::Read { at })?;
        let bytes = self.answer()?;
        if unpack(&bytes, reading) { Ok(()) } else { Err(failure("the emulator sent no reading")) }
    }

    fn set_window(&mut self, flow: usize, cwnd: u32, pacing: Option<u64>) -> Result<(), Failure> {
        self.ask(Request::Window { flow, cwnd, pacing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::acks::Acks;
    use crate::tcp::sender::SenderCounters;

    #[test]
    fn readings_travel_whole() {
        let words: [u64; FlowReading::WORDS] = std::array::from_fn(|i| i as u64 + 1);
        let flow = FlowReading { app_limited: true, ..FlowReading::from_words(&words) };
        assert_eq!(flow.counters, SenderCounters { sent: 3, retransmitted: 4, ..flow.counters });
        assert_eq!(flow.acks, Acks { rtt_sum_us: 22, last: Nanos(29), ..flow.acks });
        let link = LinkReading { backlog_integral: 1 << 70 | 5, lost: 7, ..LinkReading::default() };
        let sent = Reading { asked: Nanos(4), at: Nanos(5), flows: vec![flow; 2], links: vec![link] };
        let mut got = Reading::default();
        assert!(unpack(&pack(&sent), &mut got) && !unpack(&[1; 40], &mut got.clone()));
        assert_eq!((got.asked, got.at, got.flows, got.links), (sent.asked, sent.at, sent.flows, sent.links));
    }

    #[test]
    fn requests_travel_whole() {
        let window = |pacing| Request::Window { flow: 3, cwnd: 40, pacing };
        for request in [Request::Read { at: Nanos(9) }, window(None), window(Some(7)), Request::Finish] {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[0; Request::BYTES]), None);
    }
}
