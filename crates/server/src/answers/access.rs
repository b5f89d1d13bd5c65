//! Login, logout, WebSocket tickets and the audit log.

use std::time::Duration;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::Answer;
use crate::app::{App, Asked};
use crate::error::ApiError;
use crate::security::Identity;
use crate::security::audit;
use crate::security::login::{TICKET_LASTS, cookie_name};
use crate::security::tokens::Shown;

const COOKIE_SECONDS: u64 = 12 * 3600;

pub fn too_many(wait: Duration) -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_attempts",
        "too many attempts to log in from this address",
    )
    .retry_after(wait.as_secs() + 1)
}

/// Creates a cookie and returns its header value.
pub fn cookie(app: &App, identity: &Identity) -> Result<String, ApiError> {
    let secret = app.logins.new_cookie(identity).map_err(ApiError::internal)?;
    Ok(header(app.secure, &secret, COOKIE_SECONDS))
}

fn header(is_secure: bool, secret: &str, seconds: u64) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!(
        "{}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
        cookie_name(is_secure)
    )
}

pub fn login(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    if let Some(wait) = app.logins.must_wait(asked.ip) {
        return Err(too_many(wait));
    }
    let token = asked.body.get("token").and_then(|token| token.as_str()).unwrap_or_default();
    match app.tokens.check(token) {
        Shown::Valid(identity) => {
            app.logins.succeeded(asked.ip);
            Ok(Answer::Nothing { cookie: Some(cookie(app, &identity)?) })
        }
        Shown::Expired | Shown::Unknown => {
            app.logins.failed(asked.ip);
            Err(ApiError::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this token is unknown or has expired",
            )
            .hint("create one with `ortscope token create`"))
        }
    }
}

pub fn logout(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    if let Some(secret) = &asked.cookie {
        app.logins.end_cookie(secret);
    }
    Ok(Answer::Nothing { cookie: Some(header(app.secure, "", 0)) })
}

/// A single-use ticket for a WebSocket, for pages of another origin, which have no cookie.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WsTicket {
    pub ticket: String,
    pub expires_in_seconds: u64,
}

pub fn ticket(app: &App, asked: &Asked) -> Result<WsTicket, ApiError> {
    let identity = asked.identity.as_ref().ok_or_else(|| ApiError::internal("a ticket for nobody"))?;
    let ticket = app.logins.new_ticket(identity).map_err(ApiError::internal)?;
    Ok(WsTicket { ticket, expires_in_seconds: TICKET_LASTS.as_secs() })
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditEntries {
    pub entries: Vec<audit::Entry>,
}

pub fn audit(app: &App, asked: &Asked) -> Result<AuditEntries, ApiError> {
    let limit = asked.params.count("limit", 200)?;
    let entries = audit::entries(&app.state_directory, limit).map_err(ApiError::internal)?;
    Ok(AuditEntries { entries })
}
