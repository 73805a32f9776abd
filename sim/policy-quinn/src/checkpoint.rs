//! Reads a checkpoint's folder: `card.json` and `policy.safetensors`, as `orbitcc train` writes them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use orbitcc_core::observe::functions::{Definition, Interval};
use orbitcc_core::observe::policy::{Activation, Gate, Layer, LayerNorm, Network, Policy, Squash};
use orbitcc_core::observe::safety_filter::Limits;
use orbitcc_core::observe::{needs, registry};
use orbitcc_core::time::Nanos;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// What a card says. Scores and history are not read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Card {
    schema_version: u32,
    name: String,
    description: String,
    observation: Function,
    action: Function,
    interval_ms: f64,
    #[serde(default)]
    interval_rtts: f64,
    #[serde(default = "shortest_ms")]
    interval_least_ms: f64,
    clock: Option<String>,
    layers: Vec<Dense>,
    gate: Option<CardGate>,
    normaliser: bool,
    clip: f32,
    squash: Squash,
    training_range: Value,
    safety_filter: Option<Limits>,
    training: Value,
    imported: Value,
    scores: Value,
    weights_sha256: String,
    digest: String,
}

/// Of cards that were written before they said it.
fn shortest_ms() -> f64 {
    Interval::SHORTEST.0 as f64 * 1e-6
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Function {
    preset: String,
    parameters: Map<String, Value>,
    dim: usize,
    hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dense {
    units: usize,
    activation: Activation,
    norm: Norm,
    norm_eps: f32,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Norm {
    None,
    Layer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardGate {
    layers: Vec<Dense>,
    inputs: Vec<usize>,
    expert_inputs: Vec<usize>,
}

/// A card ends with its digest, before which it was taken over zeros.
const END: &[u8] = b"\"\n}\n";
const DIGITS: usize = 64;

/// As Python's limits (docs/reliability.md).
const MOST_CARD: u64 = 4_000_000;
const MOST_WEIGHTS: u64 = 256_000_000;

/// A regular file of at most so many bytes; nothing waits for a pipe or reads a device.
fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() || about.len() > most {
        return Err(io::Error::other(format!("must be a regular file of at most {most} bytes")));
    }
    std::fs::read(path)
}

/// The policy in a folder; the error is one line without the folder's name.
pub fn read(folder: &Path) -> Result<Policy, String> {
    let file = |name: &str, most: u64| read_file(&folder.join(name), most).map_err(|e| format!("{name}: {e}"));
    let (text, weights) = (file("card.json", MOST_CARD)?, file("policy.safetensors", MOST_WEIGHTS)?);
    let card: Card = serde_json::from_slice(&text).map_err(|e| format!("card.json is not a model card: {e}"))?;
    if card.schema_version != 1 {
        return Err(format!("card.json: schema_version = {}: must be 1", card.schema_version));
    }
    let head = text.len().saturating_sub(END.len() + DIGITS);
    let zeroed = [&text[..head], &[b'0'; DIGITS], END].concat();
    if text[head..] != [card.digest.as_bytes(), END].concat() || sha256(&zeroed) != card.digest {
        return Err("card.json is damaged, or was changed after it was written: its digest does not fit".into());
    }
    if sha256(&weights) != card.weights_sha256 {
        return Err("policy.safetensors is damaged or another file: its SHA-256 is not the one in card.json".into());
    }
    policy(&card, &weights)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn policy(card: &Card, weights: &[u8]) -> Result<Policy, String> {
    let request = |function: &Function| {
        let mut request = function.parameters.clone();
        request.insert("name".into(), json!(function.preset));
        Value::Object(request)
    };
    let observation = Arc::new(registry::observation(&request(&card.observation))?);
    let action = Arc::new(registry::action(&request(&card.action))?);
    if let Some(name) = needs::not_at_sender(&observation, &action) {
        return Err(format!("the policy {} needs the statistic {name}, which a sender of QUIC lacks", card.name));
    }
    // Before the first interval the rows are zero, which every range admits.
    let low: Vec<f64> = observation.labels().map(|feature| f64::from(feature.low.min(0.0))).collect();
    let high: Vec<f64> = observation.labels().map(|feature| f64::from(feature.high.max(0.0))).collect();
    let bounds = Map::from_iter([("low".to_owned(), json!(low)), ("high".to_owned(), json!(high))]);
    for (kind, function, known) in [
        ("observation", &card.observation, hash(&observation.definition, bounds)),
        ("action", &card.action, hash(&action.definition, Map::new())),
    ] {
        if function.hash != known {
            return Err(format!("it was trained on another definition of the {kind} {:?}", function.preset));
        }
    }
    if observation.dim() != card.observation.dim || card.action.dim != 1 {
        return Err(format!(
            "card.json: dim = {}, {}: must be {}, 1",
            card.observation.dim,
            card.action.dim,
            observation.dim()
        ));
    }
    let tensors = SafeTensors::deserialize(weights).map_err(|e| format!("policy.safetensors: {e}"))?;
    let mut reader = Reader { tensors, used: 0 };
    let width = card.gate.as_ref().map_or(card.observation.dim, |gate| gate.expert_inputs.len());
    let layers = reader.layers("layers", &card.layers, width)?;
    let gate = match &card.gate {
        None => None,
        Some(gate) => Some(Gate {
            layers: reader.layers("gate", &gate.layers, gate.inputs.len())?,
            inputs: gate.inputs.clone(),
            expert_inputs: gate.expert_inputs.clone(),
        }),
    };
    let normaliser = match card.normaliser {
        false => None,
        true => Some((
            reader.tensor("normaliser.mean", &[card.observation.dim])?,
            reader.tensor("normaliser.std", &[card.observation.dim])?,
        )),
    };
    if reader.tensors.len() != reader.used {
        return Err(format!("policy.safetensors: has {} tensors, the card {}", reader.tensors.len(), reader.used));
    }
    let ns = |ms: f64| Nanos((ms * 1e6).round() as u64);
    let interval = Interval::checked(ns(card.interval_ms), card.interval_rtts, ns(card.interval_least_ms))?;
    if let Some(limits) = &card.safety_filter {
        limits.validate().map_err(|e| format!("safety_filter.{e}"))?;
    }
    let network = Network { layers, gate, normaliser, clip: card.clip, squash: card.squash };
    Policy::native(network.into(), observation, action, interval, card.safety_filter.clone())
}

/// 16 hex digits that identify a function, as `orbitcc.envs.environments.presets.definition_hash` has them.
fn hash(definition: &Definition, mut covered: Map<String, Value>) -> String {
    let Definition { family, formula, changes, .. } = definition;
    covered.extend([
        ("family".to_owned(), json!(family)),
        ("formula".to_owned(), json!(formula)),
        ("changes".to_owned(), changes.clone()),
    ]);
    let mut covered = Value::Object(covered);
    covered.sort_all_objects(); // other crates of a program may let objects keep the order of the file
    let mut text = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut text, Spaced);
    covered.serialize(&mut writer).expect("JSON");
    sha256(&text)[..16].to_owned()
}

/// JSON as Python writes it: a space after commas and colons.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

struct Reader<'a> {
    tensors: SafeTensors<'a>,
    used: usize,
}

impl Reader<'_> {
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let found = self.tensors.tensor(name).map_err(|_| format!("policy.safetensors: {name} is missing"))?;
        if found.shape() != shape || found.dtype() != Dtype::F32 {
            return Err(format!("policy.safetensors: {name} must be float32 {shape:?}, as card.json says"));
        }
        self.used += 1;
        let values: Vec<f32> = found.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => Err(format!("policy.safetensors: {name} holds NaN or infinity")),
        }
    }

    fn layers(&mut self, name: &str, dense: &[Dense], mut inputs: usize) -> Result<Vec<Layer>, String> {
        let mut layers = Vec::new();
        for (i, layer) in dense.iter().enumerate() {
            let units = layer.units;
            layers.push(Layer {
                inputs,
                weight: self.tensor(&format!("{name}.{i}.weight"), &[units, inputs])?,
                bias: self.tensor(&format!("{name}.{i}.bias"), &[units])?,
                norm: match layer.norm {
                    Norm::None => None,
                    Norm::Layer => Some(LayerNorm {
                        scale: self.tensor(&format!("{name}.{i}.norm.scale"), &[units])?,
                        shift: self.tensor(&format!("{name}.{i}.norm.shift"), &[units])?,
                        eps: layer.norm_eps,
                    }),
                },
                activation: layer.activation,
            });
            inputs = units;
        }
        Ok(layers)
    }
}

