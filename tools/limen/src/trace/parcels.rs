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
    /// Bytes were left out, because there were too many.
    pub cut: bool,
    left: u64,
    kind: usize,
}

const KINDS: [&str; 3] = ["trace", "stats", "names"];

impl Parcels {
    /// Whether this message begins a parcel, of so many bytes.
    pub fn begin(&mut self, kind: &str, size: u64) -> bool {
        let Some(kind) = KINDS.iter().position(|k| *k == kind) else {
            return false;
        };
        (self.kind, self.left) = (kind, size);
        true
    }

    /// Takes the bytes of the parcel that has begun, as far as they are there, from the front of `bytes`.
    pub fn take(&mut self, bytes: &mut Vec<u8>) {
        let n = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if n == 0 {
            return;
        }
        self.left -= n as u64;
        let of_kind = match self.kind {
            0 => &mut self.trace,
            1 => &mut self.stats,
            _ => &mut self.names,
        };
        let room = LIMIT - of_kind.len().min(LIMIT);
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
    }
}
