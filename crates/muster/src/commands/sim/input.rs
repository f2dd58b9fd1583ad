//! What is played and where: from a file, from a seed or from a scheduler.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use muster_domain::Span;
use muster_replay::trace::{self, Trace};
use muster_replay::{Cluster, Workload, parse_cluster, parse_cluster_file};

use super::server;
use crate::args::SimArgs;
use crate::failure::UsageError;
use crate::output::note;
use crate::settings::Settings;

/// More than any trace has; a small packed file must not fill the memory.
const MOST_BYTES: u64 = 4 << 30;
/// The first two bytes of everything that gzip writes.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A workload and where it came from.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) source: String,
    pub(super) trace: Trace,
}

pub(super) async fn collect(args: &SimArgs, settings: &Settings) -> anyhow::Result<Input> {
    let mut input = if let Some(generator) = &args.generate {
        Input { source: generator.to_string(), trace: generator.trace() }
    } else if args.from_server {
        let trace = server::snapshot(&settings.client()?, args.default_run).await?;
        Input { source: format!("snapshot of {}", settings.url), trace }
    } else {
        from_file(args.trace.as_deref().unwrap_or(Path::new("-")), args.seed)?
    };
    if let Some(first) = args.first {
        input.trace.workload.jobs.truncate(first);
        input.trace.names.truncate(first);
    }
    if input.trace.workload.jobs.is_empty() {
        anyhow::bail!("{} has no jobs to play", input.source);
    }
    if input.trace.skipped > 0 {
        note(&format!("{} lines describe no job that ran; they are left out", input.trace.skipped));
    }
    Ok(input)
}

fn from_file(file: &Path, seed: u64) -> anyhow::Result<Input> {
    let text = text_of(file)?;
    let source = match file.file_name() {
        Some(name) if file != Path::new("-") => name.to_string_lossy().into_owned(),
        _ => "standard input".to_owned(),
    };
    let trace =
        trace::read(&text, seed).map_err(|error| UsageError(format!("{}: {error}", file.display())))?;
    Ok(Input { source, trace })
}

/// The text of a file, unpacked if it is packed; `-` is standard input.
pub(crate) fn text_of(file: &Path) -> anyhow::Result<String> {
    let opened: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).with_context(|| format!("{} cannot be read", file.display()))?)
    };
    unpacked(opened).with_context(|| format!("{} cannot be read", file.display()))
}

fn unpacked(mut source: impl Read) -> io::Result<String> {
    let mut start = Vec::new();
    source.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
    let packed = start == GZIP;
    let whole = io::Cursor::new(start).chain(source);
    let mut text = String::new();
    let read = if packed {
        MultiGzDecoder::new(whole).take(MOST_BYTES).read_to_string(&mut text)?
    } else {
        whole.take(MOST_BYTES).read_to_string(&mut text)?
    };
    if read as u64 >= MOST_BYTES {
        return Err(io::Error::other("it has more than 4 GiB of text"));
    }
    Ok(text)
}

impl Input {
    /// The cluster that was named, else the one that the trace knows.
    pub(super) fn cluster(&self, args: &SimArgs) -> anyhow::Result<Cluster> {
        let Some(text) = &args.cluster else {
            return self.trace.cluster.clone().ok_or_else(|| {
                UsageError("say where it is played, for example --cluster 80x8gpu or --cluster 100cpu".into())
                    .into()
            });
        };
        let file = Path::new(text);
        let is_file = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        let cluster = if is_file {
            parse_cluster_file(&text_of(file)?).map_err(|error| UsageError(format!("{text}: {error}")))?
        } else {
            parse_cluster(text).map_err(|error| UsageError(error.to_string()))?
        };
        Ok(cluster)
    }
}

/// Often enough for a picture, and seldom enough for a long trace.
pub(crate) fn sample_every(workload: &Workload) -> Span {
    const SAMPLES: u64 = 2000;
    let last = workload.jobs.last().map_or(0, |job| job.submit.as_micros().max(0).unsigned_abs());
    let longest = workload.jobs.iter().map(|job| job.run.as_micros()).max().unwrap_or(0);
    let every = (last.saturating_add(longest) / SAMPLES).clamp(1_000, 3_600_000_000);
    Span::from_micros(every)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn packed_and_plain_texts_are_read() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"submit_s,duration_s,tasks\n").unwrap();
        assert_eq!(unpacked(&packed.finish().unwrap()[..]).unwrap(), "submit_s,duration_s,tasks\n");
        assert_eq!(unpacked(&b"plain"[..]).unwrap(), "plain");
        assert_eq!(unpacked(&b""[..]).unwrap(), "");
        assert!(unpacked(&[0x1f, 0x8b, 0, 1, 2][..]).is_err());
        assert!(unpacked(&[0xff, 0xfe][..]).is_err());
    }
}
