//! The GPUs of this machine: given by hand, or asked of the driver's library where there is one.
//!
//! Guarantee: a machine without a driver has no GPUs, silently. What was given by hand is never second-guessed.

use std::str::FromStr;

use muster_protocol::Gpu;

/// What was said about GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum GpuOffer {
    /// Nothing: the driver is asked.
    #[default]
    Found,
    /// None are offered, whatever the machine has.
    None,
    /// So many, which are counted but not told apart.
    Counted(u64),
    /// These.
    Given(Vec<Gpu>),
}

impl FromStr for GpuOffer {
    type Err = String;

    /// Reads `none`, `auto`, a number (`4`), or a number and the memory of each (`4x80g`).
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a number of GPUs: write 4x80g for four with 80 GiB each, 4 to count them only, none, or auto"
            )
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Found),
            "none" => Ok(Self::None),
            text => match text.split_once('x') {
                None => text.parse().map(Self::Counted).map_err(|_| wrong()),
                Some((count, size)) => {
                    let count: u32 = count.trim().parse().map_err(|_| wrong())?;
                    let vram_mb = megabytes(size).filter(|_| count > 0).ok_or_else(wrong)?;
                    let gpu = |index| Gpu { index, vram_mb, ..Gpu::default() };
                    Ok(Self::Given((0..count).map(gpu).collect()))
                }
            },
        }
    }
}

/// Reads one device: `INDEX:MEMORY`, with its uuid and its vendor if they are known.
pub fn parse_gpu(text: &str) -> Result<Gpu, String> {
    let wrong = || format!("{text:?} is not of the form INDEX:MB[:UUID[:VENDOR]], such as 0:81920:GPU-5f1c");
    let mut parts = text.split(':');
    let index = parts.next().and_then(|part| part.trim().parse().ok()).ok_or_else(wrong)?;
    let vram_mb = parts.next().and_then(megabytes).ok_or_else(wrong)?;
    let mut word = || parts.next().map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned);
    let (uuid, vendor) = (word(), word());
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(Gpu { index, vram_mb, uuid, name: None, vendor })
}

/// Megabytes, or with `g` gigabytes.
fn megabytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (number, unit) = match text.strip_suffix("ib").or_else(|| text.strip_suffix('b')).unwrap_or(&text) {
        text if text.ends_with('g') => (&text[..text.len() - 1], 1024),
        text if text.ends_with('m') => (&text[..text.len() - 1], 1),
        text => (text, 1),
    };
    number.trim().parse::<u64>().ok()?.checked_mul(unit).filter(|amount| *amount > 0)
}

impl GpuOffer {
    /// The devices that are offered; empty when they are only counted, or none are.
    pub fn devices(&self) -> Vec<Gpu> {
        match self {
            Self::Found => allowed(discover(), std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref()),
            Self::None | Self::Counted(_) => Vec::new(),
            Self::Given(gpus) => gpus.clone(),
        }
    }

    /// Whether jobs are to see no GPU at all: none are offered, or the worker itself was told to see none.
    pub(crate) fn hides(&self, devices: &[Gpu]) -> bool {
        match self {
            Self::None | Self::Counted(0) => true,
            Self::Found => devices.is_empty() && std::env::var_os("CUDA_VISIBLE_DEVICES").is_some(),
            Self::Counted(_) | Self::Given(_) => false,
        }
    }

    /// How many are counted without being told apart.
    pub const fn counted(&self) -> u64 {
        match self {
            Self::Counted(count) => *count,
            Self::Found | Self::None | Self::Given(_) => 0,
        }
    }
}

/// Those that this process may use itself, if it was told: NVML shows all of the machine.
fn allowed(found: Vec<Gpu>, visible: Option<&str>) -> Vec<Gpu> {
    let Some(visible) = visible else { return found };
    let names: Vec<&str> = visible.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_named = |gpu: &Gpu| {
        names.iter().any(|name| {
            let uuid = gpu.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(name) && name.len() > 4);
            name.parse() == Ok(gpu.index) || uuid
        })
    };
    found.into_iter().filter(is_named).collect()
}

