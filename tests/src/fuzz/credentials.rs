//! What requests show: credentials of every kind, good ones and broken ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::values::{pick, text};

/// Headers with a good credential each.
pub(super) type Shown = Vec<(String, String)>;

/// The headers by which a request shows who sends it.
pub(super) fn some(random: &mut StdRng, good: &Shown) -> Vec<(String, Vec<u8>)> {
    let header = |name: &str, value: &[u8]| vec![(name.to_owned(), value.to_vec())];
    if good.is_empty() {
        return if random.random_bool(0.9) { Vec::new() } else { broken(random, "mst_0") };
    }
    let (name, value) = pick(random, good);
    match random.random_range(0..20) {
        0 => Vec::new(),
        1 | 2 => broken(random, value),
        3 => {
            let (other, second) = pick(random, good);
            [header(name, value.as_bytes()), header(other, second.as_bytes())].concat()
        }
        _ => header(name, value.as_bytes()),
    }
}

fn broken(random: &mut StdRng, like: &str) -> Vec<(String, Vec<u8>)> {
    let name =
        (*pick(random, &["Authorization", "authorization", "X-Muster-Token", "Cookie", "X-Worker-Id"]))
            .to_owned();
    let mut value = match random.random_range(0..9) {
        0 => Vec::new(),
        1 => b"Bearer".to_vec(),
        2 => format!("Bearer {}", like.trim_start_matches("Bearer ")).to_uppercase().into_bytes(),
        3 => format!("Basic {}", STANDARD.encode(format!("{}:{like}", text(random)))).into_bytes(),
        4 => b"Basic \xff\xfe".to_vec(),
        5 => format!("Bearer mj1.{}.1.{}", "0".repeat(32), "0".repeat(64)).into_bytes(),
        6 => format!("Digest username=\"{}\"", "x".repeat(3_000)).into_bytes(),
        7 => b"muster_session=mss_0; muster_session".to_vec(),
        _ => {
            let mut bytes = like.as_bytes().to_vec();
            let at = random.random_range(0..bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.random_range(33..255);
            }
            bytes
        }
    };
    // Ends of lines are for requests that are broken on purpose.
    value.retain(|byte| *byte >= 32 && *byte != 127);
    vec![(name, value)]
}
