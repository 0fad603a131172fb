//! What the agent sends of a trace, over the channel of its messages: a message with a kind and a size, and
//! then that many bytes. Used by `pump.rs`.

/// The most bytes that are kept of a kind.
const LIMIT: usize = 1 << 30;

/// The bytes that came, by kind.
#[derive(Default)]
pub struct Parcels {
    /// The file `trace`.
    pub trace: Vec<u8>,
    /// The files `per_cpu/cpuN/stats`, one after the other.
    pub stats: Vec<u8>,
    /// The names that a refused setting chooses from.
    pub names: Vec<u8>,
    /// Files by their names, as they are, for a file that trace-cmd reads.
    pub files: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes were left out, because there were too many.
    pub cut: bool,
    left: u64,
    kind: usize,
}

const KINDS: [&str; 5] = ["trace", "stats", "names", "entry", "part"];

impl Parcels {
    /// Whether this message begins a parcel, of so many bytes.
    pub fn begin(&mut self, kind: &str, size: u64) -> bool {
        let Some(kind) = KINDS.iter().position(|k| *k == kind) else {
            return false;
        };
        (self.kind, self.left) = (kind, size);
        if KINDS[kind] == "entry" {
            self.files.push(Default::default());
        }
        true
    }

    /// Takes the bytes of the parcel that has begun, as far as they are there, from the front of `bytes`.
    pub fn take(&mut self, bytes: &mut Vec<u8>) {
        let n = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if n == 0 {
            return;
        }
        self.left -= n as u64;
        let of_files: usize = self.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let (of_kind, others) = match (self.kind, self.files.last_mut()) {
            (0, _) => (&mut self.trace, 0),
            (1, _) => (&mut self.stats, 0),
            (3, Some((name, _))) => (name, 0),
            (4, Some((_, bytes))) => {
                let others = of_files - bytes.len();
                (bytes, others)
            }
            _ => (&mut self.names, 0),
        };
        let room = LIMIT - (of_kind.len() + others).min(LIMIT);
        self.cut |= n > room;
        of_kind.extend(bytes.drain(..n).take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::Parcels;

    #[test]
    fn bytes_are_taken_as_they_come() {
        let mut parcels = Parcels::default();
        assert!(!parcels.begin("exit", 3));
        let mut bytes = b"12345exit 0 0 0\n".to_vec();
        parcels.take(&mut bytes);
        assert_eq!(bytes.len(), 16, "no parcel has begun");
        assert!(parcels.begin("names", 1));
        parcels.take(&mut bytes);
        assert!(parcels.begin("trace", 4));
        let mut first = bytes.drain(..2).collect::<Vec<u8>>();
        parcels.take(&mut first);
        parcels.take(&mut bytes);
        assert_eq!((&*parcels.names, &*parcels.trace), (&b"1"[..], &b"2345"[..]));
        assert_eq!(bytes, b"exit 0 0 0\n");
        parcels.take(&mut bytes);
        assert_eq!(bytes.len(), 11);
        for (kind, text) in [("entry", "a"), ("part", "bc"), ("part", "d"), ("entry", "e")] {
            assert!(parcels.begin(kind, text.len() as u64));
            parcels.take(&mut text.as_bytes().to_vec());
        }
        let files = [("a", "bcd"), ("e", "")].map(|(name, text)| (name.into(), text.into()));
        assert_eq!(parcels.files, files);
    }
}
