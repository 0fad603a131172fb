//! How the size of a live mapping may change: the processors' rules, as data.
//!
//! **Arm** (DDI 0487, chapter D8, "Using break-before-make when updating translation table entries" and
//! what follows on `FEAT_BBM`; the rules' names are the manual's). A break-before-make sequence is: write an
//! invalid entry, `DSB`, invalidate, `DSB`, write the new entry, `DSB` (RDDMVT). It is demanded for each
//! change of a block's size (RWHZWS), unless the processor has more (RKFLJB):
//!
//! * level 1 has the bit nT in block descriptors (IPJZBK): such a block is not kept in a way that conflicts
//!   with others. It is set, the block invalidated, and the table written. But as long as it is set, accesses
//!   may raise a translation fault (RMRRPW), so nobody may access the block meanwhile. The Contiguous bit may
//!   change without a break (RKHRBC), but may make an access abort (RFCPSG).
//! * level 2: the size changes in one write. Until the old translation is invalidated, an access may end in
//!   a TLB conflict abort (IHYQMB). Processors that never raise it are known by name, as in Linux's list
//!   (or say so themselves, as level 3); for others nobody may access the block meanwhile.
//!
//! All this is about sizes only (RPVTFW). A change of permissions needs no break at any level, only the
//! invalidation after it (RGPPYH); while entries of a group differ, an access has the permissions of one of
//! them (RJQQTC).
//!
//! **32-bit Arm** (DDI 0406, B3.10.1): as level 0. The sixteen descriptors of a large page or supersection
//! are equal, always (B3.5.1), so that even its permissions change by a break.
//!
//! **x86** (Intel SDM, volume 3A, 4.10.2.3 and 4.10.4.2): the processor may keep translations of several
//! sizes for one address, and use either. So no one write changes the size and the permissions; and the old
//! size is invalidated before permissions change, lest two translations differ in both. (There are
//! processors that stop over it: AMD's revision guide of family 10h, erratum 383.)
//!
//! **Power** (Power ISA 3.0, book III, 5.10.1.2 "Modifying a Translation Table Entry"; chapter 6 in 3.1): the
//! general case is the invalid entry, `ptesync`, `tlbie`, `eieio`, `tlbsync`, `ptesync`, then the new entry.
//! Only what the section lists goes without the invalid entry; a size is not in the list. More access
//! authority needs no `tlbie`, less needs one after the store.

/// How one kind of change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// In one write.
    Live,
    /// The block is first marked as one not to be kept, and what is kept of it invalidated.
    Marked,
    /// Break before make.
    Break,
    /// Not at all: a change that needs it is refused.
    Never,
}

/// The rule of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Between a block and a table.
    pub table: Resize,
    /// Between a group and its entries ([`Resize::Marked`] is not for groups).
    pub group: Resize,
    /// The permissions of a group that stays one: `Live` or `Break`.
    pub group_access: Resize,
    /// Accesses go on during changes that are `Live` or `Marked`. Otherwise nobody may access the block from
    /// the first write until the old translations are invalidated.
    pub quiet: bool,
    /// After a live change of size the old translations are invalidated before anything else changes.
    pub settle: bool,
}

impl Rule {
    /// Whether a change of this kind needs [`crate::Step::Park`].
    pub const fn parks(&self, how: Resize) -> bool {
        match how {
            Resize::Live | Resize::Marked => !self.quiet,
            Resize::Break => true,
            Resize::Never => false,
        }
    }
}

/// arm64 without `FEAT_BBM`, or 32-bit Arm with long descriptors.
pub const ARM_BREAK: Rule = Rule {
    table: Resize::Break,
    group: Resize::Break,
    group_access: Resize::Live,
    quiet: false,
    settle: false,
};

/// arm64, `FEAT_BBM` level 1.
pub const ARM64_BBM_1: Rule = Rule {
    table: Resize::Marked,
    group: Resize::Live,
    ..ARM_BREAK
};

/// arm64, `FEAT_BBM` level 2, on a processor that may raise TLB conflict aborts.
pub const ARM64_BBM_2: Rule = Rule {
    table: Resize::Live,
    ..ARM64_BBM_1
};

/// arm64, `FEAT_BBM` level 2, on a processor that is known to raise none.
pub const ARM64_BBM_2_NO_ABORT: Rule = Rule {
    quiet: true,
    ..ARM64_BBM_2
};

/// 32-bit Arm, short descriptors.
pub const ARM_SHORT: Rule = Rule {
    group_access: Resize::Break,
    ..ARM_BREAK
};

/// x86.
pub const X86: Rule = Rule {
    table: Resize::Live,
    group: Resize::Never,
    group_access: Resize::Live,
    quiet: true,
    settle: true,
};

/// Power, radix trees.
pub const POWER: Rule = Rule {
    group: Resize::Never,
    ..ARM_BREAK
};

/// Sizes never change: the map is made of pages in the first place where it may have to change.
pub const FIXED: Rule = Rule {
    table: Resize::Never,
    group: Resize::Never,
    ..ARM_BREAK
};
