//! Authentication of a request and authorization for a route.

use std::net::IpAddr;

use axum::http::header::{self, HeaderMap};
use axum::http::{Extensions, StatusCode};

use crate::app::App;
use crate::error::ApiError;
use crate::route::Access;
use crate::security::login::cookie_name;
use crate::security::tokens::Shown;
use crate::security::{Identity, Role};

/// The peer of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub ip: IpAddr,
}

impl Peer {
    /// The peer's address.
    pub fn ip(extensions: &Extensions) -> IpAddr {
        extensions.get::<Self>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip)
    }
}

/// The identity behind a request, for the log.
#[derive(Debug, Clone)]
pub struct Who(pub Identity);

/// The credentials of a request.
#[derive(Debug, Clone)]
pub enum Credentials {
    Good(Identity, Option<String>),
    Bad(&'static str),
}

/// A token takes precedence over a cookie, because it was sent on purpose.
pub fn identify(app: &App, headers: &HeaderMap) -> Option<Credentials> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token = value.to_str().ok().and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        return Some(match token.map(|token| app.tokens.check(token)) {
            Some(Shown::Valid(identity)) => Credentials::Good(identity, None),
            Some(Shown::Expired) => Credentials::Bad("the token has expired"),
            Some(Shown::Unknown) => Credentials::Bad("the token is unknown"),
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

/// Checks the credentials against the route's role and returns the identity.
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

/// Whether a role may use a route. For tests of the table of routes.
pub fn may(access: Access, role: Option<Role>) -> bool {
    match (access, role) {
        (Access::Public, _) => true,
        (Access::Role(_), None) => false,
        (Access::Role(needed), Some(role)) => role >= needed,
    }
}
