//! The secrets of one attempt: how they come from the agent, and how the process gets them.
//!
//! Guarantee: a value is in the memory of agent and keeper, on their private socket, in the environment of the process or in a
//! file in memory, and nowhere else; it is not printed.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_seal::SecretValue;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::masked_output::MaskedOutput;
use super::message::StartSpec;
use super::outputs::Handles;
use crate::attempt_files::attempt_name;
use crate::secret_files::SecretFile;

/// An opened secret for one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretGrant {
    pub variable: String,
    /// The variable names a file with the value instead of holding it.
    #[serde(default)]
    pub file: bool,
    #[serde(serialize_with = "to_text", deserialize_with = "from_text")]
    pub value: SecretValue,
}

fn to_text<S: Serializer>(value: &SecretValue, encoder: S) -> Result<S::Ok, S::Error> {
    encoder.serialize_str(&STANDARD.encode(value.bytes()))
}

fn from_text<'de, D: Deserializer<'de>>(decoder: D) -> Result<SecretValue, D::Error> {
    let text = String::deserialize(decoder)?;
    STANDARD.decode(text).map(SecretValue::new).map_err(|_| D::Error::custom("no base64"))
}

/// What an attempt has of its secrets while it runs. Nothing where it has none.
#[derive(Debug, Default)]
pub(super) struct HandedSecrets {
    variables: Vec<(String, SecretValue)>,
    files: Vec<SecretFile>,
    mask: Option<MaskedOutput>,
}

impl HandedSecrets {
    /// Makes the files, and puts a mask before the output.
    pub(super) fn hand_over(
        spec: &StartSpec,
        handles: Handles,
        folder: &Path,
    ) -> Result<(Self, Handles), String> {
        if spec.secrets.is_empty() {
            return Ok((Self::default(), handles));
        }
        let mut handed = Self::default();
        for (number, grant) in spec.secrets.iter().enumerate() {
            let value = if grant.file {
                let name = format!("{}.{number}", attempt_name(&spec.key));
                let file = SecretFile::write(folder, &name, grant.value.bytes(), spec.user.as_deref())?;
                let path = file.path().as_os_str().as_encoded_bytes().to_vec();
                handed.files.push(file);
                SecretValue::new(path)
            } else {
                grant.value.clone()
            };
            handed.variables.push((grant.variable.clone(), value));
        }
        let values: Vec<SecretValue> = spec.secrets.iter().map(|grant| grant.value.clone()).collect();
        let (mask, handles) = MaskedOutput::between(handles, &values)?;
        handed.mask = Some(mask);
        Ok((handed, handles))
    }

    pub(super) fn variables(&self) -> &[(String, SecretValue)] {
        &self.variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_crosses_the_socket_and_is_not_printed() {
        let value = SecretValue::new(b"ses\0\xffame".to_vec());
        let grant = SecretGrant { variable: "TOKEN".into(), file: true, value };
        let text = serde_json::to_string(&grant).unwrap();
        assert_eq!(serde_json::from_str::<SecretGrant>(&text).unwrap(), grant);
        assert!(!format!("{grant:?}").contains("ame"), "{grant:?}");
    }
}
