//! The one interface to both forms.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::digest::Sha256;
use crate::directory::Directory;
use crate::error::{BlobError, BoxError};
use crate::figures::{Figures, Operation};
use crate::key::BlobKey;
use crate::s3::Bucket;
use crate::settings::BlobSettings;

/// Content on its way in, in pieces of any size.
pub type Content<'a> = BoxStream<'a, Result<Bytes, BoxError>>;

/// What content was announced to be. What is said is checked before the object is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    pub size: Option<u64>,
    pub sha256: Option<Sha256>,
}

impl Expected {
    pub(crate) fn check(&self, size: u64, sha256: Sha256) -> Result<(), BlobError> {
        if let Some(expected) = self.size.filter(|expected| *expected != size) {
            return Err(BlobError::WrongLength { expected, found: size });
        }
        match self.sha256.filter(|expected| *expected != sha256) {
            Some(expected) => Err(BlobError::WrongDigest { expected, found: sha256 }),
            None => Ok(()),
        }
    }

    /// Whether so much has come that the end cannot be right.
    pub(crate) fn check_so_far(&self, size: u64) -> Result<(), BlobError> {
        match self.size.filter(|expected| size > *expected) {
            Some(expected) => Err(BlobError::WrongLength { expected, found: size }),
            None => Ok(()),
        }
    }
}

/// What content turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    pub size: u64,
    pub sha256: Sha256,
}

/// Bytes from `start` up to, and without, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    pub start: u64,
    /// `None` for all that follow.
    pub end: Option<u64>,
}

/// An object on its way out.
pub struct Reader {
    /// Of the whole object.
    pub size: u64,
    /// The bytes that were asked for; none where the range lies beyond the end.
    pub body: BoxStream<'static, Result<Bytes, BlobError>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Reader {
    /// All of it. For objects that are known to be small.
    pub async fn collect(mut self) -> Result<Vec<u8>, BlobError> {
        let mut all = Vec::new();
        while let Some(piece) = self.body.next().await {
            all.extend_from_slice(&piece?);
        }
        Ok(all)
    }
}

/// An object as a list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub key: BlobKey,
    pub size: u64,
    pub modified: SystemTime,
}

/// A page of a list, in an order of the store's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub objects: Vec<Listed>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<String>,
}

/// How a link to an object is to be answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presigned {
    pub expires: Duration,
    pub content_type: Option<String>,
    /// A whole `Content-Disposition`.
    pub disposition: Option<String>,
}

#[derive(Debug)]
enum Form {
    Directory(Directory),
    S3(Arc<Bucket>),
}

/// Large objects by key. Clones are handles to the same store.
#[derive(Debug, Clone)]
pub struct BlobStore {
    form: Arc<Form>,
    figures: Arc<Figures>,
}

impl BlobStore {
    /// Makes the directory, or reads what is needed to reach the bucket. Nothing is sent yet; see [`probe`](Self::probe).
    pub fn open(settings: &BlobSettings) -> Result<Self, BlobError> {
        let form = match settings {
            BlobSettings::Directory(path) => Form::Directory(Directory::open(path)?),
            BlobSettings::S3 { bucket, prefix, settings } => {
                Form::S3(Arc::new(Bucket::open(bucket, prefix, settings)?))
            }
        };
        Ok(Self { form: Arc::new(form), figures: Arc::default() })
    }

    /// Where it is, for people.
    pub fn place(&self) -> String {
        match &*self.form {
            Form::Directory(directory) => directory.path().display().to_string(),
            Form::S3(bucket) => bucket.place(),
        }
    }

    /// Whether others can be given links that lead to the store itself.
    pub fn is_direct(&self) -> bool {
        matches!(&*self.form, Form::S3(_))
    }

    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Writes, reads and removes a small object.
    pub async fn probe(&self) -> Result<(), BlobError> {
        let name = format!("probe/{:016x}", rand::random::<u64>());
        let Ok(key) = BlobKey::new(name) else { return Ok(()) };
        let content = b"muster";
        self.put_bytes(&key, Bytes::from_static(content)).await?;
        let read = self.get(&key, None).await?.collect().await;
        let removed = self.delete(&key).await;
        let found = read?;
        Expected { size: Some(content.len() as u64), sha256: Some(Sha256::of(content)) }
            .check(found.len() as u64, Sha256::of(&found))?;
        removed
    }

