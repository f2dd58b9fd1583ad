//! A login at an OIDC provider: which account it is for, and how the account changes.
//!
//! Guarantees: an account is found by issuer and subject alone, so that a name takes over nothing; the role is that of the
//! latest login; a login leaves an admin who can act, if there was one.

use crate::access::UserRole;
use crate::account::{Account, OidcSubject};
use crate::rejection::Rejection;
use crate::time::Timestamp;

/// A person whose identity a provider has confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignIn {
    pub subject: OidcSubject,
    /// The name of the account if one has to be made.
    pub name: String,
    /// What its groups give.
    pub role: UserRole,
}

/// What a login changes of the accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Made,
    Updated,
    Nothing,
}

impl SignIn {
    /// The account as it is from now on. `known` are all accounts.
    pub fn decide(&self, known: &[Account], now: Timestamp) -> Result<(Account, Change), Rejection> {
        if let Some(account) = known.iter().find(|account| account.oidc.as_ref() == Some(&self.subject)) {
            return self.update(account, known);
        }
        if let Some(other) = known.iter().find(|account| account.name == self.name) {
            let subject = self.subject.subject.clone();
            return Err(Rejection::AccountNotLinked { name: other.name.clone(), subject });
        }
        let account = Account {
            name: self.name.clone(),
            role: self.role,
            queues: None,
            password: None,
            oidc: Some(self.subject.clone()),
            disabled: false,
            created_at: now,
        };
        Ok((account, Change::Made))
    }

    fn update(&self, account: &Account, known: &[Account]) -> Result<(Account, Change), Rejection> {
        let name = || account.name.clone();
        if account.disabled {
            return Err(Rejection::AccountDisabled { name: name() });
        }
        if account.role == self.role {
            return Ok((account.clone(), Change::Nothing));
        }
        let updated = Account { role: self.role, ..account.clone() };
        let other_admin = known.iter().any(|other| other.name != account.name && other.is_acting_admin());
        if account.is_acting_admin() && !updated.is_acting_admin() && !other_admin {
            return Err(Rejection::LastAdmin { name: name() });
        }
        Ok((updated, Change::Updated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn sign_in(subject: &str, name: &str, role: UserRole) -> SignIn {
        let subject = OidcSubject { issuer: "https://sso.example".to_owned(), subject: subject.to_owned() };
        SignIn { subject, name: name.to_owned(), role }
    }

    fn made(subject: &str, name: &str, role: UserRole) -> Account {
        sign_in(subject, name, role).decide(&[], NOW).unwrap().0
    }

    #[test]
    fn the_first_login_makes_the_account_and_later_ones_find_it_by_its_subject() {
        let ann = made("s1", "ann", UserRole::User);
        assert_eq!((ann.name.as_str(), ann.role, ann.created_at), ("ann", UserRole::User, NOW));
        let known = [ann.clone(), made("s2", "bob", UserRole::User)];
        let again = sign_in("s1", "ann", UserRole::User).decide(&known, NOW);
        assert_eq!(again, Ok((ann, Change::Nothing)));
        let (renamed, change) = sign_in("s1", "bob", UserRole::Operator).decide(&known, NOW).unwrap();
        assert_eq!(
            (renamed.name.as_str(), renamed.role, change),
            ("ann", UserRole::Operator, Change::Updated)
        );
    }

    #[test]
    fn a_name_takes_over_no_account() {
        let local = Account { oidc: None, ..made("x", "ann", UserRole::Admin) };
        for other in [local, made("s2", "ann", UserRole::User)] {
            let refused = sign_in("s1", "ann", UserRole::User).decide(&[other], NOW).unwrap_err();
            let subject = "s1".to_owned();
            assert_eq!(refused, Rejection::AccountNotLinked { name: "ann".to_owned(), subject });
        }
        let mut elsewhere = sign_in("s2", "ann", UserRole::User);
        elsewhere.subject.issuer = "https://other.example".to_owned();
        let known = [made("s2", "ann", UserRole::User)];
        assert!(
            elsewhere.decide(&known, NOW).is_err(),
            "the same subject of another issuer is another person"
        );
    }

    #[test]
    fn a_disabled_account_stays_out() {
        let ann = Account { disabled: true, ..made("s1", "ann", UserRole::User) };
        let refused = sign_in("s1", "ann", UserRole::Admin).decide(&[ann], NOW);
        assert_eq!(refused, Err(Rejection::AccountDisabled { name: "ann".to_owned() }));
    }

    #[test]
    fn the_last_admin_stays_one() {
        let ann = made("s1", "ann", UserRole::Admin);
        let down = sign_in("s1", "ann", UserRole::User);
        let refused = down.decide(std::slice::from_ref(&ann), NOW);
        assert_eq!(refused, Err(Rejection::LastAdmin { name: "ann".to_owned() }));
        let disabled = Account { disabled: true, ..made("s2", "eve", UserRole::Admin) };
        assert!(down.decide(&[ann.clone(), disabled], NOW).is_err());
        let (ann, _) = down.decide(&[ann, made("s3", "bob", UserRole::Admin)], NOW).unwrap();
        assert_eq!(ann.role, UserRole::User);
    }
}
