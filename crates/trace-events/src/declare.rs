//! The declaration of an event.

/// Declares an event:
///
/// ```
/// limen_trace_events::trace_event! {
///     /// A thread becomes runnable.
///     sched: Wakeup = "sched_wakeup" {
///         /// The thread's name.
///         comm: "char" [u8; 16],
///         /// Its number.
///         pid: "pid_t" i32,
///     }
///     print "\"comm=%s pid=%d\", REC->comm, REC->pid"
/// }
/// ```
///
/// A field has the text of its C type and a Rust type ([`Value`](crate::Value)). They follow each other as a
/// C compiler lays them out. With dynamic strings ([`Str`](crate::Str), whose C type is `__data_loc char[]`)
/// the type has a lifetime: `sched: Exec<'a> = "sched_process_exec" { ... }`.
#[macro_export]
macro_rules! trace_event {
    ($(#[$meta:meta])* $system:ident: $name:ident $(<$life:lifetime>)? = $text:literal {
        $($(#[$of_field:meta])* $field:ident: $c_type:literal $t:ty),* $(,)?
    } print $print:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name $(<$life>)? {
            $($(#[$of_field])* pub $field: $t,)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            const FIELDS: [$crate::Field; [$(stringify!($field)),*].len()] = {
                let mut _at = $crate::Common::SIZE;
                [$({
                    let field = $crate::Field::after::<$t>(_at, $c_type, stringify!($field));
                    _at = field.end();
                    field
                }),*]
            };
            const SIZE: usize = Self::FIELDS[Self::FIELDS.len() - 1].end();
        }

        impl $(<$life>)? $crate::Event for $name $(<$life>)? {
            const DESCRIPTION: &'static $crate::Description = &$crate::Description {
                system: stringify!($system),
                name: $text,
                fields: &Self::FIELDS,
                print: $print,
                size: Self::SIZE,
            };

            #[inline]
            fn encode(&self, common: &$crate::Common, to: &mut [u8]) -> usize {
                let mut to = $crate::Writer::new(common, to, Self::SIZE);
                let mut fields = Self::FIELDS.iter();
                $(if let Some(field) = fields.next() {
                    to.put(field, &self.$field);
                })*
                to.finish()
            }
        }
    };
}
