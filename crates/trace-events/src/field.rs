//! Fields of records: where they are, of which C type, and how Rust values become their bytes.

use crate::event::Writer;

/// What a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer (or pointer) of 1, 2, 4 or 8 bytes.
    Int,
    /// Characters, up to the first NUL or the end of the field.
    Chars,
    /// Integers of so many bytes.
    Array(u8),
    /// A word (`__data_loc`): in the upper half the length, in the lower the offset in the record of
    /// characters that end with a NUL.
    Dynamic,
    /// No bytes: the number of the CPU that recorded.
    Cpu,
    /// No bytes: the name of the thread that recorded.
    Comm,
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The type's text, without the number of elements.
    pub c_type: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Where it begins in the record, in bytes.
    pub offset: u16,
    /// Bytes in the fixed part of the record.
    pub size: u16,
    /// Whether its integers are signed.
    pub signed: bool,
    /// What its bytes are.
    pub kind: Kind,
}

impl Field {
    /// A field of type `T` behind `at` bytes of a record.
    pub const fn after<T: Value>(at: usize, c_type: &'static str, name: &'static str) -> Self {
        Self {
            c_type,
            name,
            offset: at.next_multiple_of(T::ALIGN) as u16,
            size: T::SIZE as u16,
            signed: T::SIGNED,
            kind: T::KIND,
        }
    }

    /// Where it ends in the record, in bytes.
    pub const fn end(&self) -> usize {
        self.offset as usize + self.size as usize
    }

    /// An element of an array.
    #[inline]
    pub const fn element(&self, index: usize) -> Option<Self> {
        let Kind::Array(size) = self.kind else {
            return None;
        };
        let at = index * size as usize;
        if at >= self.size as usize {
            return None;
        }
        let offset = self.offset + at as u16;
        Some(Self {
            offset,
            size: size as u16,
            kind: Kind::Int,
            ..*self
        })
    }

    /// The field of an integer, extended by its sign if it has one. `None`: the record is too short, or it
    /// is no integer.
    #[inline]
    pub fn integer(&self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(usize::from(self.offset)..self.end())?;
        let value = match *bytes {
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        let above = 64 - 8 * u32::from(self.size);
        Some(if self.signed {
            (value << above).cast_signed() >> above
        } else {
            value.cast_signed()
        })
    }

    /// The characters of a field of kind [`Kind::Chars`] or [`Kind::Dynamic`], without the NUL.
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = record.get(usize::from(self.offset)..self.end())?;
        let bytes = if self.kind == Kind::Dynamic {
            let place = u32::from_ne_bytes(bytes.try_into().ok()?);
            let (at, len) = (place as usize & 0xffff, (place >> 16) as usize);
            record.get(at..at + len)?
        } else {
            bytes
        };
        bytes.split(|byte| *byte == 0).next()
    }

    /// Whether filters compare it with strings.
    pub const fn is_string(&self) -> bool {
        matches!(self.kind, Kind::Chars | Kind::Dynamic | Kind::Comm)
    }
}

/// Rust types of fields.
pub trait Value {
    /// Bytes in the fixed part of the record.
    const SIZE: usize;
    /// Of which power of two the offset is a multiple.
    const ALIGN: usize;
    /// Whether its integers are signed.
    const SIGNED: bool;
    /// What the bytes are.
    const KIND: Kind;
    /// Stores it at `field`.
    fn store(&self, field: &Field, to: &mut Writer<'_>);
}

macro_rules! integers {
    ($($t:ty)*) => { $(impl Value for $t {
        const SIZE: usize = size_of::<$t>();
        const ALIGN: usize = size_of::<$t>();
        #[allow(unused_comparisons, reason = "also for unsigned types")]
        const SIGNED: bool = <$t>::MIN < 0;
        const KIND: Kind = Kind::Int;
        #[inline(always)]
        fn store(&self, field: &Field, to: &mut Writer<'_>) {
            to.bytes(field, &self.to_ne_bytes());
        }
    })* };
}
integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

impl Value for bool {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;
    const SIGNED: bool = false;
    const KIND: Kind = Kind::Int;
    #[inline(always)]
    fn store(&self, field: &Field, to: &mut Writer<'_>) {
        to.bytes(field, &[u8::from(*self)]);
    }
}

/// Characters. As in kernels since Linux 6.2, `char` is unsigned on every processor.
impl<const N: usize> Value for [u8; N] {
    const SIZE: usize = N;
    const ALIGN: usize = 1;
    const SIGNED: bool = false;
    const KIND: Kind = Kind::Chars;
    #[inline(always)]
    fn store(&self, field: &Field, to: &mut Writer<'_>) {
        to.bytes(field, self);
    }
}

macro_rules! arrays {
    ($($t:ty)*) => { $(impl<const N: usize> Value for [$t; N] {
        const SIZE: usize = N * size_of::<$t>();
        const ALIGN: usize = size_of::<$t>();
        const SIGNED: bool = <$t as Value>::SIGNED;
        const KIND: Kind = Kind::Array(size_of::<$t>() as u8);
        #[inline(always)]
        fn store(&self, field: &Field, to: &mut Writer<'_>) {
            for (index, value) in self.iter().enumerate() {
                if let Some(element) = field.element(index) {
                    to.bytes(&element, &value.to_ne_bytes());
                }
            }
        }
    })* };
}
arrays!(u32 u64 usize);

/// Characters of any number, stored behind the fixed part of the record, with a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Str<'a>(pub &'a [u8]);

impl Value for Str<'_> {
    const SIZE: usize = 4;
    const ALIGN: usize = 4;
    const SIGNED: bool = false;
    const KIND: Kind = Kind::Dynamic;
    fn store(&self, field: &Field, to: &mut Writer<'_>) {
        to.dynamic(field, self.0);
    }
}
