//! Where the output of a job goes besides what is kept of it, and which of its files are kept, as a client asks for it.

use muster_domain::{OutputFiles, check_artifact_pattern, output_path};

use crate::config::Limits;
use crate::error::ApiError;
use crate::submission::optional;

/// Patterns of one job.
const MOST_PATTERNS: usize = 100;

/// Paths that can be filled in, and what becomes of the files.
pub(crate) fn check(
    [stdout, stderr]: [Option<String>; 2],
    open_mode: Option<&str>,
    artifacts: Vec<String>,
    limits: &Limits,
) -> Result<Option<Box<OutputFiles>>, ApiError> {
    let path = |field: &'static str, given: Option<String>| {
        let given = optional(field, given, limits.path)?;
        if let Some(pattern) = &given {
            output_path::check(pattern)
                .map_err(|error| ApiError::invalid_field(field, format!("{field} {pattern:?}: {error}")))?;
        }
        Ok::<_, ApiError>(given)
    };
    let (stdout, stderr) = (path("stdout_path", stdout)?, path("stderr_path", stderr)?);
    let append = match open_mode {
        None | Some("" | "truncate") => false,
        Some("append") => true,
        Some(other) => {
            let message = format!("open_mode is {other:?}; it must be append or truncate");
            return Err(ApiError::invalid_field("open_mode", message));
        }
    };
    if artifacts.len() > MOST_PATTERNS {
        return Err(ApiError::over_limit("artifacts", MOST_PATTERNS, "patterns"));
    }
    for pattern in &artifacts {
        check_artifact_pattern(pattern).map_err(|error| {
            ApiError::invalid_field("artifacts", format!("artifacts {pattern:?}: {error}"))
        })?;
    }
    if stdout.is_none() && stderr.is_none() {
        if open_mode.is_some_and(|mode| !mode.is_empty()) {
            let message = "open_mode is about stdout_path and stderr_path, and neither is given";
            return Err(ApiError::invalid_field("open_mode", message));
        }
        if artifacts.is_empty() {
            return Ok(None);
        }
    }
    Ok(Some(Box::new(OutputFiles { stdout, stderr, append, artifacts })))
}
