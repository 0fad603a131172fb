//! Settings that only a processor has, such as those in `/proc/sys/abi`. Which these are is known to the
//! processor.

use super::{Kind, Number, Of, Setting, Value, register};
use crate::arch;
use alloc::boxed::Box;
use alloc::vec;

impl Value for arch::settings::Setting {
    fn get(&self) -> i64 {
        (self.get)()
    }
    fn set(&self, value: i64) {
        self.try_set(value);
    }
    fn try_set(&self, value: i64) -> bool {
        (self.set)(value)
    }
}

/// Registers those that are there.
pub fn init() {
    for setting in arch::cpu::SETTINGS.iter().filter(|s| (s.is_there)()) {
        let numbers = Box::leak(vec![Number::any(setting)].into_boxed_slice());
        let kind = Kind::Ints(numbers);
        let setting = vec![Setting::new(setting.path, 0o644, kind)];
        register(Box::leak(setting.into_boxed_slice()), Of::System);
    }
}
