//! The host program behind the `limen` command.

fn main() {
    eprintln!("limen: not built yet");
    std::process::exit(2);
}
