//! Where a store is, as an operator writes it.
//!
//! Guarantee: what is accepted here names one place; credentials are never printed.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use muster_tls::Trust;

/// `DIR` or `s3://BUCKET[/PREFIX]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: String },
}

/// Settings from which no store can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBlobSettings {
    #[error("{0:?} names no place for objects: write a directory, or s3://BUCKET or s3://BUCKET/PREFIX")]
    Place(String),
    #[error("{url:?} is no endpoint of S3: {reason}; write for example http://127.0.0.1:8333")]
    Endpoint { url: String, reason: String },
    #[error(
        "there are no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with \
         --s3-credentials-file"
    )]
    NoCredentials,
    #[error("the credentials file {path} cannot be used: {reason}")]
    CredentialsFile { path: String, reason: String },
}

impl FromStr for Place {
    type Err = InvalidBlobSettings;

    fn from_str(text: &str) -> Result<Self, InvalidBlobSettings> {
        let invalid = || InvalidBlobSettings::Place(text.to_owned());
        let Some(rest) = text.strip_prefix("s3://") else {
            if text.is_empty() || text.contains("://") {
                return Err(invalid());
            }
            return Ok(Self::Directory(PathBuf::from(text)));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let good_bucket = (3..=63).contains(&bucket.len()) && bucket.bytes().all(plain);
        if !good_bucket || (!prefix.is_empty() && crate::BlobKey::new(prefix).is_err()) {
            return Err(invalid());
        }
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// What is shown to S3.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl S3Credentials {
    /// Reads `AWS_ACCESS_KEY_ID=...` and its companions, one in a line.
    pub fn from_lines(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            let mut found = lines.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        Some(Self {
            access_key: value("AWS_ACCESS_KEY_ID")?,
            secret_key: value("AWS_SECRET_ACCESS_KEY")?,
            session_token: value("AWS_SESSION_TOKEN"),
        })
    }
}

/// How a bucket is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Settings {
    /// `None` for AWS itself.
    pub endpoint: Option<String>,
    /// The name by which those reach it that follow links; `endpoint` when absent.
    pub public_endpoint: Option<String>,
    pub region: String,
    /// Whether the bucket is named in the path of URLs and not in their host. `None`: in the path where an endpoint is named.
    pub path_style: Option<bool>,
    pub credentials: S3Credentials,
    pub trust: Trust,
    /// Bytes of one part of a large object.
    pub part_size: usize,
}

/// The least that S3 takes for a part that is not the last.
pub(crate) const LEAST_PART: usize = 5 * 1024 * 1024;
/// What is used when nothing else is said.
pub const PART_SIZE: usize = 8 * 1024 * 1024;

impl S3Settings {
    pub fn new(endpoint: Option<String>, credentials: S3Credentials) -> Self {
        Self {
            endpoint,
            public_endpoint: None,
            region: "us-east-1".to_owned(),
            path_style: None,
            credentials,
            trust: Trust::default(),
            part_size: PART_SIZE,
        }
    }
}

/// A place, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobSettings {
    Directory(PathBuf),
    S3 { bucket: String, prefix: String, settings: Box<S3Settings> },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_what_they_write() {
        for good in ["data/blobs", "/var/x", "s3://bucket", "s3://my.bucket-1/a/b"] {
            assert_eq!(good.parse::<Place>().unwrap().to_string(), good);
        }
        assert_eq!("s3://bucket/a/".parse::<Place>().unwrap().to_string(), "s3://bucket/a");
        for wrong in ["", "s3://", "s3://a", "s3://bucket/../x", "s3://bu cket", "gs://bucket", "s3:///x"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_read_and_not_printed() {
        let text = "# ours\nAWS_ACCESS_KEY_ID=AKIA\naws_secret_access_key = hush==\n";
        let read = S3Credentials::from_lines(text).unwrap();
        assert_eq!((read.access_key.as_str(), read.secret_key.as_str()), ("AKIA", "hush=="));
        assert!(!format!("{read:?}").contains("hush"));
        assert_eq!(S3Credentials::from_lines("AWS_ACCESS_KEY_ID=AKIA"), None);
    }
}
