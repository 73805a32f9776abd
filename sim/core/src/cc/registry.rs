//! Every controller the simulator runs by name, and the checking of their parameters.

use crate::spec::{ControllerSpec, EcnMode, Kernel, SsthreshCache, TcpSpec};

use super::{
    Controller, EcnUse, Params, Subscription, agent, bbr, c4, careful_resume, copa, cubic, dctcp, hybla, illinois,
    leocc, prague, reno, satcp, vegas, vivace, westwood,
};

/// One line of the registry.
pub struct Registration {
    pub name: &'static str,
    /// Parameter names and defaults, as JSON; those of [`COMMON_PARAMS`] come on top.
    pub params: &'static [(&'static str, &'static str)],
    build: fn(&Params) -> Result<Box<dyn Controller>, String>,
}

/// Every native controller.
pub const REGISTRY: &[Registration] = &[
    Registration { name: "reno", params: reno::PARAMS, build: reno::build },
    Registration { name: "dctcp", params: dctcp::PARAMS, build: dctcp::build },
    Registration { name: "prague", params: prague::PARAMS, build: prague::build },
    Registration { name: "cubic", params: cubic::PARAMS, build: cubic::build },
    Registration { name: "hybla", params: hybla::PARAMS, build: hybla::build },
    Registration { name: "illinois", params: &[], build: |_| Ok(Box::new(illinois::Illinois::new())) },
    Registration { name: "vegas", params: &[], build: |_| Ok(Box::new(vegas::Vegas::new())) },
    Registration { name: "westwood", params: &[], build: |_| Ok(Box::new(westwood::Westwood::new())) },
    Registration { name: "bbr", params: &careful_resume::PARAMS, build: bbr::v1::build },
    Registration { name: "bbr3", params: bbr::v3::PARAMS, build: bbr::v3::build },
    Registration { name: "c4", params: c4::PARAMS, build: c4::build },
    Registration { name: "copa", params: copa::PARAMS, build: copa::build },
    Registration { name: "leocc", params: leocc::PARAMS, build: leocc::build },
    Registration { name: "satcp", params: satcp::PARAMS, build: satcp::build },
    Registration { name: "vivace", params: vivace::PARAMS, build: vivace::build },
    Registration { name: "external", params: agent::PARAMS, build: agent::build },
    Registration { name: "policy", params: agent::POLICY_PARAMS, build: agent::build },
];

/// Quinn's own controllers, which live in its hosts (`sim/quic`); flows of QUIC alone have them.
pub const QUINN: [&str; 3] = ["quinn-newreno", "quinn-cubic", "quinn-bbr"];

/// Can this controller drive a flow of QUIC? The error names what it needs and QUIC's hosts do not tell.
pub fn fits_quic(spec: &ControllerSpec, tcp: &TcpSpec) -> Result<(), String> {
    let name = &spec.name;
    if name == "udp" {
        return Err(format!("name = {name:?}: must be a controller with acknowledgements for transport quic"));
    }
    if QUINN.contains(&name.as_str()) {
        let unknown = spec.params.keys().next();
        return unknown.map_or(Ok(()), |key| Err(format!("{name}: unknown parameter {key:?}: it has none")));
    }
    if let Some(given) = ["ssthresh_cache", "ecn"].iter().find(|given| spec.params.contains_key(**given)) {
        return Err(format!("{name}.{given}: is for TCP; leave it out for transport quic"));
    }
    let controller = build(spec, tcp)?;
    let needs = [
        (controller.watches_packets(), "follows single packets"),
        (controller.watches_losses(), "follows single losses"),
        (controller.subscription() != Subscription::Nothing, "asks for news of the path, or sends probes"),
        (controller.ecn_use() != EcnUse::Host, "counts marks"),
    ];
    match needs.iter().find(|(needed, _)| *needed) {
        Some((_, what)) => Err(format!("name = {name:?}: {what}, which hosts with transport quic cannot serve")),
        None => Ok(()),
    }
}

