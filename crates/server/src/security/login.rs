//! Browser logins: one-time links, cookies, WebSocket tickets, and rate limits against guessing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;

use super::{Identity, Role, new_secret, sha256};
use crate::error::ServerError;

/// An unused link expires after this time.
const LINK_LASTS: Duration = Duration::from_secs(300);
const COOKIE_LASTS: Duration = Duration::from_secs(12 * 3600);
pub const TICKET_LASTS: Duration = Duration::from_secs(30);
/// Maximum number of secrets of each kind; the oldest is dropped.
const MAX_GRANTS: usize = 1000;
/// Login attempts per address and minute.
const FREE_ATTEMPTS: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);
const MAX_WAIT: Duration = Duration::from_secs(3600);
const MAX_ADDRESSES: usize = 10_000;

#[derive(Debug, Clone)]
struct Grant {
    hash: [u8; 32],
    identity: Identity,
    until: Instant,
}

/// Name of the cookie. With TLS, the prefix makes browsers reject cookies that other hosts set.
pub fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-ortscope_session" } else { "ortscope_session" }
}

/// Secrets with an expiry time.
#[derive(Debug, Default)]
struct Grants(Vec<Grant>);

impl Grants {
    fn add(&mut self, identity: Identity, lasts: Duration) -> Result<String, ServerError> {
        let secret = new_secret()?;
        let now = Instant::now();
        self.0.retain(|grant| grant.until > now);
        if self.0.len() >= MAX_GRANTS {
            self.0.remove(0);
        }
        self.0.push(Grant { hash: sha256(secret.as_bytes()), identity, until: now + lasts });
        Ok(secret)
    }

    fn position(&self, secret: &str) -> Option<usize> {
        let hash = sha256(secret.as_bytes());
        let mut found = None;
        for (index, grant) in self.0.iter().enumerate() {
            if bool::from(grant.hash.ct_eq(&hash)) {
                found = Some(index);
            }
        }
        found.filter(|index| self.0[*index].until > Instant::now())
    }

    fn get(&self, secret: &str) -> Option<Identity> {
        self.position(secret).map(|index| self.0[index].identity.clone())
    }

    fn take(&mut self, secret: &str) -> Option<Identity> {
        self.position(secret).map(|index| self.0.remove(index).identity)
    }
}

#[derive(Debug, Clone, Copy)]
struct Attempts {
    failed: u32,
    since: Instant,
    /// Attempts before this time are rejected.
    wait_until: Instant,
}

#[derive(Debug, Default)]
struct Inside {
    links: Grants,
    cookies: Grants,
    tickets: Grants,
    attempts: HashMap<IpAddr, Attempts>,
}

/// The logins of a server. They are kept in memory only, so a restart invalidates them.
#[derive(Debug, Default)]
pub struct Logins(Mutex<Inside>);

impl Logins {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the secret of a link; it works once, within five minutes.
    pub fn new_link(&self, role: Role) -> Result<String, ServerError> {
        let identity = Identity { name: "login-link".into(), role, by_cookie: true, token: None };
        self.inside().links.add(identity, LINK_LASTS)
    }

    pub fn use_link(&self, secret: &str) -> Option<Identity> {
        self.inside().links.take(secret)
    }

    pub fn new_cookie(&self, identity: &Identity) -> Result<String, ServerError> {
        let identity = Identity { by_cookie: true, ..identity.clone() };
        self.inside().cookies.add(identity, COOKIE_LASTS)
    }

    pub fn cookie(&self, secret: &str) -> Option<Identity> {
        self.inside().cookies.get(secret)
    }

    pub fn end_cookie(&self, secret: &str) {
        self.inside().cookies.take(secret);
    }

    pub fn new_ticket(&self, identity: &Identity) -> Result<String, ServerError> {
        self.inside().tickets.add(identity.clone(), TICKET_LASTS)
    }

    pub fn use_ticket(&self, secret: &str) -> Option<Identity> {
        self.inside().tickets.take(secret)
    }

    /// How long this address must wait before the next attempt; `None` if it may try now.
    pub fn must_wait(&self, address: IpAddr) -> Option<Duration> {
        let inside = self.inside();
        let attempts = inside.attempts.get(&address)?;
        attempts.wait_until.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero())
    }

    /// Records a failed attempt: after five within a minute, each further one doubles the wait.
    pub fn failed(&self, address: IpAddr) {
        let now = Instant::now();
        let mut inside = self.inside();
        if inside.attempts.len() >= MAX_ADDRESSES && !inside.attempts.contains_key(&address) {
            inside.attempts.retain(|_, attempts| attempts.wait_until > now);
        }
        let attempts =
            inside.attempts.entry(address).or_insert(Attempts { failed: 0, since: now, wait_until: now });
        if attempts.failed < FREE_ATTEMPTS && now.duration_since(attempts.since) > MINUTE {
            *attempts = Attempts { failed: 0, since: now, wait_until: now };
        }
        attempts.failed = attempts.failed.saturating_add(1);
        if attempts.failed >= FREE_ATTEMPTS {
            let doublings = (attempts.failed - FREE_ATTEMPTS).min(12);
            attempts.wait_until = now + (MINUTE * 2_u32.pow(doublings)).min(MAX_WAIT);
        }
    }

    pub fn succeeded(&self, address: IpAddr) {
        self.inside().attempts.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_and_a_cookie_until_it_ends() {
        let logins = Logins::default();
        let link = logins.new_link(Role::Operator).expect("random");
        let identity = logins.use_link(&link).expect("the first time");
        assert_eq!((identity.role, logins.use_link(&link)), (Role::Operator, None));
        let cookie = logins.new_cookie(&identity).expect("random");
        assert!(logins.cookie(&cookie).is_some() && logins.cookie(&link).is_none());
        logins.end_cookie(&cookie);
        assert_eq!(logins.cookie(&cookie), None);
        let ticket = logins.new_ticket(&identity).expect("random");
        assert!(logins.use_ticket(&ticket).is_some() && logins.use_ticket(&ticket).is_none());
    }

    #[test]
    fn guessing_gets_slow() {
        let logins = Logins::default();
        let (bad, good) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        for _ in 0..4 {
            logins.failed(bad);
            assert_eq!(logins.must_wait(bad), None);
        }
        logins.failed(bad);
        let first = logins.must_wait(bad).expect("a wait");
        logins.failed(bad);
        assert!(logins.must_wait(bad).expect("a longer one") > first);
        assert_eq!(logins.must_wait(good), None);
        logins.succeeded(bad);
        assert_eq!(logins.must_wait(bad), None);
    }
}
