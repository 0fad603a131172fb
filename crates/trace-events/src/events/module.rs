//! Events of the system `module`: loadable modules.

use crate::{Str, trace_event};

trace_event! {
    /// A module begins.
    module: ModuleLoad<'a> = "module_load" {
        /// How it taints the kernel.
        taints: "unsigned int" u32,
        /// Its name.
        name: "__data_loc char[]" Str<'a>,
    }
    print concat!(
        "\"%s %s\"",
        ", __get_str(name)",
        ", __print_flags(REC->taints, \"\", { 1, \"P\" }, { 4096, \"O\" }, { 2, \"F\" }",
        ", { 1024, \"C\" }, { 8192, \"E\" })",
    )
}

trace_event! {
    /// A module's memory is given back.
    module: ModuleFree<'a> = "module_free" {
        /// Its name.
        name: "__data_loc char[]" Str<'a>,
    }
    print concat!(
        "\"%s\"",
        ", __get_str(name)",
    )
}

trace_event! {
    /// A module is used.
    module: ModuleGet<'a> = "module_get" {
        /// Who asks.
        ip: "unsigned long" usize,
        /// By how many it is used.
        refcnt: "int" i32,
        /// Its name.
        name: "__data_loc char[]" Str<'a>,
    }
    print concat!(
        "\"%s call_site=%ps refcnt=%d\"",
        ", __get_str(name), (void *)REC->ip, REC->refcnt",
    )
}

trace_event! {
    /// A module is used no longer.
    module: ModulePut<'a> = "module_put" {
        /// Who asks.
        ip: "unsigned long" usize,
        /// By how many it is used.
        refcnt: "int" i32,
        /// Its name.
        name: "__data_loc char[]" Str<'a>,
    }
    print concat!(
        "\"%s call_site=%ps refcnt=%d\"",
        ", __get_str(name), (void *)REC->ip, REC->refcnt",
    )
}
