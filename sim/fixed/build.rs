//! Compiles the C code of the BPF programs for this machine, and writes its numbers and structures in Rust
//! (`layout.rs` in the folder of this build), so that they are declared once.

use std::path::Path;
use std::{env, fs};

/// The headers of the BPF programs.
const BPF: &str = "../emulator/bpf";
/// Those with structures and numbers that Rust needs.
const DECLARE: [&str; 5] = ["fixed_policy.h", "safety.h", "fixed_measures.h", "fixed_features.h", "fixed_network.h"];

fn main() {
    println!("cargo:rerun-if-changed={BPF}");
    println!("cargo:rerun-if-changed=src");
    let build = |file: &str, flags: &[&str], name: &str| {
        let mut build = cc::Build::new();
        build.file(file).include(BPF).std("gnu11").warnings(false);
        flags.iter().for_each(|flag| {
            build.flag_if_supported(flag);
        });
        build.compile(name);
    };
    build("src/decide.c", &["-fwrapv"], "orbitcc_fixed");
    // Overflows end the process.
    let checks = ["-fsanitize=signed-integer-overflow,shift-exponent,bounds", "-fsanitize-undefined-trap-on-error"];
    build("src/tested.c", &checks, "orbitcc_fixed_tested");

    let mut rust = String::new();
    for name in DECLARE {
        let text = fs::read_to_string(Path::new(BPF).join(name)).expect(name);
        declare(&without_comments(&text), name == DECLARE[0], &mut rust);
    }
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("layout.rs"), rust).expect("the folder of this build is writable");
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once("*/").expect("a comment ends").1)
}

/// Every `#define` of a decimal number, a size or a kind, and every structure of integers.
fn declare(text: &str, sizes: bool, rust: &mut String) {
    let number = if sizes { "usize" } else { "u32" };
    for line in text.lines() {
        if let ["#define", name, value] = line.split_whitespace().collect::<Vec<_>>()[..]
            && value.bytes().all(|digit| digit.is_ascii_digit())
        {
            *rust += &format!("pub const {name}: {number} = {value};\n");
        }
    }
    for part in text.split("\nstruct ").skip(1) {
        let (name, rest) = part.split_once(' ').expect("a structure has a name");
        let fields = rest.trim_start_matches('{').split_once("\n};").expect("a structure ends").0;
        if fields.contains("union") {
            continue;
        }
        let fields = fields.split(';').filter_map(|field| {
            let field = field.trim();
            let (kind, name) = field.strip_prefix("struct ").unwrap_or(field).split_once(' ')?;
            let kind =
                if field.starts_with('_') { kind.replace("__s", "i").replace("__u", "u") } else { camel_case(kind) };
            let (name, length) = name.split_once('[').unwrap_or((name, ""));
            Some((name, if length.is_empty() { kind } else { format!("[{kind}; {length}") }))
        });
        let (members, sizes): (Vec<_>, Vec<_>) =
            fields.map(|(name, kind)| (format!("    pub {name}: {kind},\n"), format!("size_of::<{kind}>()"))).unzip();
        let (members, bytes) = (members.concat(), sizes.join(" + "));
        let name = camel_case(name);
        *rust += &format!(
            "#[derive(Clone, Copy, Debug, PartialEq)]\n#[repr(C)]\npub struct {name} {{\n{members}}}\n\
             const _: () = assert!(size_of::<{name}>() == {bytes});\n\
             // SAFETY: integers alone, and no padding.\nunsafe impl Plain for {name} {{}}\n\
             impl Default for {name} {{\n    fn default() -> {name} {{\n        zeros()\n    }}\n}}\n"
        );
    }
}

fn camel_case(name: &str) -> String {
    name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