/// Parameters of every controller: what its host runs, where that differs from the network's other hosts.
pub const COMMON_PARAMS: &[&str] = &["kernel", "ssthresh_cache", "ecn"];

/// The TCP of a flow under this controller: the network's, with the flow's own kernel and cache.
pub fn tcp_of(spec: &ControllerSpec, network: &TcpSpec) -> Result<TcpSpec, String> {
    let mut tcp = *network;
    let params = Params { given: &spec.params, kernel: network.kernel };
    if spec.params.contains_key("kernel") {
        tcp.kernel = match params.text("kernel", "v6", &["v6", "v6_12", "v4_15"])? {
            "v6_12" => Kernel::V6_12,
            "v4_15" => Kernel::V4_15,
            _ => Kernel::V6,
        };
    }
    if let Some(cache) = spec.params.get("ssthresh_cache") {
        tcp.ssthresh_cache = Some(SsthreshCache::try_from(cache.clone())?);
    }
    if spec.params.contains_key("ecn") {
        tcp.ecn = match params.text("ecn", "off", &["off", "classic", "accurate"])? {
            "accurate" => EcnMode::Accurate,
            "classic" => EcnMode::Classic,
            _ => EcnMode::Off,
        };
    }
    Ok(tcp)
}

/// Build a controller for a host running `tcp`; the error names the parameter.
pub fn build(spec: &ControllerSpec, tcp: &TcpSpec) -> Result<Box<dyn Controller>, String> {
    let Some(entry) = REGISTRY.iter().find(|r| r.name == spec.name) else {
        let names: Vec<_> = REGISTRY.iter().map(|r| r.name).collect();
        return Err(format!("name = {:?}: must be one of {}", spec.name, names.join(", ")));
    };
    let known = || entry.params.iter().map(|(name, _)| *name).chain(COMMON_PARAMS.iter().copied());
    if let Some(unknown) = spec.params.keys().find(|k| !known().any(|name| name == *k)) {
        let names: Vec<_> = known().collect();
        return Err(format!("{}: unknown parameter {unknown:?}: must be one of [{}]", spec.name, names.join(", ")));
    }
    let named = |e| format!("{}.{e}", spec.name);
    let kernel = tcp_of(spec, tcp).map_err(named)?.kernel;
    (entry.build)(&Params { given: &spec.params, kernel }).map_err(named)
}

pub fn check(spec: &ControllerSpec, tcp: &TcpSpec) -> Result<(), String> {
    build(spec, tcp).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_has_one_line() {
        for Registration { name, params, .. } in REGISTRY {
            for (k, (key, _)) in params.iter().enumerate() {
                assert!(params[..k].iter().all(|(other, _)| other != key), "{name}: {key}");
            }
        }
    }

    #[test]
    fn a_flow_has_the_network_s_kernel_unless_it_says_otherwise() {
        let network = TcpSpec::default();
        let of = |params: serde_json::Value| ControllerSpec {
            name: "reno".into(),
            params: params.as_object().unwrap().clone(),
        };
        let plain = tcp_of(&of(serde_json::json!({})), &network).unwrap();
        assert_eq!((plain.kernel, plain.ssthresh_cache), (Kernel::V6, None));
        let own = of(serde_json::json!({"kernel": "v4_15", "ssthresh_cache": 5000}));
        let own = tcp_of(&own, &network).unwrap();
        assert_eq!((own.kernel, own.ssthresh_cache), (Kernel::V4_15, Some(SsthreshCache::Segments(5000))));
        assert_eq!((plain.rmem_default(), own.rmem_default()), (131_072, 87_380));
        for (params, says) in [
            (serde_json::json!({"kernel": "v5"}), "reno.kernel = \"v5\": must be one of v6, v6_12, v4_15"),
            (serde_json::json!({"ssthresh_cache": 1}), "reno.ssthresh_cache = 1: must be \"off\", \"live\" or"),
            (serde_json::json!({"kernels": 1}), "must be one of [abe, kernel, ssthresh_cache, ecn]"),
        ] {
            let error = build(&of(params), &network).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
