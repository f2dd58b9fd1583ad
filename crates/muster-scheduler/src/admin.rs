//! `muster-scheduler admin create`: the first account, made on the store while no scheduler need run.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use muster_server::admin::create_admin;
use muster_server::settings::{self, SchedulerArgs};

use crate::store;

/// Make an account that may do everything, on the store that the scheduler will use. The password is made up and printed
/// once, unless it is read from standard input.
#[derive(Debug, Parser)]
#[command(name = "muster-scheduler admin create")]
struct Create {
    /// The name of the admin
    #[arg(value_name = "NAME")]
    name: String,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    args: SchedulerArgs,
}

/// Runs the command that follows `admin`.
pub(crate) fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(2).is_none_or(|word| word != "create") {
        eprintln!(
            "muster-scheduler: write `muster-scheduler admin create NAME`, with the flags of the store"
        );
        return ExitCode::from(2);
    }
    let arguments = words.into_iter().skip(2);
    let found = settings::matches(Create::command(), "scheduler", arguments);
    let create = match found.and_then(|found| Create::from_arg_matches(&found)) {
        Ok(create) => create,
        Err(error) => error.exit(),
    };
    match run(&create) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-scheduler: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(create: &Create) -> anyhow::Result<()> {
    let password = if create.password_stdin {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the password")?;
        Some(text.lines().next().unwrap_or_default().to_owned())
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let made_up = runtime.block_on(async {
        let store = store::open(&create.args).await?;
        let made = create_admin(store.as_ref(), &create.name, password).await;
        store.close().await;
        made.map_err(anyhow::Error::msg)
    })?;
    println!("{} may do everything now.", create.name);
    if let Some(password) = made_up {
        println!("Password: {password}");
        println!("It is not shown again. Log in with `muster --url URL login {}`.", create.name);
    }
    Ok(())
}
