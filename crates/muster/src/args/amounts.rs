//! Amounts as people write them on the command line: memory, durations, pairs.

use std::time::Duration;

use muster_protocol::{ArtifactInput, SecretUse};

/// Memory in MiB: `4G`, `512M`, `1.5GiB`, or a plain number of MiB. Fractions are rounded up.
pub(crate) fn memory_mb(text: &str) -> Result<u64, String> {
    muster_document::amounts::memory_mb(text)
        .ok_or_else(|| format!("{text:?} is not an amount of memory; write for example 512M, 4G or 1.5T"))
}

/// A number of CPU cores; fractions are allowed.
pub(crate) fn cpus(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(amount) if (0.0..=1e6).contains(&amount) => Ok(amount),
        _ => Err(format!("{text:?} is not a number of cores; write for example 2 or 0.5")),
    }
}

/// `500ms`, `30s`, `1h30m`, `2d`, or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    muster_document::amounts::duration(text)
        .ok_or_else(|| format!("{text:?} is not a duration; write for example 30s, 5m or 1h30m"))
}

/// `NAME=VALUE` of a parameter.
pub(crate) fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} gives no parameter a value; write NAME=VALUE")),
    }
}

/// `KEY=VALUE`, or `KEY` alone to hand on the value of the surrounding environment.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, value.to_owned()),
        None => (
            text,
            std::env::var(text).map_err(|_| {
                format!("{text:?} has no value, here or in the environment; write {text}=VALUE")
            })?,
        ),
    };
    if key.is_empty() {
        return Err(format!("{text:?} names no variable; write KEY=VALUE"));
    }
    Ok((key.to_owned(), value))
}

/// `NAME` or `NAME=VARIABLE` of a secret.
pub(crate) fn secret(text: &str) -> Result<SecretUse, String> {
    let (name, variable) = match text.split_once('=') {
        Some((name, variable)) => (name, Some(variable.to_owned())),
        None => (text, None),
    };
    if name.is_empty() || variable.as_deref() == Some("") {
        return Err(format!("{text:?} names no secret; write NAME or NAME=VARIABLE, never the value"));
    }
    Ok(SecretUse { name: name.to_owned(), file: false, variable })
}

/// The same for a secret that is wanted as a file.
pub(crate) fn secret_file(text: &str) -> Result<SecretUse, String> {
    secret(text).map(|wanted| SecretUse { file: true, ..wanted })
}

/// `JOB[:PATH[:TO]]` of an input. A name of a step or an id has no colon in it.
pub(crate) fn input(text: &str) -> Result<ArtifactInput, String> {
    let mut parts = text.splitn(3, ':').map(str::to_owned);
    let from = parts.next().filter(|from| !from.is_empty());
    let from = from.ok_or_else(|| format!("{text:?} names no job; write JOB, JOB:PATH or JOB:PATH:TO"))?;
    let mut part = || parts.next().filter(|part| !part.is_empty());
    Ok(ArtifactInput { from, path: part(), to: part() })
}

/// `NAME=AMOUNT` of a named counter; the amount is 1 when left out.
pub(crate) fn counter(text: &str) -> Result<(String, u64), String> {
    let (name, amount) = text.split_once('=').unwrap_or((text, "1"));
    match amount.trim().parse() {
        Ok(amount) if !name.is_empty() => Ok((name.to_owned(), amount)),
        _ => Err(format!("{text:?} is not a counter; write NAME=AMOUNT, for example license=1")),
    }
}

/// `NAME=VALUE` of a label.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is not a label; write NAME=VALUE, for example rack=a")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_job_a_path_and_a_place() {
        let read = |text: &str| input(text).map(|input| (input.from, input.path, input.to));
        let own = |text: &str| Some(text.to_owned());
        assert_eq!(read("job-1").unwrap(), ("job-1".to_owned(), None, None));
        assert_eq!(read("job-1:a/b").unwrap(), ("job-1".to_owned(), own("a/b"), None));
        assert_eq!(read("job-1:a:c:d").unwrap(), ("job-1".to_owned(), own("a"), own("c:d")));
        assert_eq!(read("job-1::in/").unwrap(), ("job-1".to_owned(), None, own("in/")));
        assert!(read(":a").unwrap_err().contains("JOB:PATH"));
    }

    #[test]
    fn parameters() {
        assert_eq!(parameter("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(parameter("A").is_err() && parameter("=b").is_err());
    }

    #[test]
    fn pairs() {
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("A="), Ok(("A".into(), String::new())));
        assert!(variable("=x").is_err());
        assert!(variable("MUSTER_SURELY_NOT_SET").unwrap_err().contains("MUSTER_SURELY_NOT_SET=VALUE"));
        assert_eq!(counter("license=2"), Ok(("license".into(), 2)));
        assert_eq!(counter("license"), Ok(("license".into(), 1)));
        assert!(counter("license=x").is_err());
    }

    #[test]
    fn cores_may_be_fractions() {
        assert_eq!(cpus("0.5"), Ok(0.5));
        assert!(cpus("-1").is_err() && cpus("two").is_err() && cpus("NaN").is_err());
    }
}
