//! `muster login`, `muster logout` and `muster whoami`.

use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::Context as _;
use muster_client::{Client, ClientError};
use muster_protocol::WhoAmI;

use super::device_login;
use crate::args::LoginArgs;
use crate::credentials::Credentials;
use crate::failure::UsageError;
use crate::output::{json, note};
use crate::settings::Settings;
use crate::{environment, exit, hidden_input};

pub(crate) async fn login(args: &LoginArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.stranger()?;
    let token = if args.token_stdin {
        from_stdin()?.lines().next().unwrap_or_default().trim().to_owned()
    } else if args.oidc || is_through_provider(args, &client).await? {
        device_login::log_in(&client).await?
    } else {
        let user = args.user.clone().or_else(environment::user);
        let user = user.ok_or_else(|| UsageError("say who you are: muster login USER".to_owned()))?;
        let password = if args.password_stdin {
            first_line(&from_stdin()?)
        } else {
            asked(&format!("Password of {user} at {}: ", client.url()))?
        };
        logged_in(&client, &user, &password).await?
    };
    let me = client.with_token(&token)?.whoami().await?;
    let path = Credentials::keep(&settings.url, &token, settings.trust.fingerprint)?;
    note(&format!("logged in to {} as {}; kept in {}", settings.url, described(&me), path.display()));
    if environment::api_token().is_some() {
        note("MUSTER_API_TOKEN is set and is used instead of what was kept now");
    }
    Ok(exit::OK)
}

/// A session. That there were too many wrong passwords has nothing to do with queues, as 429 has elsewhere.
async fn logged_in(client: &Client, user: &str, password: &str) -> anyhow::Result<String> {
    match client.login(user, password).await {
        Ok(issued) => Ok(issued.token),
        Err(ClientError::Refused { status, message }) if status.as_u16() == 429 => anyhow::bail!("{message}"),
        Err(error) => Err(error.into()),
    }
}

/// A login without a user name and without a password goes to the provider, where there is one.
async fn is_through_provider(args: &LoginArgs, client: &Client) -> anyhow::Result<bool> {
    if args.user.is_some() || args.password_stdin {
        return Ok(false);
    }
    Ok(client.auth_methods().await?.oidc.is_some())
}

pub(crate) async fn logout(settings: &Settings) -> anyhow::Result<u8> {
    let kept = Credentials::load().token(&settings.url);
    let Some(token) = kept else {
        note(&format!("nothing is kept for {}", settings.url));
        return Ok(exit::OK);
    };
    // A token that somebody made for this place stays good elsewhere only if it is not revoked: a session ends.
    let ended = settings.stranger()?.with_token(&token)?.logout().await;
    Credentials::forget(&settings.url)?;
    match ended {
        Ok(()) => note(&format!("logged out of {}", settings.url)),
        Err(error) => {
            note(&format!("forgot what was kept for {}; the scheduler was not told: {error}", settings.url));
        }
    }
    Ok(exit::OK)
}

pub(crate) async fn whoami(settings: &Settings) -> anyhow::Result<u8> {
    let me = settings.client()?.whoami().await?;
    if settings.screen.json {
        json::document(&me)?;
    } else {
        settings.screen.line(&described(&me))?;
    }
    Ok(exit::OK)
}

fn described(me: &WhoAmI) -> String {
    let mut text = match me.kind.as_str() {
        "local" => "the local user, who may do everything".to_owned(),
        "nobody" => "nobody: log in with `muster login`".to_owned(),
        _ => me.name.clone(),
    };
    if let Some(role) = &me.role {
        // Writing to a string cannot fail.
        let _ = write!(text, " ({role})");
    }
    if let Some(queues) = &me.queues {
        // Writing to a string cannot fail.
        let _ = write!(text, ", queues: {}", queues.join(", "));
    }
    if me.login.as_deref() == Some("oidc") {
        text.push_str(", logged in through the provider");
    }
    text
}

pub(super) fn from_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A line that is not shown while it is typed.
pub(super) fn asked(prompt: &str) -> anyhow::Result<String> {
    String::from_utf8(hidden_input::line(prompt)?).context("a password is UTF-8 text")
}

/// A new password, typed twice.
pub(super) fn asked_twice(user: &str) -> anyhow::Result<String> {
    let password = asked(&format!("New password of {user}: "))?;
    if asked("Once more: ")? != password {
        anyhow::bail!("the two are not the same; nothing was changed");
    }
    Ok(password)
}