    /// Keeps the content under the key, and returns when it is on disk. What was there before is replaced.
    pub async fn put(
        &self,
        key: &BlobKey,
        content: Content<'_>,
        expected: Expected,
    ) -> Result<Stored, BlobError> {
        let put = async {
            match &*self.form {
                Form::Directory(directory) => directory.put(key, content, expected).await,
                Form::S3(bucket) => bucket.put(key, content, expected).await,
            }
        };
        let stored = self.timed(Operation::Put, put).await?;
        self.figures.note_written(stored.size);
        Ok(stored)
    }

    /// Keeps bytes that are in memory.
    pub async fn put_bytes(&self, key: &BlobKey, bytes: Bytes) -> Result<Stored, BlobError> {
        let expected = Expected { size: Some(bytes.len() as u64), sha256: None };
        self.put(key, futures::stream::iter([Ok(bytes)]).boxed(), expected).await
    }

    /// The object, or a part of it.
    pub async fn get(&self, key: &BlobKey, range: Option<ByteRange>) -> Result<Reader, BlobError> {
        let range = range.unwrap_or(ByteRange { start: 0, end: None });
        let get = async {
            match &*self.form {
                Form::Directory(directory) => directory.get(key, range).await,
                Form::S3(bucket) => bucket.get(key, range).await,
            }
        };
        let mut reader = self.timed(Operation::Get, get).await?;
        let figures = Arc::clone(&self.figures);
        let body = reader.body.inspect(move |piece| {
            figures.note_read(piece.as_ref().map_or(0, |piece| piece.len() as u64));
        });
        reader.body = body.boxed();
        Ok(reader)
    }

    /// The size of an object; `None` when it is not there.
    pub async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        let ask = async {
            match &*self.form {
                Form::Directory(directory) => directory.size(key).await,
                Form::S3(bucket) => bucket.size(key).await,
            }
        };
        self.timed(Operation::Get, ask).await
    }

    /// Removes the object. One that is not there is removed already.
    pub async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        let delete = async {
            match &*self.form {
                Form::Directory(directory) => directory.delete(key).await,
                Form::S3(bucket) => bucket.delete(key).await,
            }
        };
        self.timed(Operation::Delete, delete).await
    }

    /// Objects whose keys begin with `prefix`, each once: the first page, or the one that begins where `from` says.
    pub async fn list(&self, prefix: &str, from: Option<&str>, limit: usize) -> Result<Listing, BlobError> {
        let list = async {
            match &*self.form {
                Form::Directory(directory) => directory.list(prefix, from, limit).await,
                Form::S3(bucket) => bucket.list(prefix, from, limit).await,
            }
        };
        self.timed(Operation::List, list).await
    }

    /// Removes what was begun before `before` and never completed: half-written files, uploads in parts of which not
    /// all came. Says how many.
    pub async fn sweep_unfinished(&self, before: SystemTime) -> Result<u32, BlobError> {
        let sweep = async {
            match &*self.form {
                Form::Directory(directory) => directory.sweep_unfinished(before).await,
                Form::S3(bucket) => bucket.sweep_unfinished(before).await,
            }
        };
        self.timed(Operation::Delete, sweep).await
    }

    /// A link with which anybody reads the object until it expires; `None` where links cannot lead to the store.
    pub fn presigned_get(&self, key: &BlobKey, link: &Presigned) -> Option<String> {
        self.bucket().map(|bucket| bucket.presigned_get(key, link))
    }

    pub(crate) fn bucket(&self) -> Option<&Bucket> {
        match &*self.form {
            Form::Directory(_) => None,
            Form::S3(bucket) => Some(bucket),
        }
    }

    /// Counts the operation. A fault of the content is none of the store.
    pub(crate) async fn timed<T>(
        &self,
        operation: Operation,
        done: impl Future<Output = Result<T, BlobError>>,
    ) -> Result<T, BlobError> {
        let started = Instant::now();
        let outcome = done.await;
        let failed = outcome
            .as_ref()
            .is_err_and(|error| !error.is_of_the_content() && !matches!(error, BlobError::NotFound { .. }));
        self.figures.note(operation, failed, started.elapsed());
        outcome
    }
}
