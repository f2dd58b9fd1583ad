//! What both forms promise, checked on a directory and on a real S3 server.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::StreamExt as _;
use muster_s3_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed};
use tempfile::TempDir;

use crate::{
    BlobError, BlobKey, BlobSettings, BlobStore, BoxError, ByteRange, Content, Expected, Listing, Operation,
    S3Credentials, S3Settings, SentPart, Sha256,
};

const MIB: usize = 1024 * 1024;

struct Stage {
    store: BlobStore,
    directory: Option<TempDir>,
}

fn s3_settings(server: &Seaweed) -> S3Settings {
    let (access_key, secret_key) = (ACCESS_KEY.to_owned(), SECRET_KEY.to_owned());
    let credentials = S3Credentials { access_key, secret_key, session_token: None };
    S3Settings { part_size: 5 * MIB, ..S3Settings::new(Some(server.endpoint()), credentials) }
}

fn s3_store(server: &Seaweed, prefix: &str, change: impl FnOnce(&mut S3Settings)) -> BlobStore {
    let mut settings = s3_settings(server);
    change(&mut settings);
    let (bucket, prefix) = (BUCKET.to_owned(), prefix.to_owned());
    BlobStore::open(&BlobSettings::S3 { bucket, prefix, settings: Box::new(settings) }).unwrap()
}

/// Both forms, empty.
fn both() -> [Stage; 2] {
    let directory = TempDir::new().unwrap();
    let files = BlobStore::open(&BlobSettings::Directory(directory.path().join("blobs"))).unwrap();
    let prefix = format!("test-{:016x}", rand::random::<u64>());
    let bucket = s3_store(Seaweed::shared(), &prefix, |_| {});
    [Stage { store: files, directory: Some(directory) }, Stage { store: bucket, directory: None }]
}

fn key(text: &str) -> BlobKey {
    BlobKey::new(text).unwrap()
}

/// Pieces of odd sizes with bytes that differ, from a source that must not be asked again after its end.
fn pieces(size: usize) -> (Vec<u8>, Content<'static>) {
    let all: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
    let cut: Vec<Bytes> = all.chunks(77_777).map(Bytes::copy_from_slice).collect();
    let next = |mut rest: std::vec::IntoIter<Bytes>| async { Some((Ok(rest.next()?), rest)) };
    (all, futures::stream::unfold(cut.into_iter(), next).boxed())
}

