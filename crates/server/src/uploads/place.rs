//! The names of uploads and their chunks in the blob store.

use muster_blob::BlobKey;
use muster_domain::UploadRef;
use muster_domain::access::Principal;
use muster_upload::Digest;

use crate::error::ApiError;

/// The space of everyone, where nobody has an account.
const SHARED: &str = "shared";
/// Bytes of the digest of a name that tell users apart.
const NAME_DIGITS: usize = 32;

/// The space of a caller.
pub(crate) fn space_of(principal: &Principal) -> String {
    match principal {
        Principal::User { name, .. } => {
            let digest = Digest::of(name.as_bytes()).to_string();
            format!("user-{}", &digest[..NAME_DIGITS])
        }
        _ => SHARED.to_owned(),
    }
}

/// What everything of uploads begins with.
pub(crate) const fn prefix() -> &'static str {
    "uploads/"
}

fn key(text: String) -> Result<BlobKey, ApiError> {
    BlobKey::new(text).map_err(|_| ApiError::internal())
}

pub(crate) fn manifest_key(upload: &UploadRef) -> Result<BlobKey, ApiError> {
    key(format!("{}{}/manifests/{}", prefix(), upload.space, upload.id))
}

pub(crate) fn chunk_key(space: &str, digest: &Digest) -> Result<BlobKey, ApiError> {
    let digest = digest.to_string();
    key(format!("{}{space}/chunks/{}/{digest}", prefix(), &digest[..2]))
}

/// The upload whose manifest this is.
pub(crate) fn upload_of(key: &BlobKey) -> Option<UploadRef> {
    match parts(key)?.as_slice() {
        [space, "manifests", id] => {
            Some(UploadRef { space: (*space).to_owned(), id: id.parse::<Digest>().ok()?.to_string() })
        }
        _ => None,
    }
}

/// The space and the digest of a chunk.
pub(crate) fn digest_of(key: &BlobKey) -> Option<(String, Digest)> {
    match parts(key)?.as_slice() {
        [space, "chunks", _, digest] => Some(((*space).to_owned(), digest.parse().ok()?)),
        _ => None,
    }
}

fn parts(key: &BlobKey) -> Option<Vec<&str>> {
    Some(key.as_str().strip_prefix(prefix())?.split('/').collect())
}

#[cfg(test)]
mod tests {
    use muster_domain::access::UserRole;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let user = |name: &str| Principal::User { name: name.into(), role: UserRole::User, queues: None };
        let space = space_of(&user("../ada"));
        assert_ne!(space, space_of(&user("bob")));
        assert_eq!(space_of(&Principal::Local), "shared");
        let digest = Digest::of(b"x");
        let upload = UploadRef { space: space.clone(), id: digest.to_string() };
        assert_eq!(upload_of(&manifest_key(&upload).unwrap()), Some(upload.clone()));
        let chunk = chunk_key(&space, &digest).unwrap();
        assert_eq!(digest_of(&chunk), Some((space, digest)));
        assert_eq!(upload_of(&chunk), None);
        assert_eq!(digest_of(&manifest_key(&upload).unwrap()), None);
        assert_eq!(digest_of(&BlobKey::new("artifacts/a").unwrap()), None);
    }
}
