//! Whole handshakes in memory: who is believed under which rule, and what is said of the others.

use std::io;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::*;
use crate::trust::{Trust, Verification, client_config, provider};
use crate::untrusted;

struct Shown {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Shown {
    fn self_signed(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { certificate: certificate.der().clone(), key }
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(&self.certificate)
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed_by(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Shown {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    Shown { certificate: certificate.der().clone(), key }
}

fn roots(authority: &CertifiedIssuer<'static, KeyPair>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    roots
}

fn named(roots: RootCertStore) -> Verification {
    Verification::Named { roots, pins: Pins::default() }
}

/// Shows what it was given, whether the key fits or not.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesServerCert for Shows {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn server(certificate: &CertificateDer<'static>, key: &KeyPair) -> ServerConnection {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let key = provider().key_provider.load_private_key(key).unwrap();
    let shown = Arc::new(Shows(Arc::new(CertifiedKey::new(vec![certificate.clone()], key))));
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth().with_cert_resolver(shown);
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Carries what one side has to say over to the other.
fn carry(
    from: &mut rustls::ConnectionCommon<impl rustls::SideData>,
    to: &mut rustls::ConnectionCommon<impl rustls::SideData>,
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = io::Cursor::new(bytes);
    while (rest.position() as usize) < rest.get_ref().len() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

fn shake(config: ClientConfig, name: &str, mut server: ServerConnection) -> Result<(), Error> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    while client.is_handshaking() {
        carry(&mut client, &mut server)?;
        carry(&mut server, &mut client)?;
    }
    Ok(())
}

fn judge(verification: Verification, name: &str, shown: &Shown) -> Result<(), Untrusted> {
    let server = server(&shown.certificate, &shown.key);
    let shaken = shake(client_config(verification).unwrap(), name, server);
    // As it comes out of a stream.
    shaken.map_err(|error| untrusted(&io::Error::other(error)).expect("a certificate is at fault").clone())
}

#[test]
fn a_pinned_certificate_is_accepted_under_any_name_and_no_other_is() {
    let (ours, other) = (Shown::self_signed("elsewhere"), Shown::self_signed("localhost"));
    let (pinned, seen) = (ours.fingerprint(), other.fingerprint());
    assert_eq!(judge(Verification::Pinned(pinned), "localhost", &ours), Ok(()));
    let refused = judge(Verification::Pinned(pinned), "localhost", &other).unwrap_err();
    assert_eq!(refused, Untrusted::NotPinned { pinned, seen });
    let text = refused.to_string();
    assert!(text.contains(&pinned.to_string()) && text.contains(&seen.to_string()), "{text}");
}

#[test]
fn a_pinned_certificate_without_its_key_is_worth_nothing() {
    let (ours, thief) = (Shown::self_signed("localhost"), KeyPair::generate().unwrap());
    for verification in [Verification::Pinned(ours.fingerprint()), Verification::Nobody] {
        let config = client_config(verification).unwrap();
        assert!(shake(config, "localhost", server(&ours.certificate, &thief)).is_err());
    }
}

#[test]
fn an_authority_vouches_for_a_name() {
    let authority = authority();
    let shown = signed_by(&authority, "muster.example");
    assert_eq!(judge(named(roots(&authority)), "muster.example", &shown), Ok(()));
    let elsewhere = judge(named(roots(&authority)), "other.example", &shown).unwrap_err().to_string();
    assert!(elsewhere.ends_with("is for muster.example and not for other.example"), "{elsewhere}");
    let unknown = judge(named(roots(&self::authority())), "muster.example", &shown).unwrap_err();
    assert_eq!(unknown, Untrusted::UnknownIssuer { seen: shown.fingerprint() });
    let alone = judge(named(RootCertStore::empty()), "muster.example", &shown).unwrap_err();
    assert_eq!(alone, Untrusted::UnknownIssuer { seen: shown.fingerprint() });
}

#[test]
fn pins_may_change_and_count_beside_authorities() {
    let shown = Shown::self_signed("a");
    let pins = Pins::default();
    let judge = || {
        let verification = Verification::Named { roots: RootCertStore::empty(), pins: pins.clone() };
        judge(verification, "b", &shown).is_ok()
    };
    assert!(!judge());
    pins.replace([shown.fingerprint()].into());
    assert!(judge());
    pins.replace([Shown::self_signed("a").fingerprint()].into());
    assert!(!judge());
}

#[test]
fn without_the_name_the_authority_still_counts() {
    let authority = authority();
    let shown = signed_by(&authority, "db.example");
    assert_eq!(judge(Verification::Signed(roots(&authority)), "10.0.0.1", &shown), Ok(()));
    assert!(judge(Verification::Signed(roots(&self::authority())), "10.0.0.1", &shown).is_err());
    assert!(judge(Verification::Signed(roots(&authority)), "10.0.0.1", &Shown::self_signed("x")).is_err());
    assert_eq!(judge(Verification::Nobody, "10.0.0.1", &Shown::self_signed("x")), Ok(()));
}

#[test]
fn a_certificate_that_is_over_is_refused_but_by_a_pin() {
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2000, 1, 1);
    let certificate = params.signed_by(&key, &authority).unwrap().der().clone();
    let shown = Shown { certificate, key };
    for verification in [named(roots(&authority)), Verification::Signed(roots(&authority))] {
        let refused = judge(verification, "a.example", &shown).unwrap_err();
        assert!(matches!(refused, Untrusted::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("expired"), "{refused}");
    }
    assert_eq!(judge(Verification::Pinned(shown.fingerprint()), "a.example", &shown), Ok(()));
}

#[test]
fn a_self_signed_certificate_can_be_its_own_authority() {
    let directory = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let path = directory.path().join("ca.pem");
    std::fs::write(&path, certificate.pem()).unwrap();
    let config = Trust { ca_file: Some(path), fingerprint: None }.client_config().unwrap();
    shake(config, "a.example", server(certificate.der(), &key)).unwrap();
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let said = |content: Option<&str>| {
        let path = directory.path().join("ca.pem");
        let _ = std::fs::remove_file(&path);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = Trust { ca_file: Some(path), fingerprint: None }.client_config().unwrap_err().to_string();
        assert!(error.contains("ca.pem"), "{error}");
        error
    };
    assert!(said(None).contains("No such file"));
    assert!(said(Some("hello")).contains("has no certificate"));
    assert!(said(Some(&KeyPair::generate().unwrap().serialize_pem())).contains("has no certificate"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(said(Some(broken)).contains("cannot be used"));
}
