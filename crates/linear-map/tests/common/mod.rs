//! What the tests share: edits, rules, small geometries, and a model of a memory management unit.
#![allow(dead_code, unused_imports)]

pub mod model;
pub mod tiny;

pub use model::Model;

use limen_linear_map::{Access, Attributes, Edit, Rule};

pub const RW: Access = Access::PRESENT.union(Access::READ).union(Access::WRITE);
pub const RO: Access = Access::PRESENT.union(Access::READ);

pub fn plain(access: Access) -> Attributes {
    Attributes { access, kind: 3 }
}

pub fn read_only() -> Edit {
    Edit {
        clear: Access::WRITE,
        set: Access::empty(),
    }
}
pub fn writable() -> Edit {
    Edit {
        clear: Access::empty(),
        set: Access::WRITE,
    }
}
pub fn absent() -> Edit {
    Edit {
        clear: Access::PRESENT,
        set: Access::empty(),
    }
}
pub fn present() -> Edit {
    Edit {
        clear: Access::empty(),
        set: Access::PRESENT,
    }
}

/// All rules that change sizes, with their names.
pub fn rules(groups: bool) -> Vec<(&'static str, Rule)> {
    use limen_linear_map::rule::*;
    let mut all = vec![
        ("arm break", ARM_BREAK),
        ("arm64 level 1", ARM64_BBM_1),
        ("arm64 level 2", ARM64_BBM_2),
        ("arm64 level 2, no abort", ARM64_BBM_2_NO_ABORT),
        ("arm short", ARM_SHORT),
    ];
    if !groups {
        all.extend([("x86", X86), ("power", POWER)]);
    }
    all
}
