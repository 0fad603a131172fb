//! Names that are near a wrong one, for the message about it.

/// At most three of `names` (one at the start of each line) that are near `wanted`, the nearest first.
pub fn near(wanted: &str, names: &str) -> Vec<String> {
    let core: String = wanted
        .chars()
        .filter(|c| !"*?[]^".contains(*c))
        .collect::<String>()
        .to_lowercase();
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    if core.is_empty() || core.len() > 200 {
        return Vec::new();
    }
    for name in names.lines().filter_map(|line| line.split_whitespace().next()) {
        let lower = name.to_lowercase();
        // An event may be named without its group, a function without its type.
        let last = lower.rsplit(':').next().unwrap_or(&lower);
        let distance = if lower.contains(&core) {
            1
        } else {
            let far = (core.len() / 3).max(1) + 1;
            let least = [lower.as_str(), last]
                .into_iter()
                .filter(|name| name.len().abs_diff(core.len()) < far)
                .map(|name| distance(core.as_bytes(), name.as_bytes()))
                .min();
            match least {
                Some(least) if least < far => least,
                _ => continue,
            }
        };
        found.push((distance, lower.len().abs_diff(core.len()), name));
    }
    found.sort_unstable();
    found.dedup_by_key(|(_, _, name)| *name);
    found.truncate(3);
    found.into_iter().map(|(_, _, name)| name.to_owned()).collect()
}

/// How many letters must be put in, taken out, replaced or exchanged with the next one to get from `a` to
/// `b`.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut least = (last[j] + usize::from(a[i] != b[j])).min(last[j + 1].min(row[j]) + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn the_nearest_come_first() {
        let names = "vfs_write\nvfs_read [ext4]\nvfs_readv\nFdTable::open\nschedule\n\n";
        assert_eq!(near("vfs_raed", names), ["vfs_read", "vfs_readv"]);
        assert_eq!(near("Vfs_Read*", names), ["vfs_read", "vfs_readv"]);
        assert_eq!(near("opne", names), ["FdTable::open"]);
        assert!(near("***", names).is_empty() && near("zzz", names).is_empty());
        assert!(near("x", "").is_empty());
        assert_eq!(
            near("sched_swich", "sched:sched_switch\n"),
            ["sched:sched_switch"]
        );
    }
}
