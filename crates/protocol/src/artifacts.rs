//! Artifacts: files that an attempt of a job left to be kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file of an attempt. One that could not be kept has the reason in `missing`, and nothing to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Artifact {
    /// A relative path, with `/` between its parts.
    pub name: String,
    pub attempt: u32,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// When it was kept, or found missing.
    #[schema(value_type = String)]
    pub at: Timestamp,
    /// Why it could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// When its bytes were removed, where they were; then there is nothing to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub removed_at: Option<Timestamp>,
}

/// Artifacts of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactList {
    /// By name.
    pub artifacts: Vec<Artifact>,
    /// The attempt that left them: the last one that left any, unless another was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// All attempts that left some, the last first.
    pub attempts: Vec<u32>,
    /// Files of this attempt that are kept, on all pages.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of this attempt that could not be kept.
    pub missing: u64,
    /// The name after which the next page begins; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The first artifact of the attempt, for clients that know one for each job: its key in the blob store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_key: Option<String>,
    /// A link to it that works without any other credential until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_url: Option<String>,
    /// How long the link works, such as `1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

/// What arrived of an artifact that was handed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactKept {
    pub size: u64,
    pub sha256: String,
}

/// A link to an artifact that works without any other credential until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactUrl {
    pub url: String,
    #[schema(value_type = String)]
    pub expires_at: Timestamp,
}

/// Files of an attempt that their holder can send straight to the blob store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactOffer {
    /// 200 at the most; none only to learn whether files can be sent there.
    #[serde(default)]
    pub files: Vec<OfferedArtifact>,
}

/// A file that is to be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferedArtifact {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
    /// Bytes of each part but the last, where the file is sent in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_size: Option<u64>,
    /// The upload in parts, as an earlier answer named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// Parts of it that are to be sent now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<OfferedPart>,
}

/// A part that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OfferedPart {
    /// From 1 on.
    pub number: u16,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// Where files are to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactPlaces {
    /// Whether they can be sent straight to the blob store. Otherwise they go through the scheduler.
    pub direct: bool,
    /// As the files were named.
    #[serde(default)]
    pub files: Vec<ArtifactPlace>,
}

/// Where one file is to be sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactPlace {
    /// It is kept already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Where it is sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<BlobLink>,
    /// The upload in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// Parts that have arrived.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub there: Vec<ArrivedPart>,
    /// Where the parts are sent that were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<BlobLink>,
    /// Why the file is not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Where something is sent by PUT, with the headers that belong to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BlobLink {
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A part that has arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArrivedPart {
    /// From 1 on.
    pub number: u16,
    pub etag: String,
}

/// Files that were sent straight to the blob store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactCompletion {
    /// 200 at the most.
    pub files: Vec<SentArtifact>,
}

/// A file that was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentArtifact {
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_size: Option<u64>,
    /// The upload in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// All its parts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SentArtifactPart>,
}

/// A part that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentArtifactPart {
    /// What the blob store answered.
    pub etag: String,
    /// 64 hexadecimal digits.
    pub sha256: String,
}

/// What became of files that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArtifactsCompleted {
    /// As the files were named.
    pub files: Vec<CompletedArtifact>,
}

/// What became of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletedArtifact {
    /// Why it is not kept; it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Whether it may be kept when it is sent once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}
