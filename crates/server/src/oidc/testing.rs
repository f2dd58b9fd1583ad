//! Settings and keys for the tests of logins.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use muster_domain::access::UserRole;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::config::{OidcConfig, RoleOfGroup};

pub(crate) fn config(roles: &[(&str, UserRole)]) -> OidcConfig {
    let role = |(group, role): &(&str, UserRole)| RoleOfGroup { group: (*group).to_owned(), role: *role };
    OidcConfig {
        issuer: "https://sso.example".to_owned(),
        client_id: "muster".to_owned(),
        client_secret_file: None,
        public_url: None,
        name_claim: "preferred_username".to_owned(),
        groups_claim: "groups".to_owned(),
        roles: roles.iter().map(role).collect(),
        default_role: None,
        scopes: "openid".to_owned(),
    }
}

/// A key of a provider.
pub(crate) struct Key {
    pair: EcdsaKeyPair,
    id: &'static str,
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Key {
    pub(crate) fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Self { pair: pair.unwrap(), id }
    }

    pub(crate) fn public(&self) -> Jwk {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (base64(x), base64(y));
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y });
        serde_json::from_value(key).unwrap()
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({ "alg": "ES256", "kid": self.id }), claims)
    }

    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", base64(signature))
    }
}
