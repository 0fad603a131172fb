//! The lists, compared with a model that keeps every permission in its entry and changes these one by one.

use super::*;
use proptest::prelude::*;

struct Someone {
    uid: u32,
    groups: Vec<u32>,
}

impl Who for Someone {
    fn is_user(&self, uid: u32) -> bool {
        self.uid == uid
    }
    fn in_group(&self, gid: u32) -> bool {
        self.groups.contains(&gid)
    }
}

/// Complete entries.
#[derive(Clone, Debug, PartialEq)]
struct Model(Vec<(Tag, u16, u32)>);

impl Model {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for &(tag, perm, id) in &self.0 {
            bytes.extend((tag as u16).to_le_bytes());
            bytes.extend(perm.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }
    fn acl(&self) -> Acl {
        parse(&self.bytes()).unwrap().unwrap().check().unwrap()
    }
    fn get(&mut self, tag: Tag) -> Option<&mut u16> {
        self.0.iter_mut().find(|e| e.0 == tag).map(|e| &mut e.1)
    }
    /// The entry that the group's permission bits stand for.
    fn class(&mut self) -> &mut u16 {
        let tag = if self.get(Tag::Mask).is_some() {
            Tag::Mask
        } else {
            Tag::OwningGroup
        };
        self.get(tag).unwrap()
    }
    fn mode(&mut self) -> u32 {
        let (owner, class, other) = (
            *self.get(Tag::Owner).unwrap(),
            *self.class(),
            *self.get(Tag::Other).unwrap(),
        );
        u32::from(owner << 6 | class << 3 | other)
    }
    fn chmod(&mut self, mode: u32) {
        *self.get(Tag::Owner).unwrap() = (mode >> 6) as u16 & 7;
        *self.class() = (mode >> 3) as u16 & 7;
        *self.get(Tag::Other).unwrap() = mode as u16 & 7;
    }
    fn inherit(&mut self, mode: u32) -> u32 {
        *self.get(Tag::Owner).unwrap() &= (mode >> 6) as u16;
        *self.class() &= (mode >> 3) as u16;
        *self.get(Tag::Other).unwrap() &= mode as u16;
        mode & !0o777 | self.mode()
    }
    fn allows(&mut self, gid: u32, who: &Someone, want: u16) -> bool {
        let mask = self.get(Tag::Mask).map_or(7, |m| *m);
        if let Some(own) = self.0.iter().find(|e| e.0 == Tag::User && e.2 == who.uid) {
            return own.1 & mask & want == want;
        }
        let groups: Vec<u16> = self
            .0
            .iter()
            .filter(|e| {
                e.0 == Tag::OwningGroup && who.in_group(gid) || e.0 == Tag::Group && who.in_group(e.2)
            })
            .map(|e| e.1)
            .collect();
        if groups.is_empty() {
            return *self.get(Tag::Other).unwrap() & want == want;
        }
        groups.iter().any(|perm| perm & want == want) && mask & want == want
    }
}

fn models() -> impl Strategy<Value = Model> {
    let named = || prop::collection::vec((0u16..8, 0u32..4), 0..3);
    (prop::array::uniform4(0u16..8), named(), named(), any::<bool>()).prop_map(
        |(own, users, groups, mask)| {
            let mut all = vec![(Tag::Owner, own[0], NO_ID)];
            let mask = mask || !users.is_empty() || !groups.is_empty();
            all.extend(users.into_iter().map(|(perm, id)| (Tag::User, perm, id)));
            all.push((Tag::OwningGroup, own[1], NO_ID));
            all.extend(groups.into_iter().map(|(perm, id)| (Tag::Group, perm, id)));
            if mask {
                all.push((Tag::Mask, own[2], NO_ID));
            }
            all.push((Tag::Other, own[3], NO_ID));
            Model(all)
        },
    )
}

proptest! {
    #[test]
    fn is_what_it_was(model in models()) {
        let acl = model.acl();
        let mut bytes = Vec::new();
        acl.encode_with(None, &mut bytes, same);
        prop_assert_eq!(&bytes, &model.bytes());
        prop_assert_eq!(acl.size(), bytes.len());
        prop_assert_eq!(acl.mode(), model.clone().mode());
        bytes.clear();
        acl.encode_with(Some(acl.mode()), &mut bytes, same);
        prop_assert_eq!(bytes, model.bytes());
        prop_assert_eq!(acl.is_mode(), model.0.len() == 3);
    }

    #[test]
    fn follows_the_mode(mut model in models(), mode in 0u32..0o10000) {
        let acl = model.acl();
        model.chmod(mode);
        let mut bytes = Vec::new();
        acl.encode_with(Some(mode), &mut bytes, same);
        prop_assert_eq!(bytes, model.bytes());
    }

    #[test]
    fn is_inherited(mut model in models(), mode in 0u32..0o10000) {
        let acl = model.acl();
        let inherited = acl.inherit(mode);
        prop_assert_eq!(inherited, model.inherit(mode));
        let mut bytes = Vec::new();
        acl.encode_with(Some(inherited), &mut bytes, same);
        prop_assert_eq!(bytes, model.bytes());
    }

    #[test]
    fn allows_what_it_says(mut model in models(), mode in 0u32..0o1000, gid in 0u32..4, uid in 0u32..6,
        groups in prop::collection::vec(0u32..6, 0..4), want in 0u16..8) {
        let acl = model.acl();
        model.chmod(mode);
        let who = Someone { uid, groups };
        // Without a mask the bits express all, and the list is not asked.
        prop_assume!(!acl.is_mode());
        prop_assert_eq!(acl.allows(mode, gid, &who, want.into()), model.allows(gid, &who, want));
    }

    #[test]
    fn reads_anything(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&bytes).map(|parsed| parsed.map(Parsed::check));
    }

