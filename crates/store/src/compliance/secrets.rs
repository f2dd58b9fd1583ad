//! Sealed secrets: versions follow one another, and the keys of workers replace those said before.

use muster_domain::{QueueName, Rejection, SealedBox, SealedSecret, SealingKey, WorkerId};

use super::stage::Stage;
use crate::command::{Command, Outcome};
use crate::secrets::{SecretCommand, SecretOutcome};
use crate::store::StoreExt;

async fn change(stage: &Stage, command: SecretCommand) -> Result<SecretOutcome, Rejection> {
    match stage.one(Command::Secrets(command)).await? {
        Outcome::Secrets(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

fn secret(name: &str, version: u64) -> SealedSecret {
    SealedSecret {
        name: name.to_owned(),
        queue: Some(QueueName::new("ml")),
        owner: None,
        version,
        boxes: vec![SealedBox { key: "0123456789abcdef".into(), sealed: format!("box {version} \u{1f980}") }],
        updated_at: muster_domain::Timestamp::from_micros(1),
    }
}

async fn put(stage: &Stage, name: &str, version: u64) -> Result<SealedSecret, Rejection> {
    match change(stage, SecretCommand::Put(secret(name, version))).await? {
        SecretOutcome::Stored(secret) => Ok(*secret),
        other => panic!("{other:?}"),
    }
}

async fn listed(stage: &Stage, names: Option<&[&str]>) -> Vec<(String, u64)> {
    let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let found = stage.store.secrets(names).await.unwrap();
    found.into_iter().map(|secret| (secret.name, secret.version)).collect()
}

pub async fn versions_of_a_secret_follow_one_another(stage: &Stage) {
    let refused = |given, current| Err(Rejection::SecretVersion { name: "token".into(), given, current });
    assert_eq!(put(stage, "token", 2).await, refused(2, 0));
    assert_eq!(put(stage, "token", 0).await, refused(0, 0));
    let first = put(stage, "token", 1).await.unwrap();
    assert_eq!(first, SealedSecret { updated_at: stage.now(), ..secret("token", 1) });
    assert_eq!(put(stage, "token", 1).await, refused(1, 1));
    assert_eq!(put(stage, "token", 3).await, refused(3, 1));
    put(stage, "token", 2).await.unwrap();
    put(stage, "db", 1).await.unwrap();
    assert_eq!(listed(stage, None).await, [("db".to_owned(), 1), ("token".to_owned(), 2)]);
    assert_eq!(listed(stage, Some(&["token", "none"])).await, [("token".to_owned(), 2)]);
    let boxes = &stage.store.secrets(Some(vec!["token".into()])).await.unwrap()[0].boxes;
    assert_eq!(*boxes, secret("token", 2).boxes);

    change(stage, SecretCommand::Delete { name: "token".into() }).await.unwrap();
    let gone = change(stage, SecretCommand::Delete { name: "token".into() }).await;
    assert_eq!(gone, Err(Rejection::SecretNotFound { name: "token".into() }));
    assert_eq!(listed(stage, None).await, [("db".to_owned(), 1)]);
}

pub async fn of_two_changes_in_one_batch_one_is_refused(stage: &Stage) {
    let commands = [1, 1].map(|version| Command::Secrets(SecretCommand::Put(secret("token", version))));
    let answers = stage.apply(commands.to_vec()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert_eq!(listed(stage, None).await, [("token".to_owned(), 1)]);
}

pub async fn a_worker_says_all_its_keys_at_once(stage: &Stage) {
    let key = |id: &str| SealingKey { id: id.to_owned(), public_key: format!("public {id}") };
    let announce = |worker: &str, keys: Vec<SealingKey>| {
        change(stage, SecretCommand::Announce { worker: WorkerId::new(worker), keys })
    };
    announce("w1", vec![key("a"), key("b")]).await.unwrap();
    announce("w2", vec![key("a")]).await.unwrap();
    announce("w1", vec![key("b")]).await.unwrap();
    let all = stage.store.sealing_keys(None).await.unwrap();
    let all: Vec<_> = all.into_iter().map(|known| (known.worker, known.keys)).collect();
    assert_eq!(all, [(WorkerId::new("w1"), vec![key("b")]), (WorkerId::new("w2"), vec![key("a")])]);
    announce("w1", Vec::new()).await.unwrap();
    assert!(stage.store.sealing_keys(Some(WorkerId::new("w1"))).await.unwrap().is_empty());
    assert_eq!(stage.store.sealing_keys(Some(WorkerId::new("w2"))).await.unwrap()[0].keys, [key("a")]);
}
