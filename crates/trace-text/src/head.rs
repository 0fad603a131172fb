//! The lines in front of a trace.

use crate::Options;
use core::fmt::{self, Write};

/// What the lines in front say.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The tracer's name.
    pub tracer: &'a str,
    /// Events in the buffer.
    pub entries: u64,
    /// Events that were recorded, also those that are lost.
    pub written: u64,
    /// CPUs that are online.
    pub cpus: usize,
}

impl Head<'_> {
    /// The line with the tracer's name.
    pub fn tracer(&self, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "# tracer: {}\n#", self.tracer)
    }

    /// The lines that follow, unless the tracer has its own.
    pub fn columns(&self, options: Options, out: &mut dyn Write) -> fmt::Result {
        if !options.contains(Options::CONTEXT_INFO) {
            return Ok(());
        }
        if options.contains(Options::LATENCY_FMT) {
            return if self.entries == 0 {
                Ok(())
            } else {
                crate::latency::columns(self, options, out)
            };
        }
        if options.contains(Options::VERBOSE) {
            return Ok(());
        }
        writeln!(
            out,
            "# entries-in-buffer/entries-written: {}/{}   #P:{}\n#",
            self.entries, self.written, self.cpus
        )?;
        let tgid = options.contains(Options::RECORD_TGID);
        if !options.contains(Options::IRQ_INFO) {
            let (a, b) = if tgid {
                ("   TGID   ", "     |    ")
            } else {
                ("", "")
            };
            return write!(
                out,
                "#           TASK-PID    {a} CPU#     TIMESTAMP  FUNCTION\n\
                 #              | |      {b}   |         |         |\n"
            );
        }
        let (space, a, b) = if tgid {
            ("            ", "     TGID   ", "       |    ")
        } else {
            ("  ", "  ", "  ")
        };
        for line in [
            "  _-----=> irqs-off/BH-disabled",
            " / _----=> need-resched",
            "| / _---=> hardirq/softirq",
            "|| / _--=> preempt-depth",
            "||| / _-=> migrate-disable",
            "|||| /     delay",
        ] {
            writeln!(out, "#                            {space}{line}")?;
        }
        write!(
            out,
            "#           TASK-PID  {a} CPU#  |||||  TIMESTAMP  FUNCTION\n\
             #              | |    {b}   |   |||||     |         |\n"
        )
    }
}
