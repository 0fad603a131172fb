//! What a site's slot holds.

use super::{Branch, Kind, Record};
use crate::Error;
use alloc::vec::Vec;

/// The tracers of a site, as indexes of records, in the order of registration.
#[derive(Debug, Default)]
pub(super) enum Held {
    #[default]
    None,
    One(u32),
    /// At least two.
    Many(Vec<u32>),
}

impl Held {
    pub(super) fn members(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(one) => core::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
    /// Removes a tracer. Allocates nothing.
    pub(super) fn remove(&mut self, index: u32) {
        let Self::Many(many) = self else {
            *self = Self::None;
            return;
        };
        many.retain(|&member| member != index);
        if let [one] = many[..] {
            *self = Self::One(one);
        }
    }
    /// `len` tracers.
    pub(super) fn collect(members: impl Iterator<Item = u32>, len: usize) -> Result<Self, Error> {
        let mut members = members;
        if len < 2 {
            return Ok(members.next().map_or(Self::None, Self::One));
        }
        let mut many = Vec::new();
        many.try_reserve_exact(len)?;
        many.extend(members.take(len));
        Ok(Self::Many(many))
    }
}

/// What the indexes in a [`Held`] mean.
#[derive(Debug)]
pub(super) struct View<'a, O> {
    pub(super) records: &'a [Option<Record<O>>],
    /// What one of them means after a plan.
    pub(super) instead: Option<(u32, O, Kind)>,
    /// One that is removed by a plan.
    pub(super) without: Option<u32>,
}

impl<O: Copy> Clone for View<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Copy> Copy for View<'_, O> {}

impl<O: Copy> View<'_, O> {
    fn get(&self, index: u32) -> Option<(O, Kind)> {
        if self.without == Some(index) {
            return None;
        }
        if let Some((other, ops, kind)) = self.instead
            && other == index
        {
            return Some((ops, kind));
        }
        let record = self.records.get(index as usize)?.as_ref()?;
        Some((record.ops, record.kind))
    }
}

/// The tracers of a site, in the order of registration.
#[derive(Clone, Copy, Debug)]
pub struct Tracers<'a, O: Copy> {
    pub(super) members: &'a [u32],
    pub(super) view: View<'a, O>,
}

/// What a slot must hold.
#[derive(Clone, Copy, Debug)]
pub enum Slot<'a, O: Copy> {
    /// The ops that do nothing.
    None,
    /// These ops.
    One(O),
    /// A vector of these ops, at least two.
    Many(Tracers<'a, O>),
}

/// What is to be known of a site, for `enabled_functions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// How many trace it.
    pub count: usize,
    /// One of them needs all registers (R).
    pub regs: bool,
    /// One of them may change where the function goes on (I).
    pub ip_modify: bool,
    /// One of them is this function (D).
    pub direct: Option<usize>,
    /// It has been traced.
    pub touched: bool,
    /// It has had a tracer that changes where the function goes, or is called directly (M).
    pub modified: bool,
}

impl<'a, O: Copy> Tracers<'a, O> {
    fn known(&self) -> impl Iterator<Item = (O, Kind)> + use<'a, O> {
        let view = self.view;
        self.members.iter().filter_map(move |&index| view.get(index))
    }
    /// Their handles.
    pub fn iter(&self) -> impl Iterator<Item = O> + use<'a, O> {
        self.known().map(|(ops, _)| ops)
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        let removed = |&&index: &&u32| self.view.without == Some(index);
        match self.view.without {
            Some(_) => self.members.len() - self.members.iter().filter(removed).count(),
            None => self.members.len(),
        }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// What the slot must hold.
    pub fn slot(&self) -> Slot<'a, O> {
        match (self.len(), self.iter().next()) {
            (0, _) | (_, None) => Slot::None,
            (1, Some(ops)) => Slot::One(ops),
            _ => Slot::Many(*self),
        }
    }
    /// Where the site's branch must go.
    pub fn branch(&self) -> Branch {
        let flags = self.flags();
        match flags.direct {
            _ if flags.count == 0 => Branch::Off,
            Some(function) if flags.count == 1 && !flags.regs => Branch::Direct(function),
            _ if flags.regs => Branch::Regs,
            _ => Branch::Plain,
        }
    }
    /// What they need of the site. What was before is not known here.
    pub(super) fn flags(&self) -> Flags {
        let mut flags = Flags {
            count: self.len(),
            ..Flags::default()
        };
        for (_, kind) in self.known() {
            flags.regs |= kind.needs_regs();
            flags.ip_modify |= kind.ip_modify;
            flags.direct = flags.direct.or(kind.direct);
        }
        flags
    }
}
