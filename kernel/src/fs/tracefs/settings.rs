//! The settings of an instance: recording, tracer, buffers, clock.

use super::instance::{Row, number, setting, shown, special, word};
use super::{BOTH, READ};
use crate::arch::smp;
use crate::fs::file::{File, FileOps};
use crate::fs::io::IoSrc;
use crate::fs::pseudo::{Text, parse};
use crate::mm::PAGE_SIZE;
use crate::tracing::clock::{self, Clock};
use crate::tracing::{Instance, Use, tracers};
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::{Errno, SysResult};
use limen_trace_text::Options;

pub const ROWS: &[Row] = &[
    Row {
        name: "tracing_on",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_on, store_on),
    },
    Row {
        name: "current_tracer",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_tracer, store_tracer),
    },
    Row {
        name: "available_tracers",
        only_top: false,
        node: |instance| shown(READ, instance, show_tracers),
    },
    Row {
        name: "buffer_size_kb",
        only_top: false,
        node: |instance| {
            let store = |instance: &Arc<Instance>, bytes: &[u8]| store_size(instance, None, bytes);
            setting(BOTH, instance, show_size, store)
        },
    },
    Row {
        name: "buffer_total_size_kb",
        only_top: false,
        node: |instance| shown(READ, instance, show_total),
    },
    Row {
        name: "buffer_percent",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_percent, store_percent),
    },
    Row {
        name: "buffer_subbuf_size_kb",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_page, store_page),
    },
    Row {
        name: "free_buffer",
        only_top: false,
        node: |instance| special(0o200, instance, |used, _| Ok(Arc::new(FreeBuffer(used)))),
    },
    Row {
        name: "trace_clock",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_clock, store_clock),
    },
    Row {
        name: "timestamp_mode",
        only_top: false,
        node: |instance| shown(READ, instance, show_mode),
    },
    Row {
        name: "tracing_cpumask",
        only_top: false,
        node: |instance| setting(BOTH, instance, show_mask, store_mask),
    },
    Row {
        name: "tracing_thresh",
        only_top: true,
        node: |instance| setting(BOTH, instance, show_threshold, store_threshold),
    },
];

/// What an instance's file shows.
type Shown = Result<(), Errno>;

fn show_on(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let _ = writeln!(out, "{}", u8::from(instance.is_on()));
    Ok(())
}

fn store_on(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    instance.turn(number(bytes)? != 0);
    Ok(())
}

fn show_tracer(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let _ = writeln!(out, "{}", instance.tracer().name());
    Ok(())
}

fn store_tracer(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    instance.set_tracer(tracers::named(word(bytes)?).ok_or(Errno::EINVAL)?)
}

fn show_tracers(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let all = tracers::registered();
    let all = all
        .iter()
        .filter(|tracer| instance.is_top() || tracer.in_instances());
    for (n, tracer) in all.enumerate() {
        let space = if n == 0 { "" } else { " " };
        let _ = write!(out, "{space}{}", tracer.name());
    }
    let _ = writeln!(out);
    Ok(())
}

/// A size in kB, and the one that it will have.
pub fn write_size(out: &mut Text, (now, later): (usize, Option<usize>)) {
    let _ = match later {
        Some(later) => writeln!(out, "{} (expanded: {})", now >> 10, later >> 10),
        None => writeln!(out, "{}", now >> 10),
    };
}

fn show_size(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let first = instance.size(0);
    if (1..smp::count()).all(|cpu| instance.size(cpu) == first) {
        write_size(out, first);
    } else {
        out.add("X\n");
    }
    Ok(())
}

/// Gives buffers a size in kB that was written.
pub fn store_size(instance: &Arc<Instance>, only: Option<usize>, bytes: &[u8]) -> Shown {
    let size = usize::try_from(number(bytes)?).ok().filter(|size| *size != 0);
    let size = size.and_then(|size| size.checked_mul(1024));
    instance.resize(size.ok_or(Errno::EINVAL)?, only)
}

fn show_total(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let all = (0..smp::count()).map(|cpu| instance.size(cpu));
    let sum = all.fold((0, None), |(now, later): (usize, Option<usize>), size| {
        (
            now + (size.0 >> 10),
            size.1.map(|size| later.unwrap_or(0) + (size >> 10)),
        )
    });
    let _ = match sum {
        (now, Some(later)) => writeln!(out, "{now} (expanded: {later})"),
        (now, None) => writeln!(out, "{now}"),
    };
    Ok(())
}

fn show_percent(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let _ = writeln!(out, "{}", instance.percent.load(Relaxed));
    Ok(())
}

fn store_percent(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    let percent = u32::try_from(number(bytes)?)
        .ok()
        .filter(|percent| *percent <= 100);
    instance.percent.store(percent.ok_or(Errno::EINVAL)?, Relaxed);
    Ok(())
}

fn show_page(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let _ = writeln!(out, "{}", instance.main.layout().page() >> 10);
    Ok(())
}

fn store_page(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    let size = usize::try_from(number(bytes)?)
        .ok()
        .and_then(|size| size.checked_mul(1024));
    let pages = size.ok_or(Errno::EINVAL)?.div_ceil(PAGE_SIZE);
    if pages == 0 || pages > 64 << 10 {
        return Err(Errno::EINVAL);
    }
    instance.set_order(pages.next_power_of_two().ilog2())
}

/// Whoever holds it open has the buffer freed at the end: a program that was killed, too.
struct FreeBuffer(Use);

impl FileOps for FreeBuffer {
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        Ok(src.discard())
    }
    fn release(&self, _: &File) {
        if self.0.options().contains(Options::STOP_ON_FREE) {
            self.0.turn(false);
        }
        // Without memory it stays as large as it is.
        let _ = self.0.shrink();
    }
}

fn show_clock(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let now = instance.clock();
    for (n, (name, clock)) in clock::all().enumerate() {
        let space = if n == 0 { "" } else { " " };
        let _ = if clock == now {
            write!(out, "{space}[{name}]")
        } else {
            write!(out, "{space}{name}")
        };
    }
    let _ = writeln!(out);
    Ok(())
}

fn store_clock(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    instance.set_clock(Clock::named(word(bytes)?).ok_or(Errno::EINVAL)?)
}

fn show_mode(_: &Arc<Instance>, out: &mut Text) -> Shown {
    out.add("[delta] absolute\n");
    Ok(())
}

fn show_mask(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let (mask, digits) = (instance.mask(), smp::count().div_ceil(4));
    let _ = if digits > 8 {
        writeln!(
            out,
            "{:0width$x},{:08x}",
            mask >> 32,
            mask as u32,
            width = digits - 8
        )
    } else {
        writeln!(out, "{mask:0digits$x}")
    };
    Ok(())
}

fn store_mask(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    let mut mask = 0u64;
    for digit in word(bytes)?.chars().filter(|c| *c != ',') {
        let digit = digit.to_digit(16).ok_or(Errno::EINVAL)?;
        if mask >> 60 != 0 {
            return Err(Errno::EOVERFLOW);
        }
        mask = mask << 4 | u64::from(digit);
    }
    if smp::count() < 64 && mask >> smp::count() != 0 {
        return Err(Errno::EOVERFLOW);
    }
    instance.set_mask(mask);
    Ok(())
}

fn show_threshold(instance: &Arc<Instance>, out: &mut Text) -> Shown {
    let _ = writeln!(out, "{}", instance.threshold());
    Ok(())
}

fn store_threshold(instance: &Arc<Instance>, bytes: &[u8]) -> Shown {
    instance.set_threshold(parse(bytes)?);
    Ok(())
}
