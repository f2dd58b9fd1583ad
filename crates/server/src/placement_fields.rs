//! From what a body says about GPUs, labels and topology to the domain's values, within the limits.

use std::collections::BTreeMap;

use muster_domain::{Device, Topology, TopologyMode};

use crate::config::Limits;
use crate::error::ApiError;
use crate::lenient::lenient_object;
use crate::submission::{MAX_AMOUNT, check_text};

/// The most GPUs that one worker may have.
const MAX_DEVICES: usize = 256;

lenient_object! {
    /// A GPU as a worker writes it.
    pub(crate) struct GpuBody {
        index: u32 = "index",
        vram_mb: u64 = "vram_mb",
        uuid: String = "uuid",
        name: String = "name",
        vendor: String = "vendor",
    }
}

lenient_object! {
    /// Where the tasks of a gang are to be, as a client writes it.
    pub(crate) struct TopologyBody {
        label: String = "label",
        mode: String = "mode",
        required: bool = "required",
    }
}

impl TopologyBody {
    pub(crate) fn check(self, limits: &Limits) -> Result<Topology, ApiError> {
        let label = self.label.unwrap_or_default();
        if label.is_empty() {
            return Err(ApiError::invalid_field("topology", "topology must name a label of workers"));
        }
        check_text("topology", &label, limits.name)?;
        let mode = match self.mode.as_deref() {
            None | Some("" | "pack") => TopologyMode::Pack,
            Some("spread") => TopologyMode::Spread,
            Some(other) => {
                let message = format!("topology.mode must be pack or spread, not {other:?}");
                return Err(ApiError::invalid_field("topology", message));
            }
        };
        Ok(Topology { label, mode, required: self.required.unwrap_or(false) })
    }
}

/// The GPUs of a worker, by index. Each index and each uuid is there once.
pub(crate) fn devices(bodies: Option<Vec<GpuBody>>, limits: &Limits) -> Result<Vec<Device>, ApiError> {
    let bodies = bodies.unwrap_or_default();
    if bodies.len() > MAX_DEVICES {
        return Err(ApiError::over_limit("gpus", MAX_DEVICES, "entries"));
    }
    let wrong = |message: String| Err(ApiError::invalid_field("gpus", message));
    let mut devices = Vec::with_capacity(bodies.len());
    for (place, body) in bodies.into_iter().enumerate() {
        let index = body.index.unwrap_or(place as u32);
        let vram_mb = body.vram_mb.unwrap_or(0);
        if vram_mb > MAX_AMOUNT {
            return wrong(format!("gpus[{place}].vram_mb must be at most {MAX_AMOUNT}"));
        }
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        let device = Device {
            index,
            vram_mb,
            uuid: text(body.uuid),
            name: text(body.name),
            vendor: text(body.vendor).map(|vendor| vendor.to_ascii_lowercase()),
        };
        for text in [&device.uuid, &device.name, &device.vendor] {
            check_text("gpus", text.as_deref().unwrap_or_default(), limits.name)?;
        }
        devices.push(device);
    }
    devices.sort_by_key(|device| device.index);
    if let Some(twice) = devices.windows(2).find(|pair| pair[0].index == pair[1].index) {
        return wrong(format!("gpus must have different indices, but {} is there twice", twice[0].index));
    }
    Ok(devices)
}

/// The labels of a worker; those without a value are left out.
pub(crate) fn labels(
    labels: Option<BTreeMap<String, String>>,
    limits: &Limits,
) -> Result<BTreeMap<String, String>, ApiError> {
    let mut labels = labels.unwrap_or_default();
    if labels.len() > limits.tags {
        return Err(ApiError::over_limit("labels", limits.tags, "entries"));
    }
    for (name, value) in &labels {
        check_text("labels", name, limits.name)?;
        check_text("labels", value, limits.name)?;
    }
    labels.retain(|name, value| !name.is_empty() && !value.is_empty());
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use crate::lenient::{self, Reading};

    fn read(text: &str) -> Result<Vec<Device>, ApiError> {
        devices(Some(lenient::decode(text.as_bytes(), Reading::Strict)?), &ServerConfig::default().limits)
    }

    #[test]
    fn devices_are_sorted_and_different() {
        let found = read(r#"[{"index":1,"vram_mb":5},{"index":0,"Vendor":"NVIDIA","uuid":""}]"#).unwrap();
        assert_eq!(found.iter().map(|device| device.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((found[0].vendor.as_deref(), found[0].uuid.as_deref()), (Some("nvidia"), None));
        let message = read(r#"[{"index":1},{"index":1}]"#).unwrap_err().message.into_owned();
        assert_eq!(message, "gpus must have different indices, but 1 is there twice");
        assert!(read(r#"[{"vram_mb":9999999999999999}]"#).is_err());
    }

    #[test]
    fn a_topology_names_a_label_and_a_known_mode() {
        let limits = ServerConfig::default().limits;
        let read = |text: &str| {
            lenient::decode::<TopologyBody>(text.as_bytes(), Reading::Strict).unwrap().check(&limits)
        };
        let pack = read(r#"{"label":"rack"}"#).unwrap();
        assert_eq!((pack.mode, pack.required), (TopologyMode::Pack, false));
        let spread = read(r#"{"label":"zone","mode":"spread","required":true}"#).unwrap();
        assert_eq!((spread.mode, spread.required), (TopologyMode::Spread, true));
        assert!(read("{}").is_err() && read(r#"{"label":"rack","mode":"near"}"#).is_err());
    }
}
