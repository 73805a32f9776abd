use std::sync::{Arc, Mutex};

use numpy::{IntoPyArray, PyArrayMethods};
use orbitcc_core::time::Nanos;
use orbitcc_core::world::World;
use orbitcc_core::world::capture::{pcap, qlog};
use orbitcc_core::world::kernel_hosts::Hosts;
use orbitcc_core::world::recorder::{FLOW_SERIES, LINK_SERIES};
use orbitcc_core::world::totals::{FlowTotals, LinkTotals};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict};

use crate::convert;
use crate::emulator::Emulator;
use crate::python_policy;

#[pyclass(module = "orbitcc._sim")]
pub struct Simulation {
    world: World,
    emulator: Option<Arc<Mutex<Emulator>>>,
    capture: Option<pcap::Writer>,
}

pub fn flow_dict<'py>(py: Python<'py>, t: &FlowTotals) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("name", &t.name)?;
    d.set_item("controller", &t.controller)?;
    d.set_item("start_s", t.start_s)?;
    d.set_item("stop_s", t.stop_s)?;
    d.set_item("finished_s", t.finished_s)?;
    d.set_item("goodput_mbps", t.goodput_mbps)?;
    d.set_item("received_bytes", t.received_bytes)?;
    d.set_item("srtt_ms", t.srtt_ms)?;
    d.set_item("srtt_p95_ms", t.srtt_p95_ms)?;
    d.set_item("base_rtt_ms", t.base_rtt_ms)?;
    d.set_item("delay_inflation", t.delay_inflation)?;
    d.set_item("sent_packets", t.sent_packets)?;
    d.set_item("retransmitted_packets", t.retransmitted_packets)?;
    d.set_item("lost_packets", t.lost_packets)?;
    d.set_item("rtos", t.rtos)?;
    d.set_item("spurious_rtos", t.spurious_rtos)?;
    d.set_item("tail_probes", t.tail_probes)?;
    d.set_item("marked_packets", t.marked_packets)?;
    d.set_item("reported_marked_packets", t.reported_marked_packets)?;
    d.set_item("received_datagrams", t.received_datagrams)?;
    for (name, ms) in ["delay_p50_ms", "delay_p95_ms", "delay_p99_ms"].iter().zip(t.delay_percentiles_ms) {
        d.set_item(name, known(ms))?;
    }
    d.set_item("late_share", known(t.late_share))?;
    d.set_item("objects", &t.objects)?;
    if t.hosted {
        for name in ["retransmitted_packets", "spurious_rtos", "tail_probes", "reported_marked_packets"] {
            d.set_item(name, f64::NAN)?;
        }
    }
    Ok(d)
}

