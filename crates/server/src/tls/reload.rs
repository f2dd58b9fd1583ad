//! Notices that the files of a certificate have changed.
//!
//! Guarantee: a pair that is written one file after the other is taken once both are there, and complained about only
//! when it stays as it is.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::{Pair, Tls};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_secs(2);

/// By which a file that was changed or replaced differs; `None` for one that is not there.
type Stamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ))
}

fn stamps(pair: &Pair) -> [Stamp; 2] {
    [stamp(&pair.certificate), stamp(&pair.key)]
}

/// What was seen of the files so far.
#[derive(Debug)]
struct Watch {
    /// The files that are in use, or that were complained about.
    settled: [Stamp; 2],
    /// Files that could not be used at the last look.
    doubtful: Option<[Stamp; 2]>,
}

impl Tls {
    /// Looks at the files again and again until `stop` resolves.
    pub(crate) async fn keep_fresh(&self, stop: impl Future<Output = ()>) {
        // The files may have changed since they were read; reading them once more costs little.
        let mut watch = Watch { settled: [None, None], doubtful: None };
        let mut stop = std::pin::pin!(stop);
        loop {
            self.look(&mut watch);
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn look(&self, watch: &mut Watch) {
        // Taken before reading: what changes while it is read is read again.
        let seen = stamps(&self.pair);
        if seen == watch.settled {
            return;
        }
        match self.pair.read() {
            Ok(identity) => {
                let before = self.fingerprint();
                self.shown.replace(identity);
                *watch = Watch { settled: seen, doubtful: None };
                let now = self.fingerprint();
                if now != before {
                    tracing::info!(fingerprint = %now, %before, "a new certificate is shown from now on");
                }
            }
            Err(error) if watch.doubtful == Some(seen) => {
                tracing::error!(%error, "the new certificate cannot be used; the former one stays");
                *watch = Watch { settled: seen, doubtful: None };
            }
            Err(_) => watch.doubtful = Some(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn made() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_pair_is_taken_when_both_files_fit_and_the_former_stays_until_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let pair = Pair { certificate: path("cert.pem"), key: path("key.pem") };
        let write = |pair: &Pair, (certificate, key): (&str, &str)| {
            fs::write(&pair.certificate, certificate).unwrap();
            fs::write(&pair.key, key).unwrap();
        };
        let (first, second) = (made(), made());
        write(&pair, (&first.0, &first.1));
        let tls = Tls::new(pair.clone()).unwrap();
        let before = tls.fingerprint();
        let mut watch = Watch { settled: stamps(&pair), doubtful: None };
        tls.look(&mut watch);
        assert_eq!(tls.fingerprint(), before);

        // Replaced, not written anew: what comes with a rename has another inode.
        fs::write(path("new.pem"), &second.0).unwrap();
        fs::rename(path("new.pem"), &pair.certificate).unwrap();
        for _ in 0..3 {
            tls.look(&mut watch);
            assert_eq!(tls.fingerprint(), before, "the key does not fit yet");
        }
        assert_eq!(watch.settled, stamps(&pair), "it was complained about once");
        fs::write(path("new.pem"), &second.1).unwrap();
        fs::rename(path("new.pem"), &pair.key).unwrap();
        tls.look(&mut watch);
        let after = tls.fingerprint();
        assert_ne!(after, before);

        fs::remove_file(&pair.key).unwrap();
        tls.look(&mut watch);
        fs::write(&pair.certificate, "broken").unwrap();
        tls.look(&mut watch);
        assert_eq!(tls.fingerprint(), after);
        write(&pair, (&first.0, &first.1));
        tls.look(&mut watch);
        assert_eq!(tls.fingerprint(), before);
    }
}
