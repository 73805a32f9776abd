//! How late packets were delivered: a histogram of 32 classes per doubling.

const FINE: u32 = 5;

#[derive(Clone)]
pub struct Lateness {
    classes: Vec<u64>,
    count: u64,
    late: u64,
    most_ns: u64,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { classes: vec![0; 64 << FINE], count: 0, late: 0, most_ns: 0 }
    }
}

fn class(ns: u64) -> usize {
    let bits = 64 - ns.leading_zeros();
    let shift = bits.saturating_sub(FINE + 1);
    ((shift << FINE) + (ns >> shift) as u32) as usize
}

/// The largest number of a class.
fn top(class: usize) -> u64 {
    let shift = (class >> FINE).saturating_sub(1);
    let rest = (class - (shift << FINE)) as u64;
    ((rest + 1) << shift) - 1
}

impl Lateness {
    pub fn add(&mut self, ns: u64) {
        self.classes[class(ns)] += 1;
        self.count += 1;
        self.late += u64::from(ns > 1_000_000);
        self.most_ns = self.most_ns.max(ns);
    }

    fn quantile_us(&self, q: f64) -> f64 {
        let wanted = (self.count as f64 * q).ceil() as u64;
        let mut seen = 0;
        for (class, n) in self.classes.iter().enumerate() {
            seen += n;
            if seen >= wanted && *n > 0 {
                return top(class).min(self.most_ns) as f64 * 1e-3;
            }
        }
        0.0
    }

    pub fn report(&self) -> serde_json::Value {
        serde_json::json!({
            "packets": self.count,
            "p50_us": self.quantile_us(0.5),
            "p99_us": self.quantile_us(0.99),
            "max_us": self.most_ns as f64 * 1e-3,
            "share_above_1_ms": self.late as f64 / self.count.max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_class() {
        let mut lateness = Lateness::default();
        (1..=1000u64).for_each(|us| lateness.add(us * 1_000));
        lateness.add(2_000_000);
        for (q, us) in [(0.5, 501.0), (0.99, 991.0)] {
            let got = lateness.quantile_us(q);
            assert!((us..us * 1.04).contains(&got), "{q}: {got}");
        }
        assert_eq!(lateness.report()["max_us"], 2_000.0);
        assert_eq!(lateness.report()["share_above_1_ms"], 1.0 / 1001.0);
        for ns in (0..100_000).step_by(7) {
            assert!(top(class(ns)) >= ns && (class(ns) == 0 || top(class(ns) - 1) < ns), "{ns}");
        }
    }
}