/// None where there is nothing to tell.
fn known(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

pub fn link_dict<'py>(py: Python<'py>, t: &LinkTotals) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("name", &t.name)?;
    d.set_item("utilisation", t.utilisation)?;
    d.set_item("capacity_mbps", t.capacity_mbps)?;
    d.set_item("queue_bytes_mean", t.queue_bytes_mean)?;
    d.set_item("queue_bytes_max", t.queue_bytes_max)?;
    d.set_item("dropped_packets", t.dropped_packets)?;
    d.set_item("lost_packets", t.lost_packets)?;
    d.set_item("marked_packets", t.marked_packets)?;
    d.set_item("delivered_bytes", t.delivered_bytes)?;
    Ok(d)
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (spec, *, record_interval_ns=0, policies=None, emulator=None, programs="[]", capture=false))]
    fn new(
        py: Python<'_>,
        spec: &str,
        record_interval_ns: u64,
        policies: Option<Bound<'_, PyAny>>,
        emulator: Option<&str>,
        programs: &str,
        capture: bool,
    ) -> PyResult<Simulation> {
        let policies = python_policy::policies(policies.as_ref())?;
        let spec = convert::network(spec)?;
        let mut world = World::new(&spec, &policies, Nanos(record_interval_ns)).map_err(convert::spec_error)?;
        if capture {
            world.capture();
        }
        let capture = capture.then(|| pcap::Writer::new(spec.flows.len(), spec.tcp.header_bytes));
        let Some(path) = emulator else {
            crate::emulator::host(&spec, &mut world).map_err(convert::spec_error)?;
            if let (Some(guests), true) = (world.guests(), capture.is_some()) {
                guests.lock().expect("no panic").log();
            }
            return Ok(Simulation { world, emulator: None, capture });
        };
        if capture.is_some() {
            return Err(convert::value_error("capture: only a simulated network can be captured"));
        }
        let programs = serde_json::from_str(programs).map_err(|e| convert::value_error(format!("programs: {e}")))?;
        let started = py.detach(|| Emulator::start(path, &spec, &world, &programs)).map_err(convert::spec_error)?;
        let shared = Arc::new(Mutex::new(started));
        world.follow(Arc::clone(&shared) as Arc<Mutex<dyn Hosts>>);
        Ok(Simulation { world, emulator: Some(shared), capture: None })
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.world.now().0
    }

    #[getter]
    fn duration_ns(&self) -> u64 {
        self.world.duration().0
    }

    #[getter]
    fn events(&self) -> u64 {
        self.world.events()
    }

    fn event_hash(&self) -> u64 {
        self.world.event_hash()
    }

    fn run_until(&mut self, py: Python<'_>, t_ns: u64) -> PyResult<()> {
        py.detach(|| self.world.run_until(Nanos(t_ns)));
        convert::decided(py, self.world.failure())
    }

    fn run(&mut self, py: Python<'_>) -> PyResult<()> {
        self.run_until(py, self.duration_ns())
    }

    fn clone(&self) -> PyResult<Simulation> {
        convert::only_simulated(&self.world)?;
        Ok(Simulation { world: self.world.clone(), emulator: None, capture: self.capture.clone() })
    }

    #[staticmethod]
    fn pcap_header<'py>(py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &pcap::header())
    }

    fn take_captured<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>)> {
        let Some(writer) = &mut self.capture else {
            return Err(convert::value_error("capture = False: nothing was captured"));
        };
        let flows = self.world.flows().len();
        // Of senders, then of receivers, which log in QUIC alone.
        let (mut packets, mut logs) = (Vec::new(), vec![String::new(); 2 * flows]);
        for event in self.world.take_captured() {
            writer.write(&event, &mut packets);
            let log = &mut logs[event.flow as usize];
            if qlog::write(&event, log) {
                log.push('\n');
            }
        }
        if let Some(guests) = self.world.guests() {
            let mut guests = guests.lock().expect("no panic");
            for flow in 0..flows {
                for (log, written) in [flow, flows + flow].into_iter().zip(guests.take_logs(flow)) {
                    qlog::append_records(&written, &mut logs[log]);
                }
            }
        }
        Ok((PyBytes::new(py, &packets), logs.iter().map(|log| PyBytes::new(py, log.as_bytes())).collect()))
    }

    #[getter]
    fn overruns(&self) -> u64 {
        self.world.overruns()
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<String> {
        let Some(emulator) = &self.emulator else {
            return Err(convert::value_error("finish: only an emulated network has something to report"));
        };
        let report = py.detach(|| emulator.lock().expect("no panic").finish());
        report.map_err(convert::value_error)
    }

    fn flow_totals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.world.flow_totals().iter().map(|t| flow_dict(py, t)).collect()
    }

    fn link_totals<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.world.link_totals().iter().map(|t| link_dict(py, t)).collect()
    }

    fn recording<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(recorder) = self.world.recorder() else {
            return Err(convert::value_error("record_interval_ns = 0: nothing was recorded"));
        };
        let rows = recorder.t_s.len();
        let tables = [
            (&FLOW_SERIES[..], &recorder.flows, self.world.flows().len(), "flows"),
            (&LINK_SERIES[..], &recorder.links, self.world.link_names().len(), "links"),
        ];
        let result = PyDict::new(py);
        result.set_item("t_s", recorder.t_s.clone().into_pyarray(py))?;
        for (names, series, width, kind) in tables {
            let group = PyDict::new(py);
            for (name, values) in names.iter().zip(series) {
                group.set_item(name, values.clone().into_pyarray(py).reshape([rows, width])?)?;
            }
            result.set_item(kind, group)?;
        }
        Ok(result)
    }
}
