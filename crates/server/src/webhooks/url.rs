//! Which URLs a webhook may have.

use http::Uri;

use super::reachable::Reach;
use crate::error::ApiError;

/// Bytes of a URL.
const LONGEST: usize = 2048;

/// Refuses what cannot be delivered to; says why.
pub(crate) fn check_url(text: &str, reach: &Reach) -> Result<(), ApiError> {
    let wrong = |why: &str| Err(ApiError::invalid_field("url", format!("url {text:?} {why}")));
    if text.is_empty() {
        return Err(ApiError::bad_request(
            "url_required",
            "url is required, such as https://example.org/hook",
        )
        .at("url"));
    }
    if text.len() > LONGEST {
        return Err(ApiError::over_limit("url", LONGEST, "bytes"));
    }
    let Ok(uri) = text.parse::<Uri>() else {
        return wrong("is no URL; write for example https://example.org/hook");
    };
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return wrong("must begin with http:// or https://");
    }
    let Some(authority) = uri.authority() else { return wrong("names no host") };
    if authority.as_str().contains('@') {
        return wrong("must not carry a user or a password: receivers check the signature");
    }
    let host = authority.host();
    if host.is_empty() || host == "[]" {
        return wrong("names no host");
    }
    if !reach.permits_host(host) {
        return wrong(
            "is on a private network, which this scheduler does not deliver to; --webhook-allow allows it",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WebhookConfig;

    fn reach(allow_private: bool) -> Reach {
        let config = WebhookConfig { allow_private: Some(allow_private), ..WebhookConfig::default() };
        Reach::new(&config, None)
    }

    #[test]
    fn only_http_urls_with_a_host_are_taken() {
        for good in ["http://127.0.0.1:9/", "https://example.org/a?b=c", "http://[::1]:80", "http://host"] {
            assert!(check_url(good, &reach(true)).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.org",
            "/path",
            "ftp://example.org/",
            "http://",
            "http://u:p@example.org/",
            "http://a b/",
            "file:///etc/passwd",
        ] {
            assert!(check_url(bad, &reach(true)).is_err(), "{bad}");
        }
        let long = format!("http://example.org/{}", "x".repeat(LONGEST));
        assert!(check_url(&long, &reach(true)).is_err());
    }

    #[test]
    fn private_targets_can_be_refused() {
        for private in [
            "http://127.0.0.1/",
            "http://10.1.2.3/",
            "http://[::1]/",
            "http://localhost:9/",
            "http://[::ffff:192.168.0.1]/",
        ] {
            let error = check_url(private, &reach(false)).unwrap_err();
            assert!(error.message.contains("private network"), "{private}: {error:?}");
        }
        assert!(check_url("http://93.184.215.14/", &reach(false)).is_ok());
    }
}
