//! What a credential is worth.

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn account(role: UserRole) -> Account {
    let name = "ann".to_owned();
    Account { name, role, queues: None, password: None, oidc: None, disabled: false, created_at: NOW }
}

fn credential(bearer: Bearer) -> Credential {
    let id = CredentialId::from_random([7; 16]);
    Credential { id, name: "ci".to_owned(), bearer, created_at: NOW, expires_at: None, used_at: None }
}

fn token(role: Option<UserRole>, queues: Option<&[&str]>) -> Credential {
    let queues = queues.map(|queues| queues.iter().map(|queue| QueueName::new(*queue)).collect());
    credential(Bearer::Token { user: "ann".to_owned(), role, queues })
}

fn role_of(principal: &Principal) -> UserRole {
    match principal {
        Principal::User { role, .. } => *role,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_never_has_more_than_its_account() {
    let roles = [UserRole::Viewer, UserRole::User, UserRole::Operator, UserRole::Admin];
    for has in roles {
        for wants in roles {
            let found = token(Some(wants), None).principal(Some(&account(has)), NOW).unwrap();
            assert_eq!(role_of(&found), has.min(wants));
        }
    }
    let mut limited = account(UserRole::User);
    limited.queues = Some(vec![QueueName::new("a"), QueueName::new("b")]);
    let Ok(Principal::User { queues, .. }) = token(None, Some(&["b", "c"])).principal(Some(&limited), NOW)
    else {
        panic!("a user was expected");
    };
    assert_eq!(queues, Some(vec![QueueName::new("b")]));
}

#[test]
fn a_credential_ends_with_its_time_its_account_and_its_uses() {
    let ann = account(UserRole::User);
    let mut ends = token(None, None);
    ends.expires_at = Some(NOW);
    assert_eq!(ends.principal(Some(&ann), NOW), Err(Worthless::Expired { at: NOW }));
    assert!(ends.principal(Some(&ann), Timestamp::from_micros(999_999)).is_ok());
    assert_eq!(token(None, None).principal(None, NOW), Err(Worthless::NoAccount));
    let disabled = Account { disabled: true, ..ann };
    assert_eq!(token(None, None).principal(Some(&disabled), NOW), Err(Worthless::Disabled));
    let join = |uses| credential(Bearer::Join { uses, tags: None }).principal(None, NOW);
    assert_eq!(join(1), Ok(Principal::Joiner));
    assert_eq!(join(0), Err(Worthless::UsedUp));
}

#[test]
fn names_read_the_same_everywhere() {
    assert!(is_name("ann.b-c_d@example.org") && is_name("A1"));
    assert!(is_user_name("ann") && !is_user_name("scheduler") && !is_user_name("a b"));
    for wrong in ["", "a b", "a/b", "ä", "a\n", "a:b", &"x".repeat(MAX_NAME + 1)] {
        assert!(!is_name(wrong), "{wrong:?}");
    }
}