/// The NVIDIA GPUs that the driver shows; none where there is no driver. A device that is divided (MIG) is left
/// out as long as its parts cannot be told apart here: they are given by hand.
fn discover() -> Vec<Gpu> {
    let nvml = match nvml_wrapper::Nvml::init() {
        Ok(nvml) => nvml,
        Err(error) => {
            tracing::debug!(%error, "no GPUs were found: NVML does not answer");
            return Vec::new();
        }
    };
    let count = nvml.device_count().unwrap_or(0);
    (0..count).filter_map(|index| describe(&nvml, index)).collect()
}

fn describe(nvml: &nvml_wrapper::Nvml, index: u32) -> Option<Gpu> {
    let read = || -> Result<Option<Gpu>, nvml_wrapper::error::NvmlError> {
        let device = nvml.device_by_index(index)?;
        // Most devices cannot be divided, and say so by an error.
        if device.mig_mode().is_ok_and(|mode| mode.current != 0) {
            tracing::warn!(index, "a GPU is left out because it is divided (MIG); give its parts with --gpu");
            return Ok(None);
        }
        Ok(Some(Gpu {
            index,
            vram_mb: device.memory_info()?.total / (1024 * 1024),
            uuid: device.uuid().ok(),
            name: device.name().ok(),
            vendor: Some("nvidia".to_owned()),
        }))
    };
    match read() {
        Ok(gpu) => gpu,
        Err(error) => {
            tracing::warn!(index, %error, "a GPU is left out: the driver says nothing about it");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(index: u32, vram_mb: u64) -> Gpu {
        Gpu { index, vram_mb, ..Gpu::default() }
    }

    #[test]
    fn a_number_of_gpus_is_counted_or_told_apart() {
        assert_eq!("none".parse(), Ok(GpuOffer::None));
        assert_eq!("auto".parse(), Ok(GpuOffer::Found));
        assert_eq!("3".parse(), Ok(GpuOffer::Counted(3)));
        let two = GpuOffer::Given(vec![gpu(0, 81_920), gpu(1, 81_920)]);
        assert_eq!("2x80g".parse(), Ok(two.clone()));
        assert_eq!("2x81920".parse(), Ok(two.clone()));
        assert_eq!("2 X 80GiB".parse(), Ok(two));
        for wrong in ["", "x", "2x", "0x80g", "-1", "four", "2x80t"] {
            assert!(wrong.parse::<GpuOffer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_offers_none_hides_all() {
        assert!(GpuOffer::None.hides(&[]) && GpuOffer::Counted(0).hides(&[]));
        assert!(!GpuOffer::Counted(2).hides(&[]) && !GpuOffer::Given(vec![gpu(0, 1)]).hides(&[gpu(0, 1)]));
    }

    #[test]
    fn a_device_is_given_with_what_is_known_of_it() {
        assert_eq!(parse_gpu("3:24g"), Ok(gpu(3, 24_576)));
        let named = Gpu { uuid: Some("GPU-5".into()), vendor: Some("amd".into()), ..gpu(0, 100) };
        assert_eq!(parse_gpu("0:100:GPU-5:amd"), Ok(named));
        for wrong in ["", "0", "a:1", "0:0", "0:1:u:v:w"] {
            assert!(parse_gpu(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_worker_offers_no_more_than_it_may_use_itself() {
        let found = || vec![gpu(0, 1), Gpu { uuid: Some("GPU-abcdef".into()), ..gpu(1, 1) }, gpu(2, 1)];
        let kept = |visible| allowed(found(), visible).iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(kept(None), [0, 1, 2]);
        assert_eq!(kept(Some("2,0")), [0, 2]);
        assert_eq!(kept(Some("GPU-abc")), [1]);
        assert_eq!(kept(Some("")), [0_u32; 0]);
    }
}
