//! Accounts, credentials, the audit log.

use muster_domain::access::UserRole;
use muster_domain::sign_in::{Change, SignIn};
use muster_domain::{
    Account, AccountChange, Actor, Bearer, Caller, Credential, CredentialId, LoginMethod, OidcSubject,
    Rejection, ReportKind, Secret, Span, Status, WorkerId, Worthless,
};

use super::stage::Stage;
use crate::accounts::{AccountCommand, AccountOutcome, AccountVerb};
use crate::command::{Command, Outcome};
use crate::records::AuditFilter;
use crate::store::StoreExt;

fn command(verb: AccountVerb) -> Command {
    let by = Actor { name: "root".to_owned(), ..Actor::default() };
    Command::Account(Box::new(AccountCommand { by, verb }))
}

async fn told(stage: &Stage, verb: AccountVerb) -> Result<AccountOutcome, Rejection> {
    match stage.one(command(verb)).await? {
        Outcome::Account(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

fn account(stage: &Stage, name: &str, role: UserRole) -> Account {
    let password = Some(Secret::new("$argon2id$x"));
    let name = name.to_owned();
    Account { name, role, queues: None, password, oidc: None, disabled: false, created_at: stage.now() }
}

async fn create(stage: &Stage, name: &str, role: UserRole) -> Result<AccountOutcome, Rejection> {
    told(stage, AccountVerb::Create(account(stage, name, role))).await
}

fn credential(stage: &Stage, name: &str, bearer: Bearer) -> Credential {
    Credential {
        id: CredentialId::from_uuid(stage.new_id().as_uuid()),
        name: name.to_owned(),
        bearer,
        created_at: stage.now(),
        expires_at: None,
        used_at: None,
    }
}

async fn issue(stage: &Stage, digest: &str, bearer: Bearer) -> Result<Credential, Rejection> {
    let credential = credential(stage, digest, bearer);
    match told(stage, AccountVerb::Issue { digest: digest.to_owned(), credential }).await? {
        AccountOutcome::Credential(credential) => Ok(*credential),
        other => panic!("{other:?}"),
    }
}

fn token(user: &str) -> Bearer {
    Bearer::Token { user: user.to_owned(), role: None, queues: None }
}

async fn known(stage: &Stage, digest: &str) -> bool {
    stage.store.credential(digest.to_owned()).await.unwrap().is_some()
}

async fn join(stage: &Stage, token: &str, digest: &str, worker: &str) -> Result<Credential, Rejection> {
    let bearer = Bearer::Worker { worker: WorkerId::new(worker), tags: None };
    let credential = credential(stage, worker, bearer);
    let verb = AccountVerb::Join { token: token.to_owned(), digest: digest.to_owned(), credential };
    match told(stage, verb).await? {
        AccountOutcome::Credential(credential) => Ok(*credential),
        other => panic!("{other:?}"),
    }
}

pub async fn accounts_are_created_changed_and_removed(stage: &Stage) {
    create(stage, "ann", UserRole::Admin).await.unwrap();
    create(stage, "bob", UserRole::User).await.unwrap();
    let again = create(stage, "bob", UserRole::Admin).await;
    assert_eq!(again, Err(Rejection::AccountExists { name: "bob".to_owned() }));
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    told(stage, AccountVerb::Change { name: "bob".to_owned(), change }).await.unwrap();
    let found = stage.store.accounts().await.unwrap();
    let seen: Vec<(&str, UserRole, bool)> =
        found.iter().map(|account| (account.name.as_str(), account.role, account.disabled)).collect();
    assert_eq!(seen, [("ann", UserRole::Admin, false), ("bob", UserRole::User, true)]);
    told(stage, AccountVerb::Remove { name: "bob".to_owned() }).await.unwrap();
    assert_eq!(stage.store.account("bob".to_owned()).await.unwrap(), None);
    let gone = told(stage, AccountVerb::Remove { name: "bob".to_owned() }).await;
    assert_eq!(gone, Err(Rejection::AccountNotFound { name: "bob".to_owned() }));
}

pub async fn the_last_admin_stays(stage: &Stage) {
    create(stage, "ann", UserRole::Admin).await.unwrap();
    create(stage, "eve", UserRole::Admin).await.unwrap();
    told(stage, AccountVerb::Remove { name: "eve".to_owned() }).await.unwrap();
    let last = Rejection::LastAdmin { name: "ann".to_owned() };
    let removed = told(stage, AccountVerb::Remove { name: "ann".to_owned() }).await;
    assert_eq!(removed, Err(last.clone()));
    for change in [
        AccountChange { role: Some(UserRole::User), ..AccountChange::default() },
        AccountChange { disabled: Some(true), ..AccountChange::default() },
    ] {
        let changed = told(stage, AccountVerb::Change { name: "ann".to_owned(), change }).await;
        assert_eq!(changed, Err(last.clone()));
    }
}

pub async fn a_credential_goes_with_its_user(stage: &Stage) {
    create(stage, "ann", UserRole::Admin).await.unwrap();
    create(stage, "bob", UserRole::User).await.unwrap();
    let nobody = issue(stage, "d0", token("nobody")).await;
    assert_eq!(nobody, Err(Rejection::AccountNotFound { name: "nobody".to_owned() }));
    let made = issue(stage, "d1", token("bob")).await.unwrap();
    issue(stage, "d2", token("bob")).await.unwrap();
    issue(stage, "d3", Bearer::Session { user: "bob".to_owned(), method: LoginMethod::Password })
        .await
        .unwrap();
    issue(stage, "d4", token("ann")).await.unwrap();
    let found = stage.store.credential("d1".to_owned()).await.unwrap().unwrap();
    assert_eq!((found.credential.id, found.account.unwrap().name.as_str()), (made.id, "bob"));
    told(stage, AccountVerb::Revoke { id: made.id }).await.unwrap();
    assert!(!known(stage, "d1").await && known(stage, "d2").await);
    let change = AccountChange { password: Some(Secret::new("new")), ..AccountChange::default() };
    told(stage, AccountVerb::Change { name: "bob".to_owned(), change }).await.unwrap();
    assert!(!known(stage, "d3").await, "a new password ends sessions");
    assert!(known(stage, "d2").await, "and no tokens");
    told(stage, AccountVerb::Remove { name: "bob".to_owned() }).await.unwrap();
    assert!(!known(stage, "d2").await && known(stage, "d4").await);
}

pub async fn a_join_token_is_used_as_often_as_it_may_be(stage: &Stage) {
    let tags = Some(vec!["gpu".to_owned()]);
    issue(stage, "join", Bearer::Join { uses: 2, tags: tags.clone() }).await.unwrap();
    let key = join(stage, "join", "k1", "w1").await.unwrap();
    assert_eq!(key.bearer, Bearer::Worker { worker: WorkerId::new("w1"), tags });
    let twice = join(stage, "join", "k2", "w1").await;
    assert_eq!(twice, Err(Rejection::WorkerHasKey { worker: WorkerId::new("w1") }));
    join(stage, "join", "k2", "w2").await.unwrap();
    let third = join(stage, "join", "k3", "w3").await;
    assert_eq!(third, Err(Rejection::CannotJoin { cause: Worthless::UsedUp }));
    let wrong = join(stage, "k1", "k3", "w3").await;
    assert_eq!(wrong, Err(Rejection::CannotJoin { cause: Worthless::Unknown }));
    let unknown = join(stage, "none", "k3", "w3").await;
    assert_eq!(unknown, Err(Rejection::CannotJoin { cause: Worthless::Unknown }));
    assert!(!known(stage, "k3").await);
}

pub async fn a_rotated_key_is_good_for_a_while(stage: &Stage) {
    issue(stage, "join", Bearer::Join { uses: 1, tags: None }).await.unwrap();
    join(stage, "join", "old", "w1").await.unwrap();
    let id = CredentialId::from_uuid(stage.new_id().as_uuid());
    let overlap = Span::from_secs(60);
    let verb = AccountVerb::Rotate { old: "old".to_owned(), new: "new".to_owned(), id, overlap };
    told(stage, verb).await.unwrap();
    let good = async |digest: &str| {
        let found = stage.store.credential(digest.to_owned()).await.unwrap().unwrap();
        found.credential.principal(None, stage.now()).is_ok()
    };
    assert!(good("old").await && good("new").await);
    stage.advance(overlap);
    assert!(!good("old").await && good("new").await);
    told(stage, AccountVerb::Revoke { id }).await.unwrap();
    assert!(!known(stage, "old").await && !known(stage, "new").await, "both go");
}

pub async fn a_revoked_worker_holds_nothing(stage: &Stage) {
    issue(stage, "join", Bearer::Join { uses: 3, tags: None }).await.unwrap();
    let key = join(stage, "join", "k1", "w1").await.unwrap();
    join(stage, "join", "k2", "w2").await.unwrap();
    stage.register("w1", super::stage::memory(100), None).await;
    stage.register("w2", super::stage::memory(100), None).await;
    let (one, other) = (stage.shell("one").await, stage.shell("other").await);
    let held = stage.claim_by("w1").await.unwrap();
    assert_eq!(held.id, one.id);
    assert_eq!(stage.claim_by("w2").await.unwrap().id, other.id);
    told(stage, AccountVerb::Revoke { id: key.id }).await.unwrap();
    assert_eq!(stage.status(one.id).await, Status::Pending);
    assert_eq!(stage.status(other.id).await, Status::Running, "of another worker");
    let late = Caller { lease: Some(held.lease), worker: Some(WorkerId::new("w1")) };
    stage.report_as(one.id, late, ReportKind::Done).await.unwrap_err();
    assert_eq!(stage.status(one.id).await, Status::Pending);
    assert_eq!(stage.claim_by("w1").await, None, "a claim that waited gets nothing");
    join(stage, "join", "k3", "w1").await.unwrap();
    assert_eq!(stage.claim_by("w1").await.unwrap().id, one.id, "with a new key it is back");
    stage.check().await;
}

pub async fn every_change_leaves_a_line(stage: &Stage) {
    create(stage, "ann", UserRole::Admin).await.unwrap();
    create(stage, "ann", UserRole::Admin).await.unwrap_err();
    stage.advance(Span::from_secs(10));
    let made = issue(stage, "d1", token("ann")).await.unwrap();
    told(stage, AccountVerb::Used { digest: "d1".to_owned() }).await.unwrap();
    told(stage, AccountVerb::Revoke { id: made.id }).await.unwrap();
    let action = "login.refused".to_owned();
    told(stage, AccountVerb::Note { action, object: Some("bob".to_owned()) }).await.unwrap();
    let all = AuditFilter { limit: 10, ..AuditFilter::default() };
    let lines = stage.store.audit(all).await.unwrap();
    let seen: Vec<&str> = lines.iter().map(|line| line.deed.action.as_str()).collect();
    assert_eq!(seen, ["login.refused", "credential.revoke", "token.create", "user.create"]);
    assert!(lines.iter().all(|line| line.deed.by.name == "root"));
    let page = AuditFilter { before_seq: Some(lines[1].seq), limit: 1, since: None };
    assert_eq!(stage.store.audit(page).await.unwrap()[0].deed.action, "token.create");
    let recent = AuditFilter { since: Some(stage.now()), ..all };
    assert_eq!(stage.store.audit(recent).await.unwrap().len(), 3);
    let forget = AccountVerb::ForgetAudit { before: stage.now(), limit: 100 };
    assert_eq!(told(stage, forget).await, Ok(AccountOutcome::Forgotten(1)));
    assert_eq!(stage.store.audit(all).await.unwrap().len(), 3);
}

fn subject(text: &str) -> OidcSubject {
    OidcSubject { issuer: "https://sso.example".to_owned(), subject: text.to_owned() }
}

/// Somebody logs in at the provider; the session is kept under `digest`.
async fn sign_in(
    stage: &Stage,
    digest: &str,
    who: (&str, &str),
    role: UserRole,
) -> Result<(Credential, Change), Rejection> {
    let sign_in = SignIn { subject: subject(who.0), name: who.1.to_owned(), role };
    let bearer = Bearer::Session { user: String::new(), method: LoginMethod::Oidc };
    let verb =
        AccountVerb::SignIn { sign_in, digest: digest.to_owned(), credential: credential(stage, "", bearer) };
    match told(stage, verb).await? {
        AccountOutcome::SignedIn { credential, change } => Ok((*credential, change)),
        other => panic!("{other:?}"),
    }
}

pub async fn a_login_at_a_provider_finds_or_makes_its_account(stage: &Stage) {
    create(stage, "root", UserRole::Admin).await.unwrap();
    let (session, change) = sign_in(stage, "d1", ("s1", "ann"), UserRole::User).await.unwrap();
    assert_eq!((session.bearer.user(), change), (Some("ann"), Change::Made));
    let found = stage.store.credential("d1".to_owned()).await.unwrap().unwrap();
    let ann = found.account.unwrap();
    assert_eq!((ann.role, ann.oidc, ann.password), (UserRole::User, Some(subject("s1")), None));
    let (session, change) = sign_in(stage, "d2", ("s1", "anna"), UserRole::Operator).await.unwrap();
    assert_eq!((session.name.as_str(), change), ("ann", Change::Updated), "the name does not follow");
    assert_eq!(stage.store.account("ann".to_owned()).await.unwrap().unwrap().role, UserRole::Operator);
    let (_, change) = sign_in(stage, "d3", ("s1", "ann"), UserRole::Operator).await.unwrap();
    assert_eq!(change, Change::Nothing);
    for (digest, who) in [("d4", ("s2", "ann")), ("d5", ("s2", "root"))] {
        let refused = sign_in(stage, digest, who, UserRole::Admin).await.unwrap_err();
        let wanted = Rejection::AccountNotLinked { name: who.1.to_owned(), subject: "s2".to_owned() };
        assert_eq!(refused, wanted);
        assert!(!known(stage, digest).await);
    }
    let lines = stage.store.audit(AuditFilter { limit: 10, ..AuditFilter::default() }).await.unwrap();
    let seen: Vec<&str> = lines.iter().map(|line| line.deed.action.as_str()).collect();
    assert_eq!(seen, ["login", "login", "user.change", "login", "user.create", "user.create"]);
    assert_eq!(lines[0].deed.object.as_deref(), Some("ann"));
}

pub async fn an_account_is_linked_to_one_subject(stage: &Stage) {
    create(stage, "root", UserRole::Admin).await.unwrap();
    create(stage, "ann", UserRole::User).await.unwrap();
    create(stage, "bob", UserRole::User).await.unwrap();
    let link = async |name: &str, to: Option<OidcSubject>| {
        let change = AccountChange { oidc: Some(to), ..AccountChange::default() };
        told(stage, AccountVerb::Change { name: name.to_owned(), change }).await
    };
    link("ann", Some(subject("s1"))).await.unwrap();
    link("ann", Some(subject("s1"))).await.unwrap();
    let taken = link("bob", Some(subject("s1"))).await;
    assert_eq!(taken, Err(Rejection::SubjectTaken { name: "ann".to_owned() }));
    issue(stage, "d0", Bearer::Session { user: "ann".to_owned(), method: LoginMethod::Password })
        .await
        .unwrap();
    sign_in(stage, "d1", ("s1", "whoever"), UserRole::User).await.unwrap();
    link("ann", None).await.unwrap();
    assert!(!known(stage, "d1").await, "the sessions of the former subject end");
    assert!(known(stage, "d0").await, "and no others");
    sign_in(stage, "d2", ("s1", "ann"), UserRole::User).await.unwrap_err();
    link("root", Some(subject("s1"))).await.unwrap();
    let last = sign_in(stage, "d3", ("s1", "root"), UserRole::User).await;
    assert_eq!(last, Err(Rejection::LastAdmin { name: "root".to_owned() }));
    let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
    link("bob", Some(subject("s2"))).await.unwrap();
    told(stage, AccountVerb::Change { name: "bob".to_owned(), change }).await.unwrap();
    let refused = sign_in(stage, "d4", ("s2", "bob"), UserRole::User).await;
    assert_eq!(refused, Err(Rejection::AccountDisabled { name: "bob".to_owned() }));
}
