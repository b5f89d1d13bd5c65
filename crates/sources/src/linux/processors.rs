//! How many processors the machine can have.

/// A list like `0-3,8-11`: one more than the highest number.
fn count(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    Some(last.parse::<usize>().ok()? + 1)
}

fn read(path: &str) -> Option<usize> {
    count(&std::fs::read_to_string(path).ok()?)
}

/// Numbers of processors are below this; more may be switched on while we watch, up to this number.
pub fn possible() -> usize {
    read("/sys/devices/system/cpu/possible").unwrap_or_else(online)
}

/// Numbers of processors that run now are below this.
pub fn online() -> usize {
    let available = || std::thread::available_parallelism().map_or(1, usize::from);
    read("/sys/devices/system/cpu/online").unwrap_or_else(available)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn lists_of_processors() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3"), Some(4));
        assert_eq!(count("0-3,8,10-11\n"), Some(12));
        assert_eq!(count(""), None);
    }
}
