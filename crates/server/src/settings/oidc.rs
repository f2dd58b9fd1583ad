//! The flags about login through an OIDC provider.
//!
//! Guarantees: a setting without the provider that it is for is refused, and so is a provider with which nobody could log
//! in; nothing that is secret is an argument.

use std::path::PathBuf;

use clap::Args;
use http::Uri;
use muster_domain::access::UserRole;

use crate::config::{OidcConfig, RoleOfGroup};
use crate::error::ServerError;

/// The provider through which people may log in, and what they may do then.
#[derive(Debug, Clone, Args)]
pub struct OidcArgs {
    #[arg(
        long,
        help = "The OIDC provider through which people may log in, such as https://sso.example/realms/company. Its metadata is read below it, at /.well-known/openid-configuration",
        value_name = "URL",
        env = "MUSTER_OIDC_ISSUER"
    )]
    pub oidc_issuer: Option<String>,
    /// What the provider knows the scheduler as
    #[arg(long, value_name = "ID", env = "MUSTER_OIDC_CLIENT_ID")]
    pub oidc_client_id: Option<String>,
    /// A file with the secret that the provider gave to the client; without one the client is a public one
    #[arg(long, value_name = "FILE", env = "MUSTER_OIDC_CLIENT_SECRET_FILE")]
    pub oidc_client_secret_file: Option<PathBuf>,
    /// Where browsers reach the schedulers. The provider must know URL/auth/oidc/callback as a redirect URI of the client
    /// [default: the advertised URL]
    #[arg(long, value_name = "URL", env = "MUSTER_OIDC_PUBLIC_URL")]
    pub oidc_public_url: Option<String>,
    #[arg(
        long,
        help = "The claim that becomes the name of a user, such as preferred_username or email",
        value_name = "CLAIM",
        env = "MUSTER_OIDC_NAME_CLAIM",
        default_value = NAME_CLAIM
    )]
    pub oidc_name_claim: String,
    #[arg(
        long,
        help = "The claim with the groups of a user; a dot leads into an object, as in realm_access.roles",
        value_name = "CLAIM",
        env = "MUSTER_OIDC_GROUPS_CLAIM",
        default_value = GROUPS_CLAIM
    )]
    pub oidc_groups_claim: String,
    #[arg(
        long,
        help = "A group of the provider and the role that it gives, such as ml-ops=operator; may be repeated, and the highest role counts. Roles are viewer, user, operator and admin",
        value_name = "GROUP=ROLE",
        env = "MUSTER_OIDC_ROLE",
        value_delimiter = ','
    )]
    pub oidc_role: Vec<RoleOfGroup>,
    /// The role of users in none of these groups [default: they are refused]
    #[arg(long, value_name = "ROLE", env = "MUSTER_OIDC_DEFAULT_ROLE", value_parser = role)]
    pub oidc_default_role: Option<UserRole>,
    /// What is asked of the provider, with blanks between
    #[arg(long, value_name = "SCOPES", env = "MUSTER_OIDC_SCOPES", default_value = SCOPES)]
    pub oidc_scopes: String,
}

const NAME_CLAIM: &str = "preferred_username";
const GROUPS_CLAIM: &str = "groups";
const SCOPES: &str = "openid profile email";

/// The role of this name.
pub(super) fn role(text: &str) -> Result<UserRole, String> {
    let found = UserRole::ALL.into_iter().find(|role| role.name() == text);
    found.ok_or_else(|| format!("there is no role {text:?}: write viewer, user, operator or admin"))
}

impl std::str::FromStr for RoleOfGroup {
    type Err = String;

    /// The name of a group may have an `=` in it, the name of a role has none.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no group with its role: write GROUP=ROLE, such as ml-ops=operator");
        let (group, role_name) = text.rsplit_once('=').ok_or_else(wrong)?;
        if group.is_empty() {
            return Err(wrong());
        }
        Ok(Self { group: group.to_owned(), role: role(role_name)? })
    }
}

/// An empty variable is none.
fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn wrong(name: &str, value: impl Into<String>, problem: impl Into<String>) -> ServerError {
    ServerError::Setting { name: name.to_owned(), value: value.into(), problem: problem.into() }
}

/// Refuses what is no address of a server, or has parts that it must not have.
fn check_url(name: &str, url: &str) -> Result<Uri, ServerError> {
    let parsed: Uri = url.parse().map_err(|error| wrong(name, url, format!("it is no URL: {error}")))?;
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    if !is_http || parsed.host().is_none_or(str::is_empty) {
        return Err(wrong(name, url, "write a URL such as https://sso.example"));
    }
    if parsed.query().is_some() || url.contains(['#', '@']) {
        return Err(wrong(name, url, "write it without user, query and fragment"));
    }
    Ok(parsed)
}

