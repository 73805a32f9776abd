//! The thread that serves packets: in at one device, through the links, out at the other when it is time.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use orbitcc_core::link::reading::LinkReading;
use orbitcc_core::tcp::sender::kernel_reading::FlowReading;
use orbitcc_core::time::Nanos;
use serde_json::{Value, json};

use crate::carrier::{Carrier, PORTS};
use crate::lateness::Lateness;
use crate::sys;

/// Packets taken from a device before others have their turn.
const BATCH: usize = 64;
const LARGEST: usize = 65_536;

enum Order {
    /// From now on these links, whose time 0 is this time of the clock; none: packets wait in the devices.
    Begin(Option<Box<Carrier>>, u64),
    Read,
}

/// What every link had done, and marked packets of each flow that had come out at the receivers' port.
#[derive(Default)]
pub struct LinksRead {
    pub at: Nanos,
    pub links: Vec<LinkReading>,
    pub marked: Vec<u64>,
    pub crossings: Vec<FlowReading>,
}

/// Links at work. They end when this is dropped.
pub struct Server {
    orders: Option<Sender<Order>>,
    readings: Receiver<LinksRead>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<Value>>,
}

impl Server {
    pub fn start(devices: [OwnedFd; PORTS]) -> std::io::Result<Server> {
        let wake = Arc::new(sys::event_fd()?);
        let (orders, ordered) = channel();
        let (send, readings) = channel();
        let woken = Arc::clone(&wake);
        let thread = std::thread::Builder::new()
            .name("links".into())
            .spawn(move || Serving::new(devices, &woken, &ordered, &send).run())?;
        Ok(Server { orders: Some(orders), readings, wake, thread: Some(thread) })
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send(order).ok();
            sys::signal(&self.wake);
        }
    }

    pub fn begin(&self, carrier: Carrier, zero_ns: u64) {
        self.order(Order::Begin(Some(Box::new(carrier)), zero_ns));
    }

    /// Carry nothing for now.
    pub fn hold(&self) {
        self.order(Order::Begin(None, 0));
    }

    pub fn read(&self) -> Option<LinksRead> {
        self.order(Order::Read);
        self.readings.recv().ok()
    }

    /// End, and say how it went.
    pub fn finish(mut self) -> Value {
        self.end().unwrap_or(Value::Null)
    }

    fn end(&mut self) -> Option<Value> {
        self.orders = None;
        sys::signal(&self.wake);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

struct Serving<'a> {
    devices: [OwnedFd; PORTS],
    wake: &'a OwnedFd,
    ordered: &'a Receiver<Order>,
    send: &'a Sender<LinksRead>,
    links: Option<Carrier>,
    zero_ns: u64,
    lateness: Lateness,
    refused: u64,
    strangers: u64,
    wakes: u64,
}

impl<'a> Serving<'a> {
    fn new(
        devices: [OwnedFd; PORTS],
        wake: &'a OwnedFd,
        ordered: &'a Receiver<Order>,
        send: &'a Sender<LinksRead>,
    ) -> Serving<'a> {
        let lateness = Lateness::default();
        let (refused, strangers, wakes) = (0, 0, 0);
        Serving { devices, wake, ordered, send, links: None, zero_ns: 0, lateness, refused, strangers, wakes }
    }

    fn now(&self) -> Nanos {
        Nanos(sys::clock_ns().saturating_sub(self.zero_ns))
    }

    fn run(mut self) -> Value {
        sys::be_punctual();
        let priority = sys::go_first();
        let mut buffer = vec![0; LARGEST];
        let mut waiting = [true; PORTS];
        loop {
            for (port, waiting) in waiting.iter_mut().enumerate() {
                *waiting = *waiting && self.take(port, &mut buffer);
            }
            self.deliver();
            let due = self.links.as_mut().map_or(Nanos::MAX, Carrier::due);
            let left = if waiting.contains(&true) { 0 } else { due.saturating_sub(self.now()).0 };
            let [a, b] =
                self.devices.each_ref().map(|device| if self.links.is_some() { device.as_raw_fd() } else { -1 });
            let [first, second, ordered] = sys::wait_readable([a, b, self.wake.as_raw_fd()], left);
            waiting = [first, second];
            self.wakes += 1;
            if ordered && !self.obey(&mut buffer) {
                break;
            }
        }
        let (cpu_s, ..) = sys::usage();
        json!({
            "lateness": self.lateness.report(),
            "real_time_priority": match priority { Ok(()) => "yes".into(), Err(error) => format!("no: {error}") },
            "refused_by_device": self.refused,
            "strangers": self.strangers,
            "wakes": self.wakes,
            "cpu_s": cpu_s,
            "running_s": self.now().secs_f64(),
        })
    }

    /// Take what has come in at a port. Says whether there may be more.
    fn take(&mut self, port: usize, buffer: &mut [u8]) -> bool {
        let Some(links) = &mut self.links else { return false };
        for _ in 0..BATCH {
            let Some(size) = sys::read(self.devices[port].as_raw_fd(), buffer) else { return false };
            let now = Nanos(sys::clock_ns().saturating_sub(self.zero_ns));
            links.arrive(now, port, &buffer[..size]);
        }
        true
    }

    fn deliver(&mut self) {
        let now = self.now();
        let Serving { links, devices, lateness, refused, zero_ns, .. } = self;
        let Some(links) = links else { return };
        links.deliver(now, |at, port, packet| {
            lateness.add(sys::clock_ns().saturating_sub(*zero_ns).saturating_sub(at.0));
            *refused += u64::from(!sys::write(devices[port].as_raw_fd(), packet));
        });
    }

    /// Do what was ordered; false when that is to end.
    fn obey(&mut self, buffer: &mut [u8]) -> bool {
        sys::read(self.wake.as_raw_fd(), buffer);
        loop {
            match self.ordered.try_recv() {
                Ok(Order::Begin(links, zero_ns)) => {
                    (self.links, self.zero_ns) = (links.map(|links| *links), zero_ns);
                    self.lateness = Lateness::default();
                }
                Ok(Order::Read) => {
                    let now = self.now();
                    self.deliver();
                    let mut read = LinksRead { at: now, ..LinksRead::default() };
                    if let Some(links) = &mut self.links {
                        (read.links, read.marked) = (links.read_links(now), links.marked().to_vec());
                        read.crossings = links.crossings();
                        self.strangers = links.strangers;
                    }
                    self.send.send(read).ok();
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return true,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }
}
