//! Addresses of sockets.

/// An address (`struct sockaddr_nl`): a socket's number, or groups of sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The number of a socket; 0 is the kernel.
    pub port: u32,
    /// A bit for each of the first 32 groups.
    pub groups: u32,
}

impl Address {
    /// The size in bytes.
    pub const SIZE: usize = 12;
    /// `AF_NETLINK`.
    pub const FAMILY: u16 = 16;

    /// Reads one. `None`: it is too short, or of another family.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[f0, f1, _, _, p0, p1, p2, p3, g0, g1, g2, g3] = bytes.first_chunk()?;
        (u16::from_ne_bytes([f0, f1]) == Self::FAMILY).then(|| Self {
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
            groups: u32::from_ne_bytes([g0, g1, g2, g3]),
        })
    }

    /// The opposite.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let [f0, f1] = Self::FAMILY.to_ne_bytes();
        let [p0, p1, p2, p3] = self.port.to_ne_bytes();
        let [g0, g1, g2, g3] = self.groups.to_ne_bytes();
        [f0, f1, 0, 0, p0, p1, p2, p3, g0, g1, g2, g3]
    }

    /// The address of the `n`th group, from 1 on; the kernel's if it is beyond the first 32, or 0.
    pub fn of_group(n: u32) -> Self {
        let groups = n
            .checked_sub(1)
            .and_then(|bit| 1u32.checked_shl(bit))
            .unwrap_or(0);
        Self { port: 0, groups }
    }

    /// The lowest of its groups, from 1 on; 0 if there is none.
    pub fn group(self) -> u32 {
        match self.groups {
            0 => 0,
            groups => groups.trailing_zeros() + 1,
        }
    }
}
