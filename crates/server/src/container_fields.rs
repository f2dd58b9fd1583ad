//! The image of a job and how its container is made: read from submissions and checked.
//!
//! Guarantee: what no engine and no worker could ever do is refused here, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::container::{Container, Network, Pull};
use muster_domain::secrets::is_secret_name;

use crate::config::Limits;
use crate::error::ApiError;
use crate::lenient::lenient_object;
use crate::submission::{MAX_AMOUNT, check_text};

/// Where the files of an attempt lie in its container.
const OWN_FOLDER: &str = "/run/muster";
const MOST_MOUNTS: usize = 64;
const MOST_ULIMITS: usize = 32;

lenient_object! {
    /// How a container is made, as a client writes it.
    pub(crate) struct ContainerBody {
        network: String = "network",
        pull: String = "pull",
        mounts: Vec<String> = "mounts",
        read_only: bool = "read_only",
        user: String = "user",
        entrypoint: Vec<String> = "entrypoint",
        init: bool = "init",
        shm_mb: u64 = "shm_mb",
        pids: u32 = "pids",
        ulimits: BTreeMap<String, String> = "ulimits",
        credentials: String = "credentials",
    }
}

/// The container of a job, if it names an image.
pub(crate) fn check(
    image: Option<String>,
    body: Option<ContainerBody>,
    limits: &Limits,
) -> Result<Option<Box<Container>>, ApiError> {
    let Some(image) = image.filter(|image| !image.is_empty()) else {
        if body.is_some() {
            let message = "container is only for a job that names an image; add image";
            return Err(ApiError::invalid_field("container", message));
        }
        return Ok(None);
    };
    check_image(&image, limits)?;
    let body = body.unwrap_or_default();
    for (field, text) in [("container.user", &body.user), ("container.credentials", &body.credentials)] {
        check_text(field, text.as_deref().unwrap_or_default(), limits.name)?;
    }
    let mounts = body.mounts.unwrap_or_default();
    check_mounts(&mounts, limits)?;
    let ulimits = body.ulimits.unwrap_or_default();
    check_ulimits(&ulimits)?;
    for word in body.entrypoint.iter().flatten() {
        check_text("container.entrypoint", word, limits.command)?;
    }
    if body.shm_mb.is_some_and(|amount| amount == 0 || amount > MAX_AMOUNT) {
        return Err(wrong("container.shm_mb", "container.shm_mb must be at least 1"));
    }
    if body.pids == Some(0) {
        return Err(wrong("container.pids", "container.pids must be at least 1"));
    }
    if let Some(name) = body.credentials.as_deref().filter(|name| !is_secret_name(name)) {
        return Err(wrong("container.credentials", format!("{name:?} is not the name of a secret")));
    }
    Ok(Some(Box::new(Container {
        image,
        network: body.network.as_deref().map(network).transpose()?,
        pull: body.pull.as_deref().map(pull).transpose()?,
        mounts,
        read_only: body.read_only.unwrap_or(false),
        user: body.user.filter(|user| !user.is_empty()),
        entrypoint: body.entrypoint,
        init: body.init,
        shm_mb: body.shm_mb,
        pids: body.pids,
        ulimits,
        credentials: body.credentials,
    })))
}

fn wrong(field: &'static str, message: impl Into<std::borrow::Cow<'static, str>>) -> ApiError {
    ApiError::invalid_field(field, message)
}

/// `[REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]`, as every engine reads it.
fn check_image(image: &str, limits: &Limits) -> Result<(), ApiError> {
    check_text("image", image, limits.name)?;
    let refuse = |why: &str| {
        let message = format!(
            "image is {image:?}, and {why}; write for example python:3.13 or registry.example.org/team/app:1"
        );
        Err(wrong("image", message))
    };
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digest.is_some_and(|digest| !digest.strip_prefix("sha256:").is_some_and(is_hex)) {
        return refuse("its digest is not sha256: and 64 hexadecimal digits");
    }
    let (host, path) = match named.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), path),
        _ => (None, named),
    };
    let (path, tag) = path.split_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if host.is_some_and(|host| !host.bytes().all(is_host)) {
        return refuse("its registry is no host");
    }
    let is_part = |part: &str| {
        let ends = part.as_bytes().first().into_iter().chain(part.as_bytes().last());
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !part.is_empty()
            && ends.into_iter().all(plain)
            && part.bytes().all(|byte| plain(&byte) || b"._-".contains(&byte))
    };
    if !path.split('/').all(is_part) {
        return refuse("its name has something else than lower-case letters, digits and the signs . _ - /");
    }
    let is_tag = |tag: &str| {
        let first = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        first
            && tag.len() <= 128
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return refuse("its tag has something else than letters, digits and the signs . _ -");
    }
    Ok(())
}