impl OidcArgs {
    /// Refuses settings that contradict each other, and those with which nobody could log in.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let Some(issuer) = given(self.oidc_issuer.as_ref()) else { return self.check_nothing_is_set() };
        let parsed = check_url("--oidc-issuer", issuer)?;
        if !crate::oidc::is_safe(&parsed) {
            let problem =
                "http:// is for a provider on this machine only (127.0.0.1, ::1, localhost): write https://";
            return Err(wrong("--oidc-issuer", issuer, problem));
        }
        if given(self.oidc_client_id.as_ref()).is_none() {
            let problem = "the provider must know the scheduler as a client: add --oidc-client-id";
            return Err(wrong("--oidc-issuer", issuer, problem));
        }
        if let Some(url) = given(self.oidc_public_url.as_ref()) {
            check_url("--oidc-public-url", url)?;
        }
        if self.oidc_role.is_empty() && self.oidc_default_role.is_none() {
            let problem = "nobody could log in, since no group has a role: add --oidc-role GROUP=ROLE, or --oidc-default-role";
            return Err(wrong("--oidc-issuer", issuer, problem));
        }
        if !self.oidc_scopes.split_whitespace().any(|scope| scope == "openid") {
            return Err(wrong("--oidc-scopes", &self.oidc_scopes, "the scope openid is needed"));
        }
        for (name, claim) in
            [("--oidc-name-claim", &self.oidc_name_claim), ("--oidc-groups-claim", &self.oidc_groups_claim)]
        {
            if claim.is_empty() {
                return Err(wrong(name, claim, "write the name of a claim"));
            }
        }
        Ok(())
    }

    fn check_nothing_is_set(&self) -> Result<(), ServerError> {
        let shown = |path: &PathBuf| path.display().to_string();
        let secret = self.oidc_client_secret_file.as_ref().filter(|path| !path.as_os_str().is_empty());
        let texts = [
            ("--oidc-client-id", given(self.oidc_client_id.as_ref()).map(str::to_owned)),
            ("--oidc-client-secret-file", secret.map(shown)),
            ("--oidc-public-url", given(self.oidc_public_url.as_ref()).map(str::to_owned)),
            (
                "--oidc-role",
                self.oidc_role.first().map(|role| format!("{}={}", role.group, role.role.name())),
            ),
            ("--oidc-default-role", self.oidc_default_role.map(|role| role.name().to_owned())),
        ];
        match texts.into_iter().find_map(|(name, value)| Some((name, value?))) {
            Some((name, value)) => Err(wrong(name, value, "the provider is missing: add --oidc-issuer")),
            None => Ok(()),
        }
    }

    pub(super) fn config(&self) -> Option<OidcConfig> {
        let owned = |text: Option<&String>| given(text).map(str::to_owned);
        Some(OidcConfig {
            issuer: owned(self.oidc_issuer.as_ref())?,
            client_id: owned(self.oidc_client_id.as_ref()).unwrap_or_default(),
            client_secret_file: self
                .oidc_client_secret_file
                .clone()
                .filter(|path| !path.as_os_str().is_empty()),
            public_url: owned(self.oidc_public_url.as_ref()),
            name_claim: self.oidc_name_claim.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            roles: self.oidc_role.clone(),
            default_role: self.oidc_default_role,
            scopes: self.oidc_scopes.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        oidc: OidcArgs,
    }

    fn args(written: &[&str]) -> OidcArgs {
        let written = [&["test"], written].concat();
        Alone::try_parse_from(written).unwrap_or_else(|error| panic!("{error}")).oidc
    }

    fn problem(written: &[&str]) -> String {
        args(written).check().unwrap_err().to_string()
    }

    const ISSUER: [&str; 2] = ["--oidc-issuer", "https://sso.example/realms/a"];

    #[test]
    fn a_provider_is_set_up_completely_or_not_at_all() {
        assert!(args(&[]).check().is_ok());
        assert_eq!(args(&[]).config(), None);
        for alone in [
            ["--oidc-client-id", "muster"],
            ["--oidc-client-secret-file", "s"],
            ["--oidc-public-url", "https://muster.example"],
            ["--oidc-role", "ml=user"],
            ["--oidc-default-role", "viewer"],
        ] {
            let said = problem(&alone);
            assert!(said.starts_with(alone[0]) && said.contains("add --oidc-issuer"), "{said}");
        }
        let with = |more: &[&'static str]| [&ISSUER[..], more].concat();
        assert!(problem(&with(&[])).contains("add --oidc-client-id"));
        assert!(problem(&with(&["--oidc-client-id", "m"])).contains("add --oidc-role"));
        let id = ["--oidc-client-id", "m", "--oidc-default-role", "user"];
        assert!(problem(&with(&[&id[..], &["--oidc-scopes", "profile"]].concat())).contains("openid"));
        assert!(
            problem(&with(&[&id[..], &["--oidc-public-url", "muster.example"]].concat())).contains("URL")
        );
        assert!(args(&with(&id)).check().is_ok());
    }

    #[test]
    fn an_issuer_without_tls_is_on_this_machine() {
        let check = |issuer: &str| {
            args(&["--oidc-issuer", issuer, "--oidc-client-id", "m", "--oidc-default-role", "user"]).check()
        };
        for fine in ["http://127.0.0.1:9000", "http://localhost/a", "http://[::1]:9/", "https://sso.example/"]
        {
            assert!(check(fine).is_ok(), "{fine}");
        }
        for wrong in ["http://sso.example", "http://10.0.0.1", "http://localhost.evil.example"] {
            assert!(check(wrong).unwrap_err().to_string().contains("write https://"), "{wrong}");
        }
        for wrong in ["sso.example", "ftp://sso.example", "https://", "https://a/?b", "https://u@a/", "a b"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_group_has_its_role_behind_the_last_sign() {
        let read = |text: &str| text.parse::<RoleOfGroup>();
        let both = read("cn=ml=operator").unwrap();
        assert_eq!((both.group.as_str(), both.role), ("cn=ml", UserRole::Operator));
        for wrong in ["ml", "=user", "ml=", "ml=boss"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let given = [&ISSUER[..], &["--oidc-client-id", "m", "--oidc-role", "a=user,b=admin"]].concat();
        let config = args(&given).config().unwrap();
        assert_eq!(config.roles.len(), 2);
        assert_eq!((config.name_claim.as_str(), config.groups_claim.as_str()), (NAME_CLAIM, GROUPS_CLAIM));
    }
}
