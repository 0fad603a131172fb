//! What a module says of itself: `.modinfo`, strings `key=value`.

use alloc::vec::Vec;

use crate::Error;
use crate::machine::Machine;
use crate::object::Object;
use crate::read::push;

/// How long a module's name may be, as on Linux.
pub const MAX_MODULE_NAME: usize = 55;

/// Licences that are compatible with the GPL: what `MODULE_LICENSE` of Linux knows.
const GPL: [&[u8]; 6] = [
    b"GPL",
    b"GPL v2",
    b"GPL and additional rights",
    b"Dual BSD/GPL",
    b"Dual MIT/GPL",
    b"Dual MPL/GPL",
];

/// What `.modinfo` says.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    bytes: &'a [u8],
    /// Its name: with it `delete_module` finds it.
    pub name: &'a [u8],
}

impl<'a> Info<'a> {
    /// Reads the module's information. A module must have a name that can be one of a directory.
    pub fn read<M: Machine>(object: &Object<'a, M>) -> Result<Self, Error<'a>> {
        let bytes = object
            .content(b".modinfo")
            .ok_or(Error::Broken("there is no section .modinfo"))?;
        let name = Self::values_in(bytes, b"name")
            .next()
            .ok_or(Error::Broken("the module has no name"))?;
        let usable = |b: &u8| b.is_ascii_graphic() && *b != b'/';
        let dots = matches!(name, b"" | b"." | b"..");
        if dots || name.len() > MAX_MODULE_NAME || !name.iter().all(usable) {
            return Err(Error::Broken("the module has a bad name"));
        }
        Ok(Self { bytes, name })
    }

    /// All strings, as key and value.
    fn pairs_in(bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        bytes.split(|b| *b == 0).filter_map(|line| {
            let equals = line.iter().position(|b| *b == b'=')?;
            Some((line.get(..equals)?, line.get(equals + 1..)?))
        })
    }

    fn values_in(bytes: &'a [u8], key: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        Self::pairs_in(bytes).filter_map(move |(k, value)| (k == key).then_some(value))
    }

    /// All values of `key`: `author`, `description`, `alias`, `parm`, ...
    pub fn values(&self, key: &'a str) -> impl Iterator<Item = &'a [u8]> {
        Self::values_in(self.bytes, key.as_bytes())
    }

    /// The first value of `key`.
    pub fn value(&self, key: &'a str) -> Option<&'a [u8]> {
        self.values(key).next()
    }

    /// The names of the modules that must be loaded before.
    pub fn depends(&self) -> impl Iterator<Item = &'a [u8]> {
        let list = self.value("depends").unwrap_or(b"");
        list.split(|b| *b == b',').filter(|name| !name.is_empty())
    }

    /// Whether it may use what is only for modules with a licence compatible with the GPL.
    pub fn is_gpl(&self) -> bool {
        self.value("license")
            .is_some_and(|license| GPL.contains(&license))
    }

    /// Whether it was built for `wanted`, the version of the interface that the kernel offers
    /// (`limen_abi=`).
    pub fn check_version(&self, wanted: &'a str) -> Result<(), Error<'a>> {
        let found = self.value("limen_abi");
        if found == Some(wanted.as_bytes()) {
            Ok(())
        } else {
            Err(Error::Version { found, wanted })
        }
    }

    /// Types of parameters by name (`parmtype=name:type`), sorted.
    pub(crate) fn types(&self) -> Result<Vec<(&'a [u8], &'a [u8])>, Error<'a>> {
        let mut types = Vec::new();
        for value in self.values("parmtype") {
            if let Some(colon) = value.iter().position(|b| *b == b':')
                && let (Some(name), Some(kind)) = (value.get(..colon), value.get(colon + 1..))
            {
                push(&mut types, (name, kind))?;
            }
        }
        types.sort_unstable();
        Ok(types)
    }
}