#[cfg(test)]
mod tests {
    use orbitcc_core::observe::policy::Answer;
    use orbitcc_core::observe::stats::IntervalStats;

    use super::*;

    fn shipped(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints").join(name)
    }

    #[test]
    fn shipped_policies_act_as_numpy_computes_from_their_files() {
        for (name, first, second) in [
            ("zenith", 0.78177, 1.0),
            ("zenith-rllib", 0.38695, 1.0),
            ("apogee", 0.89786, 0.73412),
            ("perigee", 0.6087, 0.81844),
            ("astraea", 0.77332, 0.98349),
        ] {
            let policy = read(&shipped(name)).unwrap();
            let width = policy.observation.dim();
            for (observation, wanted) in [
                ((0..width).map(|k| ((7 * k % 11) as f32 - 5.0) / 10.0).collect::<Vec<_>>(), first),
                ((0..width).map(|k| ((3 * k % 7) as f32 - 3.0) / 4.0).collect(), second),
            ] {
                let answer = (policy.begin)().decide(0, &observation, &IntervalStats::default());
                let Ok(Answer::Action(action)) = answer else { panic!("{name}") };
                assert!((action - wanted).abs() < 1e-5, "{name}: {action}, not {wanted}");
            }
        }
    }

    /// Why a copy of perigee with a changed card and changed weights is refused; `seals`: with digests that fit.
    fn refusal(seals: bool, change: impl Fn(&mut Value, &mut Vec<u8>)) -> String {
        let folder =
            std::env::temp_dir().join(format!("orbitcc-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut card: Value =
            serde_json::from_slice(&std::fs::read(shipped("perigee").join("card.json")).unwrap()).unwrap();
        let mut weights = std::fs::read(shipped("perigee").join("policy.safetensors")).unwrap();
        change(&mut card, &mut weights);
        let mut text = std::fs::read(shipped("perigee").join("card.json")).unwrap();
        if seals {
            card["weights_sha256"] = json!(sha256(&weights));
            card.as_object_mut().unwrap().remove("digest");
            let open = card.to_string();
            let sealed = |digest: &str| format!("{},\"digest\":\"{digest}\"\n}}\n", open.strip_suffix('}').unwrap());
            text = sealed(&sha256(sealed(&"0".repeat(DIGITS)).as_bytes())).into_bytes();
        } else if let Some(raw) = card.get("raw") {
            text = raw.as_str().unwrap().into();
        }
        std::fs::write(folder.join("card.json"), text).unwrap();
        std::fs::write(folder.join("policy.safetensors"), weights).unwrap();
        let refused = read(&folder).err();
        std::fs::remove_dir_all(&folder).unwrap();
        refused.unwrap_or_default()
    }

    #[test]
    fn files_that_are_missing_damaged_or_of_another_version_are_refused_by_one_line() {
        assert_eq!(refusal(true, |_, _| ()), "", "sealed again it is the policy");
        let missing = read(Path::new("/nowhere")).err().unwrap();
        assert!(missing.starts_with("card.json: No such file"), "{missing}");
        let original = std::fs::read_to_string(shipped("perigee").join("card.json")).unwrap();
        for (damaged, says) in [
            (String::new(), "card.json is not a model card: EOF"),
            (original.replacen("30.0", "31.0", 1), "card.json is damaged, or was changed"),
            (original.replacen("\"name\"", "\"title\"", 1), "card.json is not a model card: unknown field `title`"),
        ] {
            let refused = refusal(false, |card, _| card["raw"] = json!(damaged));
            assert!(refused.starts_with(says), "{refused}");
        }
        let refused = refusal(false, |_, weights| *weights.last_mut().unwrap() ^= 1);
        assert!(refused.starts_with("policy.safetensors is damaged or another file"), "{refused}");
    }

    #[test]
    fn cards_that_ask_for_what_does_not_fit_are_refused_by_name() {
        for (path, value, says) in [
            ("/schema_version", json!(2), "card.json: schema_version = 2: must be 1"),
            ("/observation/hash", json!("0"), "it was trained on another definition of the observation \"ratios\""),
            ("/observation/preset", json!("none"), "observation = \"none\": must be one of"),
            ("/observation/preset", json!("ratios-oracle"), "the policy perigee needs the statistic handover_in_s"),
            ("/observation/dim", json!(3), "card.json: dim = 3, 1: must be"),
            ("/layers/0/units", json!(3), "policy.safetensors: layers.0.weight must be float32 [3, "),
            ("/normaliser", json!(false), "policy.safetensors: has "),
            ("/interval_rtts", json!(-1.0), "interval_rtts = -1: must be a number in 0 .. 100"),
            ("/layers/0/activation", json!("sine"), "card.json is not a model card: unknown variant `sine`"),
            ("/safety_filter", json!({"max_bdp": -1.0}), "safety_filter.max_bdp = -1: must be"),
            ("/clip", json!(-1.0), "clip = -1: must be above 0"),
        ] {
            let refused = refusal(true, |card, _| *card.pointer_mut(path).unwrap() = value.clone());
            assert!(refused.starts_with(says), "{path}: {refused}");
        }
        let refused = refusal(true, |card, _| {
            card["observation"] = json!({"preset": "astraea", "parameters": {}, "dim": 1, "hash": ""})
        });
        assert_eq!(refused, "the policy perigee needs the statistic packets_out, which a sender of QUIC lacks");
        let refused = read_file(Path::new("/"), MOST_CARD).unwrap_err().to_string();
        assert_eq!(refused, "must be a regular file of at most 4000000 bytes");
        assert!(read_file(&shipped("perigee").join("card.json"), 10).is_err());
        let refused = refusal(true, |_, weights| weights.truncate(weights.len() - 4));
        assert!(refused.starts_with("policy.safetensors: "), "{refused}");
        let refused = refusal(true, |_, weights| {
            let end = weights.len() - 4;
            weights[end..].copy_from_slice(&f32::NAN.to_le_bytes());
        });
        assert!(refused.ends_with("holds NaN or infinity"), "{refused}");
    }
}
