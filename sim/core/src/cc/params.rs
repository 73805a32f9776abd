//! Parameters of a controller as they are given.

use serde_json::{Map, Value};

use crate::spec::Kernel;

/// Parameters of a controller, checked against its registration.
pub struct Params<'a> {
    pub(super) given: &'a Map<String, Value>,
    /// The kernel whose version of the algorithm is wanted.
    pub kernel: Kernel,
}

impl Params<'_> {
    pub fn text<'b>(&'b self, name: &str, default: &'b str, allowed: &[&str]) -> Result<&'b str, String> {
        let value = match self.given.get(name) {
            None => default,
            Some(Value::String(text)) => text,
            Some(other) => {
                return Err(format!("{name} = {other}: must be one of {}", allowed.join(", ")));
            }
        };
        if allowed.contains(&value) {
            Ok(value)
        } else {
            Err(format!("{name} = {value:?}: must be one of {}", allowed.join(", ")))
        }
    }

    pub fn number(&self, name: &str, default: f64, low: f64, high: f64) -> Result<f64, String> {
        let Some(value) = self.given.get(name) else {
            return Ok(default);
        };
        match value.as_f64() {
            Some(x) if (low..=high).contains(&x) => Ok(x),
            _ => Err(format!("{name} = {value}: must be a number in {low} .. {high}")),
        }
    }
}
