//! The system's secret store: the kernel keyring, or the Windows user's credentials.

use ortscope_sources::key_store::{NAME, read, remove, write};

use crate::skips;

/// A unique name; its secret is removed in any case.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        remove(&self.0).ok();
    }
}

#[test]
fn a_secret_is_stored_replaced_and_removed_or_the_refusal_is_explained() {
    let named = Named(format!("ortscope:test-{}", std::process::id()));
    let name = &*named.0;
    if let Err(problem) = write(name, "first") {
        assert!(!problem.is_empty());
        assert!(read(name).is_err() || read(name) == Ok(None));
        skips::skipped(&format!("{NAME} cannot be used: {problem}"));
        return;
    }
    assert_eq!(read(name), Ok(Some("first".into())));
    write(name, "second, which is longer").expect("replaced");
    assert_eq!(read(name), Ok(Some("second, which is longer".into())));
    assert_eq!(remove(name), Ok(true));
    assert_eq!(read(name), Ok(None));
    assert_eq!(remove(name), Ok(false));
}
