//! From arguments to an exit code.

use clap::FromArgMatches as _;
use muster_client::BulkVerb;
use muster_protocol::SetKind;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Cli, Command, program};
use crate::commands;
use crate::failure;
use crate::settings::Settings;
use crate::up_settings;

pub(crate) fn main() -> u8 {
    let cli = match parse().and_then(complete) {
        Ok(cli) => cli,
        Err(error) => return failure::explain(&error),
    };
    run(&cli).unwrap_or_else(|error| failure::report(&error))
}

fn parse() -> Result<Cli, clap::Error> {
    let mut program = program();
    let matches = program.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut program))
}

/// The flags of `muster up` have defaults in the file, whose name is among the arguments.
fn complete(cli: Cli) -> Result<Cli, clap::Error> {
    match cli.command {
        Command::Up(_) => {
            let program = up_settings::with_file(cli.global.config.as_deref())?;
            Cli::from_arg_matches(&program.try_get_matches()?)
        }
        _ => Ok(cli),
    }
}

fn run(cli: &Cli) -> anyhow::Result<u8> {
    match &cli.command {
        Command::Completions(args) => return commands::completions::run(args),
        Command::Man(args) => return commands::man::run(args),
        Command::Reference(args) => return commands::reference::run(args),
        Command::SchedulingReport(args) => return commands::scheduling_report::run(args),
        _ => {}
    }
    let settings = Settings::resolve(&cli.global)?;
    runtime(&cli.command)?.block_on(dispatch(&cli.command, &settings))
}

/// Short calls need one thread; what carries output or a whole scheduler needs more.
fn runtime(command: &Command) -> std::io::Result<Runtime> {
    match command {
        Command::Up(_) | Command::Run(_) | Command::Logs(_) | Command::Exec(_) | Command::Attach(_) => {
            Builder::new_multi_thread().enable_all().build()
        }
        _ => Builder::new_current_thread().enable_all().build(),
    }
}

async fn dispatch(command: &Command, settings: &Settings) -> anyhow::Result<u8> {
    match command {
        Command::Up(args) => commands::up::run(args, settings).await,
        Command::Run(args) => commands::run::run(args, settings).await,
        Command::Submit(args) => commands::submit::run(args, settings).await,
        Command::Add(args) => commands::pipeline_file::add(args, settings).await,
        Command::Pipelines(args) => commands::sets::run(SetKind::Pipeline, args, settings).await,
        Command::Arrays(args) => commands::sets::run(SetKind::Array, args, settings).await,
        Command::Gangs(args) => commands::gangs::run(args, settings).await,
        Command::Ls(args) => commands::ls::run(args, settings).await,
        Command::Usage(args) => commands::usage::run(args, settings).await,
        Command::Watch(args) => commands::watch::run(args, settings).await,
        Command::Top(args) => commands::top::run(args, settings).await,
        Command::Show(args) => commands::show::run(args, settings).await,
        Command::Logs(args) => commands::logs::run(args, settings).await,
        Command::Exec(args) => commands::exec::exec(args, settings).await,
        Command::Attach(args) => commands::exec::attach(args, settings).await,
        Command::Wait(args) => commands::wait::run(args, settings).await,
        Command::Cancel(args) => {
            commands::change::run(BulkVerb::Cancel, &args.selection, None, settings).await
        }
        Command::Hold(args) => commands::change::run(BulkVerb::Hold, &args.selection, None, settings).await,
        Command::Release(args) => {
            commands::change::run(BulkVerb::Release, &args.selection, None, settings).await
        }
        Command::Delete(args) => {
            commands::change::run(BulkVerb::Delete, &args.selection, None, settings).await
        }
        Command::Retry(args) => {
            commands::change::run(BulkVerb::Retry, &args.selection, args.from.as_deref(), settings).await
        }
        Command::Preempt(args) => commands::preempt::run(args, settings).await,
        Command::Edit(args) => commands::edit::run(args, settings).await,
        Command::Queues => commands::queue::list(settings).await,
        Command::Explain => commands::explain::run(settings).await,
        Command::Queue(args) => commands::queue::run(args, settings).await,
        Command::Why(args) => commands::why::run(args, settings).await,
        Command::Workers => commands::workers::run(settings).await,
        Command::Worker(args) => commands::workers::act(args, settings).await,
        Command::Sim(args) => commands::sim::run(args, settings).await,
        Command::Secret(args) => commands::secret::run(args, settings).await,
        Command::Login(args) => commands::login::login(args, settings).await,
        Command::Logout => commands::login::logout(settings).await,
        Command::Whoami => commands::login::whoami(settings).await,
        Command::Token(args) => commands::token::run(args, settings).await,
        Command::User(args) => commands::user::run(args, settings).await,
        Command::JoinToken(args) => commands::join_token::run(args, settings).await,
        Command::Audit(args) => commands::audit::run(args, settings).await,
        Command::Webhook(args) => commands::webhook::run(args, settings).await,
        Command::Events(args) => commands::events::run(args, settings).await,
        Command::Artifacts(args) => commands::artifacts::run(args, settings).await,
        Command::Checkpoint(args) => commands::checkpoint::run(args, settings).await,
        Command::Notice(args) => commands::notice::run(args, settings).await,
        Command::Done => commands::done::run(settings),
        Command::Version => commands::version::run(settings).await,
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
        Command::Reference(args) => commands::reference::run(args),
        Command::SchedulingReport(args) => commands::scheduling_report::run(args),
    }
}
