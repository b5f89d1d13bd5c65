//! SHA-256 (FIPS 180-4) and base64, for the page's content security policy: it names its one script and its one style
//! sheet by their digests, so that no browser runs anything else. Nothing secret is hashed.

/// A source expression of a policy: `'sha256-…'`.
pub(super) fn policy_source(text: &str) -> String {
    format!("'sha256-{}'", base64(&digest(text.as_bytes())))
}

/// First 32 bits of the fractional parts of the roots of the first primes: the square roots of eight, the cube roots
/// of 64. Computed from the primes, so that there is no table to mistype.
fn constants() -> ([u32; 8], [u32; 64]) {
    let mut primes =
        (2_u64..).filter(|number| (2..*number).take_while(|d| d * d <= *number).all(|d| number % d != 0));
    let mut roots = ([0; 8], [0; 64]);
    for index in 0..64 {
        let prime = u128::from(primes.next().unwrap_or(2));
        // floor(root * 2^32), whose low 32 bits are the fraction: the root of prime * 2^64, and of prime * 2^96.
        if let Some(square) = roots.0.get_mut(index) {
            *square = (prime << 64).isqrt() as u32;
        }
        roots.1[index] = cube_root(prime << 96) as u32;
    }
    roots
}

/// The largest integer whose cube is not above `value`, which is below 2^105.
fn cube_root(value: u128) -> u128 {
    let mut root = 0_u128;
    for bit in (0..35).rev() {
        let candidate = root | 1 << bit;
        if candidate.pow(3) <= value {
            root = candidate;
        }
    }
    root
}

fn digest(message: &[u8]) -> [u8; 32] {
    let (mut state, rounds) = constants();
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &rounds);
    }
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn compress(state: &mut [u32; 8], block: &[u8], rounds: &[u32; 64]) {
    let mut words = [0_u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for index in 16..64 {
        let (early, late) = (words[index - 15], words[index - 2]);
        let s0 = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let s1 = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        words[index] = words[index - 16].wrapping_add(s0).wrapping_add(words[index - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in words.iter().zip(rounds) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let first = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(*constant).wrapping_add(*word);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..4 {
            out.push(match index <= group.len() {
                true => char::from(ALPHABET[(bits >> (18 - 6 * index) & 63) as usize]),
                false => '=',
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let hex =
            |text: &str| digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(long), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }

    #[test]
    fn base64_pads() {
        assert_eq!(["", "f", "fo", "foo"].map(|text| base64(text.as_bytes())).join(" "), " Zg== Zm8= Zm9v");
        assert_eq!(policy_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }
}