/// `SOURCE:TARGET[:ro]`. What of it is allowed each worker says for itself.
fn check_mounts(mounts: &[String], limits: &Limits) -> Result<(), ApiError> {
    const FIELD: &str = "container.mounts";
    if mounts.len() > MOST_MOUNTS {
        return Err(ApiError::over_limit(FIELD, MOST_MOUNTS, "entries"));
    }
    let mut targets = BTreeSet::new();
    for mount in mounts {
        check_text(FIELD, mount, 2 * limits.path)?;
        let paths = mount.strip_suffix(":ro").or_else(|| mount.strip_suffix(":rw")).unwrap_or(mount);
        let form = || {
            wrong(
                FIELD,
                format!(
                    "the mount {mount:?} is not of the form SOURCE:TARGET or SOURCE:TARGET:ro, with absolute paths"
                ),
            )
        };
        let (source, target) = paths.split_once(':').ok_or_else(form)?;
        if !source.starts_with('/')
            || !target.starts_with('/')
            || target.contains(':')
            || source.contains("/..")
        {
            return Err(form());
        }
        let target = target.trim_end_matches('/');
        if target.is_empty() || target == OWN_FOLDER || target.starts_with("/run/muster/") {
            return Err(wrong(
                FIELD,
                format!("the mount {mount:?} would hide the root or {OWN_FOLDER}, which the job needs"),
            ));
        }
        if !targets.insert(target) {
            return Err(wrong(FIELD, format!("two mounts have the target {target}")));
        }
    }
    Ok(())
}

fn check_ulimits(ulimits: &BTreeMap<String, String>) -> Result<(), ApiError> {
    const FIELD: &str = "container.ulimits";
    if ulimits.len() > MOST_ULIMITS {
        return Err(ApiError::over_limit(FIELD, MOST_ULIMITS, "entries"));
    }
    for (name, text) in ulimits {
        let (soft, hard) = text.split_once(':').unwrap_or((text, text));
        let numbers = [soft, hard].map(str::parse::<i64>);
        let rising = matches!(&numbers, [Ok(soft), Ok(hard)] if *hard == -1 || soft <= hard);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) || !rising {
            let message =
                format!("the ulimit {name:?}: {text:?} is not a name such as nofile with 1024 or 1024:4096");
            return Err(wrong(FIELD, message));
        }
    }
    Ok(())
}

fn network(word: &str) -> Result<Network, ApiError> {
    match word {
        "none" => Ok(Network::None),
        "bridge" => Ok(Network::Bridge),
        "host" => Ok(Network::Host),
        other => Err(wrong(
            "container.network",
            format!("container.network is {other:?}; it may be none, bridge or host"),
        )),
    }
}

fn pull(word: &str) -> Result<Pull, ApiError> {
    match word {
        "missing" => Ok(Pull::Missing),
        "always" => Ok(Pull::Always),
        "never" => Ok(Pull::Never),
        other => Err(wrong(
            "container.pull",
            format!("container.pull is {other:?}; it may be missing, always or never"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(
        image: &str,
        change: impl FnOnce(&mut ContainerBody),
    ) -> Result<Option<Box<Container>>, ApiError> {
        let mut body = ContainerBody::default();
        change(&mut body);
        check(Some(image.to_owned()), Some(body), &Limits::default())
    }

    #[test]
    fn images_have_the_names_that_engines_read() {
        let digest = format!("busybox@sha256:{}", "0".repeat(64));
        for good in
            ["busybox", "python:3.13-slim", "a/b/c", "localhost:5000/a:1", "r.example.org/t/a_b:V1", &digest]
        {
            assert!(asked(good, |_| ()).is_ok(), "{good}");
        }
        for wrong in ["Busybox", "a b", "-a", "a:", "a@b", "a//b", "a:b c", "https://h/a", "a:..", "a/"] {
            let error = asked(wrong, |_| ()).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("image"), "{wrong}");
        }
    }

    #[test]
    fn what_can_never_work_is_refused() {
        type Change = fn(&mut ContainerBody);
        let cases: [(Change, &str); 8] = [
            (|body| body.mounts = Some(vec!["data:/data".into()]), "SOURCE:TARGET"),
            (|body| body.mounts = Some(vec!["/data:/run/muster/x".into()]), "would hide"),
            (|body| body.mounts = Some(vec!["/a:/x".into(), "/b:/x/:ro".into()]), "two mounts"),
            (|body| body.ulimits = Some([("nofile".into(), "9:3".into())].into()), "nofile"),
            (|body| body.network = Some("vpn".into()), "none, bridge or host"),
            (|body| body.pull = Some("now".into()), "missing, always or never"),
            (|body| body.pids = Some(0), "at least 1"),
            (|body| body.credentials = Some("../x".into()), "name of a secret"),
        ];
        for (change, words) in cases {
            let error = asked("busybox", change).unwrap_err();
            assert!(error.message.contains(words), "{}", error.message);
        }
        let alone = check(None, Some(ContainerBody::default()), &Limits::default()).unwrap_err();
        assert!(alone.message.contains("add image"), "{}", alone.message);
        assert!(asked("busybox", |body| body.mounts = Some(vec!["/a:/x:ro".into()])).is_ok());
    }
}
