//! Artifacts of needed jobs: fetched before the attempt has a process, and put where it finds them.
//!
//! Guarantees: an attempt starts with all artifacts that it asked for or not at all; each has the digest that the scheduler names;
//! what is missing for good fails the job at once and is named; what may come back is waited for at no cost.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use muster_client::Client;
use muster_protocol::InputFile;
use muster_upload::{Hasher, check_path};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;

use super::upload::{Failure, blocking, insist};
use super::{Cost, Unready};
use crate::job_user::acting_as;
use crate::keeper::StartSpec;
use crate::uploads::{Place, Placing};

/// The status of what will not come back.
const GONE: u16 = 410;
/// Files that are fetched at the same time for one attempt.
const AT_ONCE: usize = 4;

/// Puts all artifacts that the job asked for where it finds them.
pub(super) async fn fetch(client: &Client, spec: &StartSpec, place: &Place) -> Result<(), Unready> {
    let job = &*spec.key.job_id;
    let listed = insist(|| async { client.job_inputs(job).await.map_err(Failure::Call) }).await;
    let files = listed.map_err(|failure| unready(failure, "the artifacts of needed jobs"))?.files;
    check(&files)?;
    let place = Arc::new(place.clone());
    let each = futures::stream::iter(files).map(|file| one(client, job, file, Arc::clone(&place)));
    each.buffer_unordered(AT_ONCE).try_collect().await
}

/// Refuses what leads elsewhere, and two files for one place. The scheduler has checked the names; but it is this machine that
/// files are made on.
fn check(files: &[InputFile]) -> Result<(), Unready> {
    let refuse = |message: String| Err(Unready { message, cost: Cost::Final });
    let mut places: BTreeSet<&str> = BTreeSet::new();
    for file in files {
        if let Err(error) = check_path(&file.path) {
            return refuse(format!("the artifact {} cannot be put there: {error}", file.name));
        }
        if !places.insert(&file.path) {
            let path = &file.path;
            return refuse(format!(
                "two inputs of the job would be {path:?}: say with `to` where each of them goes"
            ));
        }
    }
    for path in &places {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]).find(|above| places.contains(above));
        if let Some(above) = above {
            let message = format!(
                "one input of the job would be {above:?} and another {path:?}: say with `to` where each of them goes"
            );
            return refuse(message);
        }
    }
    Ok(())
}

/// A file on its way.
struct Partial {
    file: tokio::fs::File,
    digest: Hasher,
    length: u64,
}

async fn one(client: &Client, job: &str, input: InputFile, place: Arc<Place>) -> Result<(), Unready> {
    let path = input.path.clone();
    let created = tokio::task::spawn_blocking(move || place.create(&path)).await;
    let created = created.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
    let file = created.map_err(|error| {
        let cost = if matches!(error, Placing::Taken(_)) { Cost::Final } else { Cost::Attempt };
        Unready {
            message: format!("the artifact {} cannot be put at {:?}: {error}", input.name, input.path),
            cost,
        }
    })?;
    let partial = Partial { file: tokio::fs::File::from_std(file), digest: Hasher::default(), length: 0 };
    // What has come stays when a connection breaks off.
    let partial = Mutex::new(partial);
    let fetched = insist(|| async { go_on(client, job, &input, &mut *partial.lock().await).await }).await;
    fetched.map_err(|failure| unready(failure, &format!("the artifact {} of {}", input.name, input.from)))
}

/// Fetches what is missing of a file.
async fn go_on(client: &Client, job: &str, input: &InputFile, partial: &mut Partial) -> Result<(), Failure> {
    if partial.length < input.size {
        let reader = client.job_input(job, input, partial.length).await.map_err(Failure::Call)?;
        let mut reader = reader.ok_or(Failure::Wrong("it is shorter than it was"))?;
        while let Some(piece) = reader.next().await.map_err(Failure::Call)? {
            partial.file.write_all(&piece).await.map_err(Failure::File)?;
            partial.digest.update(&piece);
            partial.length += piece.len() as u64;
        }
    }
    if partial.length < input.size {
        return Err(Failure::Wrong("it broke off"));
    }
    partial.file.flush().await.map_err(Failure::File)?;
    let digest = std::mem::take(&mut partial.digest).finish().to_string();
    if digest == input.sha256 && partial.length == input.size {
        return Ok(());
    }
    partial.length = 0;
    partial.file.set_len(0).await.map_err(Failure::File)?;
    partial.file.rewind().await.map_err(Failure::File)?;
    Err(Failure::Wrong("it has another SHA-256 than it should have"))
}

fn unready(failure: Failure, what: &str) -> Unready {
    let (message, cost) = match failure {
        Failure::Call(error) if error.status().is_some_and(|status| status.as_u16() == GONE) => {
            (format!("an input of the job is missing: {error}"), Cost::Final)
        }
        Failure::Call(error) => {
            let cost = if error.is_transient() { Cost::Free } else { Cost::Attempt };
            (format!("{what} cannot be fetched: {error}"), cost)
        }
        Failure::Damaged(error) => (format!("{what} cannot be fetched: {error}"), Cost::Attempt),
        Failure::Wrong(why) => (format!("{what} cannot be fetched: {why}"), Cost::Attempt),
        Failure::File(error) => (format!("{what} cannot be written here: {error}"), Cost::Attempt),
    };
    Unready { message, cost }
}

/// Makes the directory that artifacts are put into, unless they go into the copy of an upload.
pub(super) async fn make(place: &Place, room: &crate::attempt_room::AttemptRoom) -> Result<(), Unready> {
    if place.is_copy {
        return Ok(());
    }
    let (room, is_contained, user) = (room.clone(), place.is_contained, place.user.clone());
    let made = blocking(move || {
        let directory = acting_as(user.as_ref(), || room.make_inputs())?;
        if is_contained { crate::uploads::open_to_all(&directory) } else { Ok(()) }
    });
    made.await.map_err(|failure| unready(failure, "the directory of artifacts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<InputFile> {
        paths.iter().map(|path| InputFile { path: (*path).to_owned(), ..InputFile::default() }).collect()
    }

    #[test]
    fn every_file_has_a_place_of_its_own_inside() {
        assert_eq!(check(&files(&["a", "b/c", "b/d", "bb"])), Ok(()));
        for wrong in [&["a", "a"][..], &["a/b", "a"], &["a", "a-b", "a/b"], &["../x"], &["/x"], &["a/../x"]] {
            let unready = check(&files(wrong)).unwrap_err();
            assert_eq!(unready.cost, Cost::Final, "{wrong:?}");
        }
    }
}
