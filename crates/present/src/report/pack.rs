//! Numbers in few bytes, for a page that has to fit into a ticket.
//!
//! Integers are written seven bits at a time, lowest first, the top bit meaning that more follow;
//! bytes become text in base64. Worked example: 300 is the bytes `ac 02`, which is `rAI=`.
//!
//! How many threads did something is mostly zero: an even integer is twice a value in hundredths,
//! an odd one twice a number of zeros and one. `0 0 0 1.5` is the integers 7 and 300.

/// Bytes on their way to a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed(Vec<u8>);

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Packed {
    /// These bytes.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Appends an integer.
    pub(super) fn put(&mut self, value: u64) {
        schedcast_trace::perfetto::wire::put_varint(&mut self.0, value);
    }

    /// All of it as text.
    pub(super) fn base64(&self) -> String {
        let mut text = String::with_capacity(self.0.len().div_ceil(3) * 4);
        for three in self.0.chunks(3) {
            let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for letter in 0..4 {
                if letter <= three.len() {
                    let row = bits >> (18 - 6 * letter) & 63;
                    text.push(char::from(LETTERS[row as usize]));
                } else {
                    text.push('=');
                }
            }
        }
        text
    }
}

/// Steps of one in a packed load.
const LOAD_STEPS: f32 = 100.0;

/// How many threads did something, bucket by bucket.
pub(super) fn load(values: &[f32]) -> Packed {
    let mut packed = Packed::default();
    let mut zeros = 0;
    for value in values {
        match (value.max(0.0) * LOAD_STEPS).round() as u64 {
            0 => zeros += 1,
            steps => {
                if zeros > 0 {
                    packed.put(2 * zeros + 1);
                }
                zeros = 0;
                packed.put(2 * steps);
            }
        }
    }
    if zeros > 0 {
        packed.put(2 * zeros + 1);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_to_four_letters() {
        let text = |bytes: &[u8]| Packed::of_bytes(bytes.to_vec()).base64();
        assert_eq!(text(b""), "");
        assert_eq!(text(b"f"), "Zg==");
        assert_eq!(text(b"fo"), "Zm8=");
        assert_eq!(text(b"foobar"), "Zm9vYmFy");
        let mut packed = Packed::default();
        packed.put(300);
        assert_eq!(packed.base64(), "rAI=");
    }

    #[test]
    fn zeros_of_a_load_are_counted() {
        assert_eq!(load(&[0.0, 0.0, 0.0, 1.5]).0, [7, 0xac, 0x02]);
        assert_eq!(load(&[0.004, 0.5, 0.0]).0, [3, 100, 3]);
        assert!(load(&[]).0.is_empty());
    }
}
