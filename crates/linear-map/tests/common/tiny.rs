//! Geometries small enough to go through everything. All tables but the root have as many entries.

use limen_linear_map::{Geometry, Level, Map, Rule, Table};

const fn level(shift: u8, bits: u8, leaf: bool, group: u8) -> Level {
    Level {
        shift,
        bits,
        leaf,
        group,
    }
}

/// Eight pages: blocks of two and four.
pub const NARROW: Geometry = Geometry::new(&[
    level(12, 1, true, 0),
    level(13, 1, true, 0),
    level(14, 1, true, 0),
    level(15, 0, false, 0),
]);

/// Eight pages: groups of two, blocks of four.
pub const GROUPS: Geometry = Geometry::new(&[level(12, 2, true, 1), level(14, 2, true, 1)]);

/// 64 pages: groups of two, blocks of four, groups of eight, blocks of sixteen.
pub const DEEP: Geometry = Geometry::new(&[
    level(12, 2, true, 1),
    level(14, 2, true, 1),
    level(16, 2, true, 0),
    level(18, 2, false, 0),
]);

/// Groups of four, blocks of eight, groups of 32, blocks of 64: as the real ones, with fewer entries.
pub const MIDDLE: Geometry = Geometry::new(&[
    level(12, 3, true, 2),
    level(15, 3, true, 2),
    level(18, 3, true, 0),
    level(21, 3, false, 0),
]);

pub fn map(geometry: &'static Geometry, rule: Rule) -> Map {
    Map {
        geometry,
        rule,
        root: Table(0),
        largest: geometry.largest(),
        groups: rule.group != limen_linear_map::Resize::Never,
    }
}