/// In the order of keys: a page has one of the store's own.
fn keys(listing: &Listing) -> Vec<&str> {
    let mut keys: Vec<&str> = listing.objects.iter().map(|object| object.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn what_is_kept_is_read_again_whole_and_in_parts() {
    for Stage { store, .. } in &both() {
        for (name, size) in [("empty", 0), ("small", 1000), ("exact", 5 * MIB), ("large", 11 * MIB + 7)] {
            let (all, content) = pieces(size);
            let expected = Expected { size: Some(size as u64), sha256: Some(Sha256::of(&all)) };
            let stored = store.put(&key(name), content, expected).await.unwrap();
            assert_eq!((stored.size, stored.sha256), (size as u64, Sha256::of(&all)), "{name}");
            assert_eq!(store.size(&key(name)).await.unwrap(), Some(size as u64), "{name}");
            let read = store.get(&key(name), None).await.unwrap();
            assert_eq!(read.size, size as u64, "{name}");
            assert!(read.collect().await.unwrap() == all, "{name} in {}", store.place());
        }
        let (all, _) = pieces(11 * MIB + 7);
        for (start, end) in
            [(0, Some(10)), (9 * MIB, None), (5, Some(5)), (11 * MIB + 7, None), (20 * MIB, None)]
        {
            let range = ByteRange { start: start as u64, end: end.map(|end| end as u64) };
            let read = store.get(&key("large"), Some(range)).await.unwrap();
            assert_eq!(read.size, all.len() as u64, "{range:?}");
            let there = all.get(start..end.unwrap_or(all.len())).unwrap_or_default();
            assert!(read.collect().await.unwrap() == there, "{range:?} in {}", store.place());
        }
        assert!(
            store.figures().done(Operation::Put) == 4 && store.figures().bytes_written() > 16 * MIB as u64
        );
    }
}

#[tokio::test]
async fn content_that_is_not_what_was_announced_leaves_nothing() {
    for Stage { store, .. } in &both() {
        for size in [1000, 11 * MIB] {
            let announced = |size: usize| Expected { size: Some(size as u64), sha256: None };
            let too_long = store.put(&key("a/b"), pieces(size).1, announced(size - 1)).await;
            assert!(matches!(too_long, Err(BlobError::WrongLength { .. })), "{too_long:?}");
            let too_short = store.put(&key("a/b"), pieces(size).1, announced(size + 1)).await;
            assert!(matches!(too_short, Err(BlobError::WrongLength { .. })), "{too_short:?}");
            let other = Expected { size: None, sha256: Some(Sha256::of(b"other")) };
            let wrong = store.put(&key("a/b"), pieces(size).1, other).await;
            assert!(matches!(wrong, Err(BlobError::WrongDigest { .. })), "{wrong:?}");
            let broken = pieces(size).1.chain(futures::stream::iter([Err(BoxError::from("broke off"))]));
            let broken = store.put(&key("a/b"), broken.boxed(), Expected::default()).await;
            assert!(matches!(broken, Err(BlobError::Source(_))), "{broken:?}");
        }
        assert_eq!(store.size(&key("a/b")).await.unwrap(), None);
        assert!(matches!(store.get(&key("a/b"), None).await, Err(BlobError::NotFound { .. })));
        assert_eq!(store.list("", None, 10).await.unwrap(), Listing::default());
        // Nothing half-written is left to sweep either.
        let later = SystemTime::now() + Duration::from_secs(3600);
        assert_eq!(store.sweep_unfinished(later).await.unwrap(), 0, "{}", store.place());
        assert_eq!(store.figures().failed(Operation::Put), 0);
    }
}

#[tokio::test]
async fn lists_come_in_pages_and_deletion_is_repeatable() {
    for Stage { store, .. } in &both() {
        let names = ["a-b", "a.c/x", "a/1/x", "a/1/y", "a/2", "b/1"];
        for name in names.iter().rev() {
            store.put_bytes(&key(name), Bytes::from_static(b"x")).await.unwrap();
        }
        let all = store.list("", None, 100).await.unwrap();
        assert_eq!((keys(&all), &all.next), (names.to_vec(), &None), "{}", store.place());
        assert!(all.objects.iter().all(
            |object| object.size == 1 && object.modified > SystemTime::now() - Duration::from_secs(3600)
        ));
        assert_eq!(keys(&store.list("a/", None, 100).await.unwrap()), ["a/1/x", "a/1/y", "a/2"]);
        assert_eq!(keys(&store.list("a/1", None, 100).await.unwrap()), ["a/1/x", "a/1/y"]);
        assert_eq!(keys(&store.list("c", None, 100).await.unwrap()), [""; 0]);
        let mut seen = store.list("", None, 2).await.unwrap();
        while let Some(next) = seen.next.take() {
            let page = store.list("", Some(&next), 2).await.unwrap();
            assert!(page.objects.len() <= 2);
            seen = Listing { objects: [seen.objects, page.objects].concat(), next: page.next };
        }
        assert_eq!(keys(&seen), names, "{}", store.place());
        for name in names.iter().chain(&names) {
            store.delete(&key(name)).await.unwrap();
        }
        assert_eq!(store.list("", None, 10).await.unwrap(), Listing::default());
    }
}

#[tokio::test]
async fn the_later_content_of_a_key_counts_and_many_may_write_and_remove() {
    for Stage { store, .. } in &both() {
        store.put_bytes(&key("k/a"), Bytes::from_static(b"first")).await.unwrap();
        store.put_bytes(&key("k/a"), Bytes::from_static(b"second")).await.unwrap();
        assert_eq!(store.get(&key("k/a"), None).await.unwrap().collect().await.unwrap(), b"second");
        let work = (0..24).map(|number| async move {
            let (mine, gone) = (key(&format!("d/{number}")), key(&format!("d/x{number}")));
            store.put_bytes(&gone, Bytes::from_static(b"x")).await.unwrap();
            store.delete(&gone).await.unwrap();
            store.put_bytes(&mine, Bytes::from_static(b"y")).await.unwrap();
        });
        futures::future::join_all(work).await;
        assert_eq!(store.list("d/", None, 100).await.unwrap().objects.len(), 24);
        store.probe().await.unwrap();
        assert!(store.list("probe/", None, 10).await.unwrap().objects.is_empty());
    }
}

#[tokio::test]
async fn what_was_begun_and_given_up_is_swept_when_it_is_old() {
    let later = SystemTime::now() + Duration::from_secs(3600);
    let [files, bucket] = &both();
    let path = files.directory.as_ref().unwrap().path().join("blobs/~unfinished/half");
    std::fs::write(&path, b"half").unwrap();
    bucket.store.take_up(&key("a/half")).await.unwrap().unwrap();
    for Stage { store, .. } in [files, bucket] {
        let earlier = SystemTime::now() - Duration::from_secs(3600);
        assert_eq!(store.sweep_unfinished(earlier).await.unwrap(), 0, "{}", store.place());
        assert_eq!(store.sweep_unfinished(later).await.unwrap(), 1, "{}", store.place());
        assert_eq!(store.sweep_unfinished(later).await.unwrap(), 0, "{}", store.place());
    }
}

#[tokio::test]
async fn an_upload_in_parts_is_taken_up_again_and_completing_it_twice_is_fine() {
    let [files, bucket] = &both();
    assert_eq!(files.store.take_up(&key("x")).await.unwrap(), None);
    assert_eq!(files.store.put_link(&key("x"), Sha256::of(b"x"), Duration::from_secs(9)), None);
    assert!(!files.store.checks_content().await.unwrap());
    let store = &bucket.store;
    assert!(store.checks_content().await.unwrap());
    assert!(store.list("probe/", None, 10).await.unwrap().objects.is_empty());
    let (upload, there) = store.take_up(&key("x")).await.unwrap().unwrap();
    assert_eq!((store.size(&key("x")).await.unwrap(), there.len()), (None, 0));
    // Another key that begins in the same way is another upload.
    let (other, _) = store.take_up(&key("xy")).await.unwrap().unwrap();
    assert_ne!(upload, other);
    let (again, _) = store.take_up(&key("x")).await.unwrap().unwrap();
    assert_eq!(upload, again);
    let part = |etag: &str| SentPart { etag: etag.to_owned(), sha256: Some(Sha256::of(b"x")) };
    let missing = store.complete((&key("x"), &upload), &[part("\"0\"")], 1).await;
    assert!(missing.is_err(), "{missing:?}");
    let absent = store.check(&key("x"), 1, Sha256::of(b"x"), &[]).await;
    assert!(matches!(absent, Err(BlobError::NotFound { .. })), "{absent:?}");
    for key in [key("x"), key("xy")] {
        store.abort_upload(&key, &upload).await.unwrap();
        store.abort_upload(&key, &other).await.unwrap();
    }
    assert_eq!(store.part_size(5 * MIB as u64), None);
    assert_eq!(store.part_size(6 * MIB as u64), Some(5 * MIB as u64));
    let large = 5 * 1024 * 1024 * MIB as u64;
    assert!(store.part_size(large).is_some_and(|part| large.div_ceil(part) <= 10_000));
}

#[tokio::test]
async fn what_was_sent_is_checked_by_length_and_checksum() {
    let [_, bucket] = &both();
    let store = &bucket.store;
    store.put_bytes(&key("a"), Bytes::from_static(b"hello")).await.unwrap();
    store.check(&key("a"), 5, Sha256::of(b"hello"), &[]).await.unwrap();
    let short = store.check(&key("a"), 4, Sha256::of(b"hello"), &[]).await;
    assert!(matches!(short, Err(BlobError::WrongLength { .. })), "{short:?}");
}

/// A server that hangs is given up after a silence; one that goes on within it is waited for.
#[tokio::test]
async fn a_server_that_freezes_is_given_up_and_one_that_goes_on_is_not() {
    let server = Seaweed::start();
    let store = s3_store(&server, "", |_| {});
    store.put_bytes(&key("kept"), Bytes::from_static(b"kept")).await.unwrap();
    server.freeze();
    let content = pieces(11 * MIB).1;
    let large = key("large");
    let put = store.put(&large, content, Expected::default());
    let read = async { store.get(&key("kept"), None).await.unwrap_err() };
    let begun = std::time::Instant::now();
    let error = read.await;
    assert!(error.is_passing() && error.to_string().contains("nothing moved"), "{error}");
    // Far below what so many tries would take together.
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let thaw = async {
        tokio::task::yield_now().await;
        server.thaw();
    };
    let (stored, ()) = tokio::join!(put, thaw);
    assert_eq!(stored.unwrap().size, 11 * MIB as u64);
}

#[tokio::test]
async fn a_refusal_of_s3_says_what_to_do() {
    let server = Seaweed::shared();
    let wrong_secret = s3_store(server, "", |settings| settings.credentials.secret_key = "wrong".to_owned());
    let said = wrong_secret.probe().await.unwrap_err().to_string();
    assert!(
        said.contains("AWS_SECRET_ACCESS_KEY") && said.contains(BUCKET) && !said.contains("wrong"),
        "{said}"
    );
    let wrong_key = s3_store(server, "", |settings| settings.credentials.access_key = "nobody".to_owned());
    let said = wrong_key.probe().await.unwrap_err().to_string();
    assert!(said.contains("AWS_ACCESS_KEY_ID"), "{said}");
    let settings = Box::new(s3_settings(server));
    let settings = BlobSettings::S3 { bucket: "no-such-bucket".to_owned(), prefix: String::new(), settings };
    let said = BlobStore::open(&settings).unwrap().probe().await.unwrap_err().to_string();
    assert!(said.contains("no-such-bucket") && said.contains("create the bucket"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_away_is_named_and_one_that_comes_back_is_found() {
    let server = Seaweed::start();
    let store = s3_store(&server, "", |_| {});
    store.put_bytes(&key("kept"), Bytes::from_static(b"kept")).await.unwrap();
    server.kill();
    let error = store.put_bytes(&key("other"), Bytes::from_static(b"x")).await.unwrap_err();
    assert!(error.is_passing() && error.to_string().contains(&server.endpoint()), "{error}");
    server.launch();
    store.put_bytes(&key("other"), Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(store.get(&key("kept"), None).await.unwrap().collect().await.unwrap(), b"kept");
}
