//! ID tokens, right and wrong, with keys that are made here.

use serde_json::json;

use super::*;
use crate::oidc::testing::{Key, base64};

const NOW: i64 = 1_800_000_000;

fn expected() -> Expected<'static> {
    let now = Timestamp::from_micros(NOW * 1_000_000);
    Expected { issuer: "https://sso.example", client_id: "muster", nonce: Some("n1"), now }
}

fn claims() -> Value {
    json!({
        "iss": "https://sso.example", "aud": "muster", "sub": "s1", "nonce": "n1",
        "iat": NOW - 5, "exp": NOW + 300,
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

#[test]
fn a_token_of_the_provider_for_us_and_for_now_is_accepted() {
    let key = Key::new("k1");
    let fine = [
        claims(),
        with("aud", json!(["muster"])),
        with("azp", json!("muster")),
        with("exp", json!(NOW - 59)),
        with("iat", json!(NOW + 60)),
        with("exp", json!(NOW as f64 + 0.5)),
    ];
    for claims in fine {
        let verified = verify(&key.sign(&claims), &[Key::new("k0").public(), key.public()], &expected());
        assert_eq!(verified.map(|found| found["sub"].clone()), Ok(json!("s1")), "{claims}");
    }
    let mut several = with("aud", json!(["other", "muster"]));
    several["azp"] = json!("muster");
    assert!(verify(&key.sign(&several), &[key.public()], &expected()).is_ok());
    let unnamed = key.sign_with(&json!({ "alg": "ES256" }), &claims());
    assert!(verify(&unnamed, &[Key::new("k0").public(), key.public()], &expected()).is_ok());
}

#[test]
fn claims_that_are_not_for_us_or_not_for_now_are_refused() {
    let key = Key::new("k1");
    let cases = [
        (with("iss", json!("https://sso.example/")), Unfit::Issuer),
        (with("iss", json!(["https://sso.example"])), Unfit::Claim("iss")),
        (with("aud", json!("other")), Unfit::Audience),
        (with("aud", json!(["other", "muster"])), Unfit::Audience),
        (with("azp", json!("other")), Unfit::Audience),
        (with("aud", json!(null)), Unfit::Claim("aud")),
        (with("exp", json!(NOW - 60)), Unfit::Expired),
        (with("exp", json!("1900000000")), Unfit::Claim("exp")),
        (with("exp", json!(1e300)), Unfit::Claim("exp")),
        (with("iat", json!(NOW + 61)), Unfit::Early),
        (with("nbf", json!(NOW + 61)), Unfit::Early),
        (with("nonce", json!("n2")), Unfit::Nonce),
        (with("nonce", json!(null)), Unfit::Nonce),
        (with("sub", json!("")), Unfit::Claim("sub")),
        (with("sub", json!("a\u{0}")), Unfit::Claim("sub")),
        (with("sub", json!("x".repeat(256))), Unfit::Claim("sub")),
    ];
    for (claims, why) in cases {
        assert_eq!(verify(&key.sign(&claims), &[key.public()], &expected()), Err(why), "{claims}");
    }
    let no_nonce = Expected { nonce: None, ..expected() };
    assert!(verify(&key.sign(&with("nonce", json!(null))), &[key.public()], &no_nonce).is_ok());
}

#[test]
fn only_a_key_of_the_provider_signs() {
    let (key, thief) = (Key::new("k1"), Key::new("k1"));
    let stolen = thief.sign(&claims());
    assert_eq!(verify(&stolen, &[key.public()], &expected()), Err(Unfit::Signature));
    assert_eq!(verify(&Key::new("k2").sign(&claims()), &[key.public()], &expected()), Err(Unfit::UnknownKey));
    assert_eq!(verify(&key.sign(&claims()), &[], &expected()), Err(Unfit::UnknownKey));
    let (head, signature) =
        key.sign(&claims()).rsplit_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let header = head.split_once('.').unwrap().0;
    let changed = format!("{header}.{}.{signature}", base64(with("sub", json!("admin")).to_string()));
    assert_eq!(verify(&changed, &[key.public()], &expected()), Err(Unfit::Signature));
}

#[test]
fn tokens_without_a_public_key_behind_them_are_refused() {
    let key = Key::new("k1");
    let with = |header: Value| key.sign_with(&header, &claims());
    let judged = |token: &str| verify(token, &[key.public()], &expected()).unwrap_err();
    assert_eq!(judged(&with(json!({ "alg": "none" }))), Unfit::Algorithm("none".to_owned()));
    assert_eq!(judged(&with(json!({ "alg": "HS256", "kid": "k1" }))), Unfit::Algorithm("HS256".to_owned()));
    assert_eq!(judged(&with(json!({ "alg": "RS256", "kid": "k1" }))), Unfit::UnknownKey);
    assert_eq!(judged(&with(json!({ "alg": "ES384", "kid": "k1" }))), Unfit::Signature);
    assert_eq!(judged(&with(json!({ "alg": "ES256", "kid": "k1", "crit": ["b64"] }))), Unfit::Malformed);
    for text in ["", "a", "a.b", "a.b.c", "a.b.c.d", "..", "\u{e4}.\u{e4}.\u{e4}"] {
        assert_eq!(judged(text), Unfit::Malformed, "{text}");
    }
    let mut encrypts = key.public();
    encrypts.common.public_key_use = Some(PublicKeyUse::Encryption);
    assert_eq!(verify(&key.sign(&claims()), &[encrypts], &expected()), Err(Unfit::UnknownKey));
}
