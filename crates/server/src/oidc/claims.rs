//! From the claims of a person to the name and the role of an account. Pure.
//!
//! Guarantees: the highest role of all groups counts; somebody in no group with a role gets the default, or nothing.

use muster_domain::OidcSubject;
use muster_domain::access::UserRole;
use muster_domain::account::{MAX_NAME, is_user_name};
use muster_domain::sign_in::SignIn;
use serde_json::Value;

use super::error::{OidcError, repeated};
use super::id_token::Claims;
use crate::config::OidcConfig;

/// A person whose identity the provider has confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    /// How the provider names it, fit for the audit log.
    pub(crate) shown: String,
    pub(crate) sign_in: Result<SignIn, OidcError>,
}

/// A claim by its name, or by its path where a dot leads into an object.
fn claim<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

/// Whether all that the settings name is there.
pub(super) fn has_all(config: &OidcConfig, claims: &Claims) -> bool {
    claim(claims, &config.name_claim).is_some() && claim(claims, &config.groups_claim).is_some()
}

/// The person that verified claims describe.
pub(crate) fn person(config: &OidcConfig, claims: &Claims) -> Person {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(repeated);
    let named = text(claim(claims, &config.name_claim)).or_else(|| text(claims.get("sub")));
    let shown = named.unwrap_or_default().chars().take(MAX_NAME).collect();
    Person { shown, sign_in: sign_in(config, claims) }
}

fn sign_in(config: &OidcConfig, claims: &Claims) -> Result<SignIn, OidcError> {
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = name(config, claims)?;
    let groups = groups(claim(claims, &config.groups_claim));
    let role = role_of(config, &groups).ok_or_else(|| {
        let count = groups.len();
        OidcError::NotAllowed(format!(
            "{name} has no role here: the claim {} names {count} groups, and none of them is mapped to a role \
             (--oidc-role GROUP=ROLE)",
            config.groups_claim
        ))
    })?;
    Ok(SignIn { subject: OidcSubject { issuer: config.issuer.clone(), subject }, name, role })
}

fn name(config: &OidcConfig, claims: &Claims) -> Result<String, OidcError> {
    let from = &config.name_claim;
    let refused = |cause: String| Err(OidcError::NotAllowed(cause));
    let Some(name) = claim(claims, from).and_then(Value::as_str) else {
        return refused(format!(
            "the login provider does not tell the claim {from}, which is to be the name of the user (--oidc-name-claim, \
             --oidc-scopes)"
        ));
    };
    if !is_user_name(name) {
        return refused(format!(
            "{:?}, the claim {from}, cannot be the name of a user: 1 to {MAX_NAME} letters, digits or any of . - _ @, and not local, \
             scheduler, worker or nobody; take another claim (--oidc-name-claim)",
            repeated(name)
        ));
    }
    if from == "email" && claims.get("email_verified") == Some(&Value::Bool(false)) {
        return refused(format!("the login provider has not verified the address {name}"));
    }
    Ok(name.to_owned())
}

fn groups(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn role_of(config: &OidcConfig, groups: &[&str]) -> Option<UserRole> {
    let given = config.roles.iter().filter(|given| groups.contains(&given.group.as_str()));
    given.map(|given| given.role).max().or(config.default_role)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oidc::testing::config;

    fn told(config: &OidcConfig, claims: &Value) -> Result<(String, UserRole), String> {
        let sign_in = person(config, claims.as_object().unwrap()).sign_in;
        sign_in.map(|told| (told.name, told.role)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_highest_role_of_all_groups_counts() {
        let config =
            config(&[("ml", UserRole::User), ("ops", UserRole::Operator), ("/root", UserRole::Admin)]);
        let with = |groups: Value| {
            told(&config, &json!({ "sub": "s", "preferred_username": "ann", "groups": groups }))
        };
        let of = |role| Ok(("ann".to_owned(), role));
        assert_eq!(with(json!(["x", "ops", "ml"])), of(UserRole::Operator));
        assert_eq!(with(json!(["ml", 5, null])), of(UserRole::User));
        assert_eq!(with(json!("/root")), of(UserRole::Admin));
        for none in [json!([]), json!(["ML"]), json!(null), json!({ "ml": true })] {
            assert!(with(none.clone()).unwrap_err().contains("ann has no role here"), "{none}");
        }
    }

    #[test]
    fn who_is_in_no_group_has_the_default_role_if_there_is_one() {
        let mut config = config(&[("ops", UserRole::Operator)]);
        config.default_role = Some(UserRole::Viewer);
        let claims = json!({ "sub": "s", "preferred_username": "ann" });
        assert_eq!(told(&config, &claims), Ok(("ann".to_owned(), UserRole::Viewer)));
    }

    #[test]
    fn claims_may_lie_in_objects_and_be_chosen() {
        let mut config = config(&[("ops", UserRole::Operator)]);
        (config.groups_claim, config.name_claim) = ("realm_access.roles".to_owned(), "email".to_owned());
        let mut claims =
            json!({ "sub": "s", "email": "ann@example.org", "realm_access": { "roles": ["ops"] } });
        assert_eq!(told(&config, &claims), Ok(("ann@example.org".to_owned(), UserRole::Operator)));
        assert!(has_all(&config, claims.as_object().unwrap()));
        claims["email_verified"] = json!(false);
        assert!(told(&config, &claims).unwrap_err().contains("not verified"));
        for (name, said) in [(json!(null), "does not tell"), (json!("a b"), "cannot be the name")] {
            claims["email"] = name;
            assert!(told(&config, &claims).unwrap_err().contains(said));
        }
    }
}
