//! Objects as files below one directory.
//!
//! Guarantee: an object appears under its name whole, flushed to disk together with the name, or not at all.

use std::fs::Metadata;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::digest::Tally;
use crate::error::BlobError;
use crate::key::BlobKey;
use crate::store::{ByteRange, Content, Expected, Listed, Listing, Reader, Stored};

/// Below it files are written until they are whole. Its name is no key, since keys have no `~`.
const UNFINISHED: &str = "~unfinished";
/// Bytes that are read, or collected before they are written, at a time.
const PIECE: usize = 256 * 1024;
/// How often a directory is made again that somebody removed because it was empty.
const ATTEMPTS: usize = 8;

#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
}

fn during(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BlobError {
    let path = path.to_owned();
    move |source| BlobError::Directory { operation, path, source }
}

impl Directory {
    pub(crate) fn open(root: &Path) -> Result<Self, BlobError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let unfinished = root.join(UNFINISHED);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&unfinished);
        made.map_err(during("make the directory", &unfinished))?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }

    fn place(&self, key: &BlobKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    pub(crate) async fn put(
        &self,
        key: &BlobKey,
        content: Content<'_>,
        expected: Expected,
    ) -> Result<Stored, BlobError> {
        let path = self.root.join(UNFINISHED).join(format!("{:032x}", rand::random::<u128>()));
        // Removed at every end but a good one, also when nobody waits for it any longer.
        let mut half = Unfinished { path: Some(path.clone()) };
        let stored = write(&path, content, expected).await?;
        self.publish(&path, key).await?;
        half.path = None;
        Ok(stored)
    }

    /// Gives a finished file its name, for good.
    async fn publish(&self, from: &Path, key: &BlobKey) -> Result<(), BlobError> {
        let to = self.place(key);
        let parent = to.parent().unwrap_or(&self.root).to_owned();
        for attempt in 1.. {
            self.make_parents(&parent).await?;
            match fs::rename(from, &to).await {
                Ok(()) => break,
                // Somebody removed the directory while it was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < ATTEMPTS => {}
                Err(error) => return Err(during("keep", &to)(error)),
            }
        }
        sync(&parent).await
    }

    /// Makes the directories that are missing, each known to its parent for good.
    async fn make_parents(&self, parent: &Path) -> Result<(), BlobError> {
        if fs::try_exists(parent).await.unwrap_or(false) {
            return Ok(());
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).await;
        made.map_err(during("make the directory", parent))?;
        for above in parent.ancestors().skip(1).take_while(|above| above.starts_with(&self.root)) {
            match sync(above).await {
                Err(BlobError::Directory { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    pub(crate) async fn get(&self, key: &BlobKey, range: ByteRange) -> Result<Reader, BlobError> {
        let path = self.place(key);
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::NotFound { key: key.clone() },
            _ => during("open", &path)(error),
        };
        let mut file = File::open(&path).await.map_err(missing)?;
        let size = file.metadata().await.map_err(during("look at", &path))?.len();
        let start = range.start.min(size);
        let end = range.end.unwrap_or(size).clamp(start, size);
        if start > 0 {
            file.seek(SeekFrom::Start(start)).await.map_err(during("read", &path))?;
        }
        let pieces = futures::stream::unfold(Some((file, end - start)), move |state| {
            let path = path.clone();
            async move {
                let (mut file, left) = state.filter(|(_, left)| *left > 0)?;
                match read_piece(&mut file, left).await {
                    Ok(piece) => {
                        let left = left - piece.len() as u64;
                        Some((Ok(piece), Some((file, left))))
                    }
                    Err(error) => Some((Err(during("read", &path)(error)), None)),
                }
            }
        });
        Ok(Reader { size, body: pieces.boxed() })
    }

    pub(crate) async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        let path = self.place(key);
        match fs::metadata(&path).await {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(_) => Ok(None),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(during("look at", &path)(error)),
        }
    }

    pub(crate) async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        let path = self.place(key);
        match fs::remove_file(&path).await {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(during("remove", &path)(error)),
        }
        // Directories that have become empty go too; one that is not empty stays.
        for above in path.ancestors().skip(1).take_while(|above| *above != self.root) {
            if fs::remove_dir(above).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) async fn list(
        &self,
        prefix: &str,
        from: Option<&str>,
        limit: usize,
    ) -> Result<Listing, BlobError> {
        let (root, prefix) = (self.root.clone(), prefix.to_owned());
        // The last key of the page before.
        let after = from.unwrap_or_default().to_owned();
        let walk = move || {
            let mut walk = Walk { prefix, after, limit, listing: Listing::default() };
            // From the folder that the prefix names: the others need not be looked at.
            let folder = walk.prefix.rfind('/').map_or(String::new(), |end| walk.prefix[..=end].to_owned());
            let start = root.join(&folder);
            walk.enter(&start, &folder).map(|()| walk.listing)
        };
        match tokio::task::spawn_blocking(walk).await {
            Ok(listing) => listing,
            Err(error) => Err(during("list", &self.root)(io::Error::other(error))),
        }
    }

    pub(crate) async fn sweep_unfinished(&self, before: SystemTime) -> Result<u32, BlobError> {
        let directory = self.root.join(UNFINISHED);
        let mut entries = fs::read_dir(&directory).await.map_err(during("list", &directory))?;
        let mut swept = 0;
        while let Some(entry) = entries.next_entry().await.map_err(during("list", &directory))? {
            // Files come and go while they are listed.
            let Ok(metadata) = entry.metadata().await else { continue };
            if metadata.modified().is_ok_and(|modified| modified < before)
                && fs::remove_file(entry.path()).await.is_ok()
            {
                swept += 1;
            }
        }
        Ok(swept)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A file that is not whole yet.
struct Unfinished {
    path: Option<PathBuf>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // What stays is swept later.
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn write(path: &Path, mut content: Content<'_>, expected: Expected) -> Result<Stored, BlobError> {
    let created = File::options().write(true).create_new(true).mode(0o600).open(path).await;
    let mut file = created.map_err(during("write", path))?;
    let mut tally = Tally::default();
    while let Some(piece) = content.next().await {
        let piece = piece.map_err(BlobError::Source)?;
        tally.add(&piece);
        expected.check_so_far(tally.size())?;
        file.write_all(&piece).await.map_err(during("write", path))?;
    }
    let (size, sha256) = tally.finish();
    expected.check(size, sha256)?;
    file.sync_all().await.map_err(during("write", path))?;
    Ok(Stored { size, sha256 })
}

async fn sync(directory: &Path) -> Result<(), BlobError> {
    let opened = File::open(directory).await.map_err(during("flush", directory))?;
    opened.sync_all().await.map_err(during("flush", directory))
}

/// The next bytes, and never more than are left.
async fn read_piece(file: &mut File, left: u64) -> io::Result<Bytes> {
    let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
    let mut piece = BytesMut::with_capacity(most);
    let read = file.take(most as u64).read_buf(&mut piece).await?;
    if read == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was read",
        ));
    }
    Ok(piece.freeze())
}

/// One page of a list, depth first, in the order of keys.
struct Walk {
    prefix: String,
    after: String,
    limit: usize,
    listing: Listing,
}

impl Walk {
    /// `at` is the key of the directory with a slash behind it.
    fn enter(&mut self, directory: &Path, at: &str) -> Result<(), BlobError> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(during("list", directory)(error)),
        };
        // A directory is in order as what its keys begin with.
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(during("list", directory))?;
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
            let slash = if kind.is_dir() { "/" } else { "" };
            names.push(format!("{at}{name}{slash}"));
        }
        names.sort_unstable();
        for name in names {
            if self.listing.next.is_some() {
                break;
            }
            if name.ends_with('/') {
                if self.may_have(&name) {
                    self.enter(&directory.join(&name[at.len()..name.len() - 1]), &name)?;
                }
            } else if name.starts_with(&self.prefix) && name > self.after {
                self.add(&directory.join(&name[at.len()..]), name);
            }
        }
        Ok(())
    }

    /// Whether a directory can hold keys that are asked for.
    fn may_have(&self, at: &str) -> bool {
        let fits = at.starts_with(&self.prefix) || self.prefix.starts_with(at);
        // All keys in it come before `after`, unless that one lies in it too.
        fits && (at > self.after.as_str() || self.after.starts_with(at))
    }

    fn add(&mut self, path: &Path, name: String) {
        // It may have gone by now; and what is no key is not ours.
        let (Ok(metadata), Ok(key)) = (std::fs::symlink_metadata(path), BlobKey::new(name)) else { return };
        if !metadata.is_file() {
            return;
        }
        if self.listing.objects.len() == self.limit {
            self.listing.next = self.listing.objects.last().map(|object| object.key.as_str().to_owned());
            return;
        }
        self.listing.objects.push(Listed { key, size: metadata.len(), modified: modified(&metadata) });
    }
}

fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}
