//! What S3 writes into its answers.

use instant_xml::FromXml;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A no.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

/// Errors come with a namespace from some servers and without one from others, so their two fields are looked up in
/// the text.
pub(super) fn refusal(body: &str) -> Option<Refusal> {
    body.contains("<Error").then(|| Refusal {
        code: element(body, "Code").unwrap_or_default(),
        message: element(body, "Message").unwrap_or_default(),
    })
}

fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    Some(plain.chars().filter(|c| !c.is_control()).take(300).collect())
}

/// Uploads in parts that were begun and not completed.
#[derive(Debug, FromXml)]
#[xml(rename = "ListMultipartUploadsResult", ns(NAMESPACE))]
pub(super) struct Uploads {
    pub(super) begun: Vec<Upload>,
    #[xml(rename = "IsTruncated")]
    pub(super) is_truncated: Option<bool>,
    #[xml(rename = "NextKeyMarker")]
    pub(super) next_key: Option<String>,
    #[xml(rename = "NextUploadIdMarker")]
    pub(super) next_upload: Option<String>,
}

#[derive(Debug, FromXml)]
#[xml(rename = "Upload", ns(NAMESPACE))]
pub(super) struct Upload {
    #[xml(rename = "Key")]
    pub(super) key: String,
    #[xml(rename = "UploadId")]
    pub(super) id: String,
    #[xml(rename = "Initiated")]
    pub(super) initiated: Option<String>,
}

pub(super) fn uploads(body: &str) -> Result<Uploads, String> {
    instant_xml::from_str(body).map_err(|error| error.to_string())
}

/// What an operator can do about a refusal.
pub(super) fn advice(status: u16, code: &str) -> &'static str {
    match (status, code) {
        (_, "NoSuchBucket") => "create the bucket, or name another one in --blob-store",
        (_, "InvalidAccessKeyId") => "check AWS_ACCESS_KEY_ID",
        (_, "SignatureDoesNotMatch") => "check AWS_SECRET_ACCESS_KEY and --s3-region",
        (_, "RequestTimeTooSkewed") => "set the clock of this machine",
        (_, "ExpiredToken" | "InvalidToken") => "renew AWS_SESSION_TOKEN",
        (_, "AuthorizationHeaderMalformed" | "PermanentRedirect") | (301 | 307 | 308, _) => {
            "name the region of the bucket with --s3-region and its address with --s3-endpoint"
        }
        (401 | 403, _) => {
            "check the credentials, and that they may read, write, list and delete objects in the bucket"
        }
        (404, _) => "check --blob-store and --s3-endpoint",
        (429 | 500.., _) => "try again later",
        _ => "see the message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_found_with_and_without_a_namespace() {
        for head in ["<Error>", "<Error xmlns=\"x\">"] {
            let body = format!("<?xml?>{head}<Code>NoSuchKey</Code><Message>a &lt;b&gt;\n</Message></Error>");
            let found = Refusal { code: "NoSuchKey".to_owned(), message: "a <b>".to_owned() };
            assert_eq!(refusal(&body), Some(found));
        }
        assert_eq!(refusal("<ListBucketResult/>"), None);
        assert_eq!(refusal(""), None);
    }

    #[test]
    fn uploads_are_read() {
        let body = "<?xml version=\"1.0\"?><ListMultipartUploadsResult \
             xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>b</Bucket><IsTruncated>false</IsTruncated>\
             <Upload><Key>a/b</Key><UploadId>u1</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>\
             </ListMultipartUploadsResult>";
        let read = uploads(body).unwrap();
        assert_eq!(
            (read.begun.len(), read.begun[0].key.as_str(), read.begun[0].id.as_str()),
            (1, "a/b", "u1")
        );
    }
}