    #[test]
    fn is_complete_and_in_order(model in models(), drop in any::<prop::sample::Index>(),
        a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>()) {
        let (drop, a, b) = (drop.index(model.0.len()), a.index(model.0.len()), b.index(model.0.len()));
        let mut without = model.clone();
        let gone = without.0.remove(drop).0;
        let check = |m: &Model| parse(&m.bytes()).unwrap().unwrap().check();
        let named = without.0.iter().any(|e| e.0.has_id());
        let fine = gone.has_id() || gone == Tag::Mask && !named;
        prop_assert_eq!(check(&without).is_ok(), fine);
        let mut swapped = model.clone();
        swapped.0.swap(a, b);
        prop_assert_eq!(check(&swapped).is_ok(), model.0[a].0 == model.0[b].0);
        let mut more = model;
        more.0[a].1 = 8;
        prop_assert_eq!(check(&more), Err(Error::Malformed));
    }
}

#[test]
fn says_what_is_wrong() {
    assert_eq!(parse(b"").unwrap_err(), Error::Malformed);
    assert_eq!(parse(&[2, 0, 0]).unwrap_err(), Error::Malformed);
    assert_eq!(parse(&[1, 0, 0, 0, 9]).unwrap_err(), Error::Version);
    assert_eq!(parse(&[2, 0, 0, 0, 9]).unwrap_err(), Error::Malformed);
    assert!(parse(&[2, 0, 0, 0]).unwrap().is_none());
    let one = |tag: u8, id: [u8; 4]| [&[2, 0, 0, 0, tag, 0, 7, 0][..], &id].concat();
    assert_eq!(parse(&one(3, [0; 4])).unwrap_err(), Error::Malformed);
    assert_eq!(parse(&one(2, [0xff; 4])).unwrap_err(), Error::Malformed);
    assert_eq!(
        parse(&one(1, [0xff; 4])).unwrap().unwrap().check(),
        Err(Error::Malformed)
    );
}

/// The ids as they are.
fn same(named: Named) -> Option<u32> {
    let (Named::User(id) | Named::Group(id)) = named;
    Some(id)
}
