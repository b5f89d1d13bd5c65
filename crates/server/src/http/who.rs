//! Who a request is from, and whether they may use a route.

use std::net::IpAddr;

use axum::http::header::{self, HeaderMap};
use axum::http::{Extensions, StatusCode};

use crate::app::App;
use crate::error::ApiError;
use crate::routes::Access;
use crate::security::tokens::Shown;
use crate::security::{Identity, Role};

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub ip: IpAddr,
}

impl Peer {
    /// The address that a request came from.
    pub fn ip(extensions: &Extensions) -> IpAddr {
        extensions.get::<Self>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip)
    }
}

/// Who a request was from, for the log.
#[derive(Debug, Clone)]
pub struct Who(pub Identity);

/// What a request showed.
#[derive(Debug, Clone)]
pub enum Credentials {
    Good(Identity, Option<String>),
    Bad(&'static str),
}

/// Name of the cookie. With TLS the prefix makes browsers refuse it from anybody else.
pub fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-ortscope_session" } else { "ortscope_session" }
}

/// A token comes before a cookie: it was sent on purpose.
pub fn identify(app: &App, headers: &HeaderMap) -> Option<Credentials> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        return Some(match token.map(|token| app.tokens.check(token)) {
            Some(Shown::Valid(identity)) => Credentials::Good(identity, None),
            Some(Shown::Expired) => Credentials::Bad("the token has expired"),
            Some(Shown::Unknown) => Credentials::Bad("the token is not known"),
            None => Credentials::Bad("the header Authorization has no bearer token"),
        });
    }
    let name = cookie_name(app.secure);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let secret = cookies.flat_map(|value| value.split(';')).find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })?;
    Some(match app.logins.cookie(secret).map(|identity| app.tokens.check_again(&identity)) {
        Some(Shown::Valid(identity)) => Credentials::Good(identity, Some(secret.to_owned())),
        Some(Shown::Expired | Shown::Unknown) => {
            app.logins.end_cookie(secret);
            Credentials::Bad("the token of this login has expired or was revoked")
        }
        None => Credentials::Bad("the login has ended"),
    })
}

/// Whether somebody may use a route, and who it is.
pub fn admit(access: Access, shown: Option<&Credentials>) -> Result<Option<Identity>, ApiError> {
    let Access::Role(needed) = access else { return Ok(None) };
    let refused = |why: &str| {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", why)
            .hint("open the link that `ortscope serve` printed, or send a token of `ortscope token create`")
    };
    match shown {
        None => Err(refused("this needs a token or a login")),
        Some(Credentials::Bad(why)) => Err(refused(why)),
        Some(Credentials::Good(identity, _)) if identity.role < needed => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            format!(
                "this needs the role {}, and '{}' is {}",
                needed.name(),
                identity.name,
                identity.role.name()
            ),
        )),
        Some(Credentials::Good(identity, _)) => Ok(Some(identity.clone())),
    }
}

/// For tests of the table: what a role may.
pub fn may(access: Access, role: Option<Role>) -> bool {
    match (access, role) {
        (Access::Public, _) => true,
        (Access::Role(_), None) => false,
        (Access::Role(needed), Some(role)) => role >= needed,
    }
}
