//! Readable names for linker symbols.

use std::fmt::Write as _;

/// Maximum length. Names of generic code reach kilobytes, which are unreadable.
const MAX_LETTERS: usize = 240;

/// A text with a limit: nested templates can grow without bound.
struct Short(String);

impl std::fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for letter in text.chars() {
            if self.0.len() >= MAX_LETTERS {
                self.0.push('…');
                return Err(std::fmt::Error);
            }
            // A name is in one line of a folded file, in which `;` separates frames.
            self.0.push(if letter.is_control() || letter == ';' { '?' } else { letter });
        }
        Ok(())
    }
}

/// The readable form of a Rust or C++ symbol, without hashes, parameters and return types; others are unchanged.
pub fn demangle(name: &str) -> String {
    // The library version of a symbol.
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let mut out = Short(String::new());
    // An error only means that the text was truncated.
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(out, "{rust:#}").ok();
        return out.0;
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
    {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let is_whole = symbol.structured_demangle(&mut out, &options).is_ok();
        if is_whole || out.0.ends_with('…') {
            return out.0;
        }
        out.0.clear();
    }
    out.write_str(name).ok();
    out.0
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn rust_cpp_and_c() {
        assert_eq!(demangle("_ZN4core3ptr7drop_in17h0123456789abcdefE"), "core::ptr::drop_in");
        assert_eq!(demangle("_RNvCs1234_7mycrate4main"), "mycrate::main");
        assert_eq!(demangle("_ZN3foo3barEiPKc"), "foo::bar");
        assert_eq!(
            demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back"
        );
        assert_eq!(demangle("memcpy@@GLIBC_2.14"), "memcpy");
        assert_eq!(demangle("_Znonsense;a\nb"), "_Znonsense?a?b");
    }

    #[test]
    fn long_names_are_cut() {
        let long = format!("x{}", "y".repeat(10_000));
        assert!(demangle(&long).chars().count() <= 241);
    }
}
