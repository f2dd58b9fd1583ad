//! `muster user`.

use jiff::Timestamp;
use muster_protocol::{User, UserRequest, UserUpdate};

use super::login::{asked, asked_twice, first_line, from_stdin};
use crate::args::{UserAction, UserArgs, UserCreateArgs, UserSetArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{json, note, users};
use crate::settings::Settings;

pub(crate) async fn run(args: &UserArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        UserAction::Create(create) => {
            let made = client.create_user(&request(create)?).await?;
            show(std::slice::from_ref(&made), settings)?;
        }
        UserAction::Ls => {
            let all = client.users().await?;
            if all.is_empty() && !settings.screen.json {
                note("no users; `muster user create NAME --role admin` makes the first");
            } else {
                show(&all, settings)?;
            }
        }
        UserAction::Set(set) => {
            let changed = client.change_user(&set.name, &update(set)?).await?;
            show(std::slice::from_ref(&changed), settings)?;
        }
        UserAction::Passwd { user, password_stdin } => {
            passwd(user.as_deref(), *password_stdin, settings).await?;
        }
        UserAction::Rm { user } => {
            client.delete_user(user).await?;
            note(&format!("removed {user}"));
        }
    }
    Ok(exit::OK)
}

fn show(all: &[User], settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        return Ok(json::document(&all)?);
    }
    Ok(settings.screen.line(&users(all, Timestamp::now(), settings.screen))?)
}

fn request(args: &UserCreateArgs) -> anyhow::Result<UserRequest> {
    let password = if args.no_password {
        None
    } else if args.password_stdin {
        Some(first_line(&from_stdin()?))
    } else {
        Some(asked_twice(&args.name)?)
    };
    let queues = (!args.queues.is_empty()).then(|| args.queues.clone());
    Ok(UserRequest { name: args.name.clone(), role: Some(args.role.name().to_owned()), password, queues })
}

fn update(args: &UserSetArgs) -> Result<UserUpdate, UsageError> {
    let update = UserUpdate {
        role: args.role.map(|role| role.name().to_owned()),
        password: None,
        queues: (!args.queues.is_empty()).then(|| args.queues.clone()),
        all_queues: args.all_queues.then_some(true),
        disabled: if args.disable { Some(true) } else { args.enable.then_some(false) },
        oidc_subject: args.oidc_subject.clone(),
    };
    if update == UserUpdate::default() {
        return Err(UsageError(
            "say what to change: --role, --queue, --all-queues, --disable, --enable or --oidc-subject"
                .to_owned(),
        ));
    }
    Ok(update)
}

async fn passwd(user: Option<&str>, from_input: bool, settings: &Settings) -> anyhow::Result<()> {
    let client = settings.client()?;
    let Some(user) = user else {
        let (old, new) = if from_input {
            let text = from_stdin()?;
            let mut lines = text.lines();
            (lines.next().unwrap_or_default().to_owned(), lines.next().unwrap_or_default().to_owned())
        } else {
            (asked("Your password now: ")?, asked_twice("yours")?)
        };
        client.change_password(&old, &new).await?;
        note("changed; log in again with `muster login`");
        return Ok(());
    };
    let password = if from_input { first_line(&from_stdin()?) } else { asked_twice(user)? };
    let update = UserUpdate { password: Some(password), ..UserUpdate::default() };
    client.change_user(user, &update).await?;
    note(&format!("the password of {user} is changed, and its sessions have ended"));
    Ok(())
}
