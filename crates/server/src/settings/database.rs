//! Which store the settings mean: by its driver, or by what its URL begins with.
//!
//! Guarantee: a URL never becomes the name of a file, and a typing error in a path never an empty database.

use std::path::{Path, PathBuf};

use super::args::SchedulerArgs;
use super::values::{Driver, StoreChoice};
use crate::error::ServerError;

impl SchedulerArgs {
    /// The kind of store.
    pub fn driver(&self) -> Driver {
        let by_url = || self.url().and_then(|url| scheme_driver(&url));
        self.db_driver.or_else(by_url).unwrap_or(Driver::Sqlite)
    }

    /// Where jobs are kept. Looks whether the directory of a file is there.
    pub fn store(&self) -> Result<StoreChoice, ServerError> {
        let url = self.url();
        if let Some(url) = &url {
            self.check_scheme(url)?;
        }
        match self.driver() {
            Driver::Memory => match url {
                None => Ok(StoreChoice::Memory),
                Some(_) => Err(wrong("--db-url", "", "the memory driver keeps nothing: leave the URL out")),
            },
            Driver::Sqlite => self.file(url.as_deref()).map(StoreChoice::Sqlite),
            Driver::Postgres => {
                let url = url.or_else(|| self.pg_url.clone().filter(|url| !url.is_empty()));
                url.map(StoreChoice::Postgres).ok_or_else(|| {
                    let problem = "the postgres driver needs one, such as postgres://muster@localhost/muster";
                    wrong("--db-url", "", problem)
                })
            }
        }
    }

    fn url(&self) -> Option<String> {
        self.db_url.clone().filter(|url| !url.is_empty())
    }

    /// A URL and a driver that contradict each other are both shown without the URL, which may hold a password.
    fn check_scheme(&self, url: &str) -> Result<(), ServerError> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        let meant = scheme_driver(url);
        if let (Some(scheme), None) = (scheme, meant) {
            return Err(wrong(
                "--db-url",
                scheme,
                "it must be a file, or begin with postgres:// or sqlite://",
            ));
        }
        match (self.db_driver, meant) {
            (Some(Driver::Sqlite | Driver::Memory), Some(Driver::Postgres)) => {
                Err(wrong("--db-driver", self.driver().name(), "but --db-url is one of PostgreSQL"))
            }
            (Some(Driver::Postgres | Driver::Memory), Some(Driver::Sqlite)) => {
                Err(wrong("--db-driver", self.driver().name(), "but --db-url is one of SQLite"))
            }
            (Some(Driver::Postgres), None) if !url.contains('=') => {
                Err(wrong("--db-driver", "postgres", "but --db-url is the name of a file"))
            }
            _ => Ok(()),
        }
    }

    /// Only the data directory is made when it is not there, and only itself.
    fn file(&self, url: Option<&str>) -> Result<PathBuf, ServerError> {
        let Some(url) = url else {
            let parent = self.data_dir.parent().filter(|parent| is_missing(parent));
            return match parent {
                None => Ok(self.data_dir.join("muster.db")),
                Some(parent) => Err(missing("--data-dir", &self.data_dir, parent)),
            };
        };
        let path = PathBuf::from(url.strip_prefix("sqlite://").unwrap_or(url));
        match path.parent().filter(|parent| is_missing(parent) && *parent != self.data_dir) {
            None => Ok(path),
            Some(parent) => Err(missing("--db-url", &path, parent)),
        }
    }
}

fn scheme_driver(url: &str) -> Option<Driver> {
    let (scheme, _) = url.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "postgres" | "postgresql" => Some(Driver::Postgres),
        "sqlite" => Some(Driver::Sqlite),
        _ => None,
    }
}

fn is_missing(directory: &Path) -> bool {
    !directory.as_os_str().is_empty() && !directory.exists()
}

fn missing(name: &str, value: &Path, directory: &Path) -> ServerError {
    let problem =
        format!("the directory {} does not exist: make it first, if that is the place", directory.display());
    wrong(name, &value.display().to_string(), &problem)
}

fn wrong(name: &str, value: &str, problem: &str) -> ServerError {
    ServerError::Setting { name: name.to_owned(), value: value.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: SchedulerArgs,
    }

    fn store(arguments: &[&str]) -> Result<StoreChoice, String> {
        let words = ["test"].iter().chain(arguments);
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        program.args.store().map_err(|error| error.to_string())
    }

    #[test]
    fn the_scheme_of_the_url_chooses_the_store() {
        for url in ["postgres://u@h/d", "postgresql://h/d"] {
            assert_eq!(store(&["--db-url", url]), Ok(StoreChoice::Postgres(url.to_owned())));
        }
        assert_eq!(store(&["--db-url", "a.db"]), Ok(StoreChoice::Sqlite("a.db".into())));
        assert_eq!(store(&["--db-url", "sqlite:///a.db"]), Ok(StoreChoice::Sqlite("/a.db".into())));
        assert_eq!(store(&["--db-url", ""]), Ok(StoreChoice::Sqlite("data/muster.db".into())));
        let keyed = ["--db-driver", "postgres", "--db-url", "host=h dbname=d"];
        assert_eq!(store(&keyed), Ok(StoreChoice::Postgres("host=h dbname=d".to_owned())));
    }

    #[test]
    fn a_contradiction_is_an_error_that_shows_no_password() {
        for [driver, url] in [
            ["sqlite", "postgres://u:secret@h/d"],
            ["memory", "postgres://u:secret@h/d"],
            ["postgres", "secret.db"],
            ["postgres", "sqlite://secret.db"],
            ["memory", "secret.db"],
            ["sqlite", "mysql://u:secret@h/d"],
        ] {
            let refused = store(&["--db-driver", driver, "--db-url", url]).unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn only_the_data_directory_itself_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path).to_str().unwrap().to_owned();
        assert!(store(&["--data-dir", &at("new")]).is_ok());
        assert!(store(&["--data-dir", &at("typo/new")]).unwrap_err().contains("does not exist"));
        assert!(store(&["--db-url", &at("a.db")]).is_ok());
        assert!(store(&["--db-url", &at("typo/a.db")]).unwrap_err().contains("typo does not exist"));
        assert!(store(&["--data-dir", &at("new"), "--db-url", &at("new/a.db")]).is_ok());
    }
}
