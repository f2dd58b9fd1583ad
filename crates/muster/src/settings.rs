//! What the arguments, the environment and the file come to: flag > environment > file > default.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use muster_client::{BaseUrl, Client};

use crate::args::amounts;
use crate::args::{GlobalArgs, UpArgs};
use crate::config_file::{ConfigFile, UpSection};
use crate::failure::UsageError;
use crate::output::Screen;

pub(crate) const DEFAULT_URL: &str = "http://localhost:8080";
pub(crate) const DEFAULT_DATA_DIR: &str = "data";
const DEFAULT_PORT: u16 = 8080;
const DEFAULT_DRAIN: Duration = Duration::from_secs(10);
const DEFAULT_LOG: &str = "warn";

/// What every command needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) url: String,
    /// Somebody named the URL, so that nothing else will do.
    pub(crate) url_is_explicit: bool,
    pub(crate) screen: Screen,
    pub(crate) file: ConfigFile,
}

impl Settings {
    pub(crate) fn resolve(global: &GlobalArgs) -> Result<Self, UsageError> {
        let file = ConfigFile::load(global.config.as_deref())?;
        let named = global.url.clone().filter(|url| !url.is_empty()).or_else(|| file.client.url.clone());
        let url_is_explicit = named.is_some();
        let url = named.unwrap_or_else(|| DEFAULT_URL.to_owned());
        BaseUrl::parse(&url).map_err(|error| UsageError(error.to_string()))?;
        Ok(Self { url, url_is_explicit, screen: Screen::find(global), file })
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::http(&self.url)?)
    }
}

/// Where jobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Memory,
    Sqlite(PathBuf),
    Postgres(String),
}

/// A scheduler and perhaps a worker in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) listen: SocketAddr,
    /// How many jobs run at once; `None` for no worker.
    pub(crate) slots: Option<u32>,
    pub(crate) store: StoreChoice,
    pub(crate) drain_timeout: Duration,
    pub(crate) log: String,
}

impl UpSettings {
    pub(crate) fn resolve(args: &UpArgs, file: &UpSection) -> Result<Self, UsageError> {
        let data_dir = args.data_dir.clone().or_else(|| file.data_dir.clone());
        let data_dir = data_dir.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_DIR));
        let no_worker = args.no_worker || (args.workers.is_none() && file.no_worker == Some(true));
        let slots = args.workers.or(file.workers).unwrap_or_else(default_slots);
        let driver = args.db_driver.as_ref().or(file.db_driver.as_ref());
        let url = args.db_url.clone().or_else(|| file.db_url.clone()).filter(|url| !url.is_empty());
        let drain = match (args.drain_timeout, &file.drain_timeout) {
            (Some(given), _) => given,
            (None, Some(text)) => amounts::duration(text).map_err(UsageError)?,
            (None, None) => DEFAULT_DRAIN,
        };
        Ok(Self {
            store: store(driver.map(String::as_str), url, &data_dir)?,
            data_dir,
            listen: listen(args, file)?,
            slots: (!no_worker).then_some(slots),
            drain_timeout: drain,
            log: args.log.clone().or_else(|| file.log.clone()).unwrap_or_else(|| DEFAULT_LOG.to_owned()),
        })
    }
}

pub(crate) fn default_slots() -> u32 {
    thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// The address of `listen` with the port of `port`, each from the strongest source that has it.
fn listen(args: &UpArgs, file: &UpSection) -> Result<SocketAddr, UsageError> {
    let mut address = match (args.listen, &file.listen) {
        (Some(address), _) => address,
        (None, Some(text)) => text.parse().map_err(|_| {
            UsageError(format!("{text:?} in the file is not an address; write for example 127.0.0.1:8080"))
        })?,
        (None, None) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
    };
    let weaker = if args.listen.is_none() { file.port } else { None };
    if let Some(port) = args.port.or(weaker) {
        address.set_port(port);
    }
    Ok(address)
}

fn store(
    driver: Option<&str>,
    url: Option<String>,
    data_dir: &std::path::Path,
) -> Result<StoreChoice, UsageError> {
    match (driver.unwrap_or("sqlite"), url) {
        ("memory", _) => Ok(StoreChoice::Memory),
        ("sqlite", url) => {
            Ok(StoreChoice::Sqlite(url.map_or_else(|| data_dir.join("muster.db"), PathBuf::from)))
        }
        ("postgres", Some(url)) => Ok(StoreChoice::Postgres(url)),
        ("postgres", None) => Err(UsageError(
            "--db-driver postgres needs --db-url, for example postgres://muster@localhost/muster".into(),
        )),
        (other, _) => Err(UsageError(format!(
            "{other:?} is not a database driver (--db-driver); there are sqlite, postgres and memory"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: &UpArgs, file: &str) -> Result<UpSettings, UsageError> {
        UpSettings::resolve(args, &toml::from_str(file).unwrap())
    }

    #[test]
    fn defaults() {
        let settings = resolve(&UpArgs::default(), "").unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.store, StoreChoice::Sqlite("data/muster.db".into()));
        assert!(settings.slots.is_some_and(|slots| slots > 0));
    }

    #[test]
    fn a_flag_beats_the_file() {
        let args = UpArgs { port: Some(9000), data_dir: Some("here".into()), ..UpArgs::default() };
        let file = "listen = \"0.0.0.0:1\"\ndata-dir = \"there\"\nworkers = 7\ndrain-timeout = \"2m\"";
        let settings = resolve(&args, file).unwrap();
        assert_eq!(settings.listen.to_string(), "0.0.0.0:9000");
        assert_eq!(settings.store, StoreChoice::Sqlite("here/muster.db".into()));
        assert_eq!((settings.slots, settings.drain_timeout), (Some(7), Duration::from_secs(120)));
    }

    #[test]
    fn the_port_of_a_weaker_source_does_not_change_an_address() {
        let args = UpArgs { listen: Some("10.0.0.1:80".parse().unwrap()), ..UpArgs::default() };
        assert_eq!(resolve(&args, "port = 9000").unwrap().listen.to_string(), "10.0.0.1:80");
        let settings = resolve(&UpArgs::default(), "port = 9000").unwrap();
        assert_eq!(settings.listen.to_string(), "127.0.0.1:9000");
    }

    #[test]
    fn wrong_values_are_named() {
        let oracle = UpArgs { db_driver: Some("oracle".into()), ..UpArgs::default() };
        assert!(resolve(&oracle, "").unwrap_err().0.contains("oracle"));
        let postgres = UpArgs { db_driver: Some("postgres".into()), ..UpArgs::default() };
        assert!(resolve(&postgres, "").unwrap_err().0.contains("--db-url"));
        assert!(resolve(&UpArgs::default(), "drain-timeout = \"soon\"").unwrap_err().0.contains("soon"));
        assert!(resolve(&UpArgs::default(), "listen = \"here\"").unwrap_err().0.contains("here"));
    }

    #[test]
    fn no_worker_when_asked_for() {
        assert_eq!(resolve(&UpArgs::default(), "no-worker = true").unwrap().slots, None);
        let args = UpArgs { workers: Some(2), ..UpArgs::default() };
        assert_eq!(resolve(&args, "no-worker = true").unwrap().slots, Some(2));
    }
}
