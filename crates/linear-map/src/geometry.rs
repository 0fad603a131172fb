//! Which tables there are and how large the leaves in them: data, not code. What the constants say is the
//! processors' manuals; the engine reads nothing else of a processor.

/// One level of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// log2 of the bytes that one entry covers.
    pub shift: u8,
    /// log2 of the entries of a table.
    pub bits: u8,
    /// Whether an entry can be a leaf.
    pub leaf: bool,
    /// log2 of the entries that the processor may keep as one translation when they are marked (a *group*);
    /// 0: there are no groups. A group is aligned to its size, in addresses of both kinds.
    pub group: u8,
}

impl Level {
    const fn leaves(shift: u8, bits: u8, group: u8) -> Self {
        Self {
            shift,
            bits,
            leaf: true,
            group,
        }
    }

    const fn tables(shift: u8, bits: u8) -> Self {
        Self {
            shift,
            bits,
            leaf: false,
            group: 0,
        }
    }

    /// Bytes that one entry covers.
    #[inline(always)]
    pub const fn size(&self) -> u64 {
        1 << self.shift
    }

    /// Bytes that a group covers: an entry's, where there are no groups.
    #[inline(always)]
    pub const fn group_size(&self) -> u64 {
        1 << (self.shift + self.group)
    }

    /// Entries of a table.
    #[inline(always)]
    pub const fn entries(&self) -> usize {
        1 << self.bits
    }

    /// Entries of a group.
    #[inline(always)]
    pub const fn group_entries(&self) -> usize {
        1 << self.group
    }

    /// The entry for an address.
    #[inline(always)]
    pub const fn index(&self, addr: u64) -> usize {
        (addr >> self.shift) as usize & (self.entries() - 1)
    }
}

/// The most levels.
pub const MAX_LEVELS: usize = 5;

/// The levels of a map, from the pages (level 0) to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    levels: &'static [Level],
}

impl Geometry {
    /// # Panics
    ///
    /// The levels do not fit together.
    pub const fn new(levels: &'static [Level]) -> Self {
        assert!(!levels.is_empty() && levels.len() <= MAX_LEVELS);
        assert!(levels[0].leaf, "pages are leaves");
        let mut n = 0;
        while n < levels.len() {
            assert!(levels[n].group <= levels[n].bits && (levels[n].leaf || levels[n].group == 0));
            if n > 0 {
                assert!(levels[n].shift == levels[n - 1].shift + levels[n - 1].bits);
                assert!(!levels[n].leaf || levels[n - 1].leaf, "leaves split into leaves");
            }
            n += 1;
        }
        Self { levels }
    }

    /// The levels.
    #[inline(always)]
    pub const fn levels(&self) -> &'static [Level] {
        self.levels
    }

    /// One level.
    #[inline(always)]
    pub fn level(&self, level: usize) -> &'static Level {
        &self.levels[level]
    }

    /// The root's level.
    #[inline(always)]
    pub const fn top(&self) -> usize {
        self.levels.len() - 1
    }

    /// The highest level that can have leaves.
    pub const fn largest(&self) -> usize {
        let mut level = self.levels.len() - 1;
        while !self.levels[level].leaf {
            level -= 1;
        }
        level
    }
}

/// arm64, 4K granule, 48 bits: 4K, 64K, 2M, 32M, 1G. (DDI 0487, chapter D8, on the Contiguous bit: 16
/// entries at either level. It has 16G too, of which Linux makes no use.)
pub const ARM64_4K: Geometry = Geometry::new(&[
    Level::leaves(12, 9, 4),
    Level::leaves(21, 9, 4),
    Level::leaves(30, 9, 0),
    Level::tables(39, 9),
]);

/// arm64, 16K granule, 48 bits: 16K, 2M (128 pages), 32M, 1G (32 blocks).
pub const ARM64_16K: Geometry = Geometry::new(&[
    Level::leaves(14, 11, 7),
    Level::leaves(25, 11, 5),
    Level::tables(36, 11),
    Level::tables(47, 1),
]);

/// arm64, 64K granule, 48 bits: 64K, 2M (32 pages), 512M, 16G (32 blocks).
pub const ARM64_64K: Geometry = Geometry::new(&[
    Level::leaves(16, 13, 5),
    Level::leaves(29, 13, 5),
    Level::tables(42, 6),
]);

/// x86_64, four levels: 4K, 2M, 1G. (Intel SDM, volume 3A, 4.5. A processor without 1G pages:
/// [`crate::Map::largest`].)
pub const X86_64: Geometry = Geometry::new(&[
    Level::leaves(12, 9, 0),
    Level::leaves(21, 9, 0),
    Level::leaves(30, 9, 0),
    Level::tables(39, 9),
]);

/// x86_64, five levels.
pub const X86_64_5: Geometry = Geometry::new(&[
    Level::leaves(12, 9, 0),
    Level::leaves(21, 9, 0),
    Level::leaves(30, 9, 0),
    Level::tables(39, 9),
    Level::tables(48, 9),
]);

/// 32-bit Arm, long descriptors: 4K, 64K, 2M, 32M, 1G. (DDI 0406, B3.6.)
pub const ARM_LONG: Geometry = Geometry::new(&[
    Level::leaves(12, 9, 4),
    Level::leaves(21, 9, 4),
    Level::leaves(30, 2, 0),
]);

/// 32-bit Arm, short descriptors: 4K, 64K (a large page: sixteen equal descriptors), 1M, 16M (a supersection:
/// sixteen equal descriptors). (DDI 0406, B3.5.) A table has 1 KiB, the root 16 KiB.
pub const ARM_SHORT: Geometry = Geometry::new(&[Level::leaves(12, 8, 4), Level::leaves(20, 12, 4)]);

/// Power, radix trees, 4K pages: 4K, 2M, 1G. (Power ISA, book III, on radix trees; the sizes that the
/// processors have are `ibm,processor-radix-AP-encodings` of the devicetree.)
pub const POWER_4K: Geometry = Geometry::new(&[
    Level::leaves(12, 9, 0),
    Level::leaves(21, 9, 0),
    Level::leaves(30, 9, 0),
    Level::tables(39, 13),
]);

/// Power, radix trees, 64K pages: 64K, 2M, 1G.
pub const POWER_64K: Geometry = Geometry::new(&[
    Level::leaves(16, 5, 0),
    Level::leaves(21, 9, 0),
    Level::leaves(30, 9, 0),
    Level::tables(39, 13),
]);
