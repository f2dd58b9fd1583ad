//! The first admin, made on the store itself: nobody can ask a scheduler for it before there is one.

use muster_domain::access::UserRole;
use muster_domain::account::{MAX_NAME, is_user_name};
use muster_domain::{Account, Actor};
use muster_store::{AccountCommand, AccountVerb, Command, Store, StoreExt as _};

use crate::clock::Clock;
use crate::{ids, passwords};

/// Makes an admin with this password, or with one that is made up. Returns the password where it was made up.
pub async fn create_admin(
    store: &dyn Store,
    name: &str,
    password: Option<String>,
) -> Result<Option<String>, String> {
    if !is_user_name(name) {
        return Err(format!(
            "{name:?} cannot be a name: write 1 to {MAX_NAME} letters, digits or any of . - _ @, and no word that \
             stands for others, such as scheduler"
        ));
    }
    let made_up = password.is_none().then(ids::password);
    let password = password.or_else(|| made_up.clone()).unwrap_or_default();
    let hash = passwords::hash(&password, ids::salt())?;
    let now = Clock::of_this_machine().now();
    let account = Account {
        name: name.to_owned(),
        role: UserRole::Admin,
        queues: None,
        password: Some(hash),
        oidc: None,
        disabled: false,
        created_at: now,
    };
    let by = Actor { name: "operator of the store".to_owned(), ..Actor::default() };
    let command = AccountCommand { by, verb: AccountVerb::Create(account) };
    let applied = store.apply_one(now, Command::Account(Box::new(command))).await;
    let (answer, _) = applied.map_err(|error| error.to_string())?;
    answer.map_err(|rejection| rejection.to_string())?;
    Ok(made_up)
}
