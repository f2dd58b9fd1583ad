//! A certificate that the scheduler makes for itself, in its data directory.
//!
//! Guarantee: it is made once and used from then on, so that clients which pin it go on; schedulers that share a data
//! directory share it, also when they start at the same time.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use muster_tls::TlsError;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::Pair;
use crate::config::ServerConfig;
use crate::error::ServerError;
use crate::private_files::make_own_directory;

const DIRECTORY: &str = "tls";
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";
/// Held while one of several schedulers makes the pair.
const LOCK: &str = "lock";
/// A pin has no use for a certificate that ends; the years are fixed, so that no clock is asked.
const YEARS: (i32, i32) = (2020, 2120);

/// The pair of the data directory; made when it is not there.
pub(super) fn find_or_make(
    config: &ServerConfig,
    listening: Option<SocketAddr>,
) -> Result<Pair, ServerError> {
    let directory = config.data_dir.join(DIRECTORY);
    let unusable = |source| ServerError::DataDir { path: directory.clone(), source };
    make_own_directory(&directory).map_err(unusable)?;
    let lock =
        File::options().create(true).truncate(false).write(true).mode(0o600).open(directory.join(LOCK));
    let lock = lock.map_err(unusable)?;
    lock.lock().map_err(unusable)?;
    let pair = Pair { certificate: directory.join(CERTIFICATE), key: directory.join(KEY) };
    match (pair.certificate.exists(), pair.key.exists()) {
        (true, true) => return Ok(pair),
        (false, false) => {}
        (found, _) => {
            let (here, missing) =
                if found { (&pair.certificate, &pair.key) } else { (&pair.key, &pair.certificate) };
            let problem = format!(
                "{} is there, but {} is not: restore it, or remove the other one for a new certificate, which clients \
                 then have to pin anew",
                here.display(),
                missing.display()
            );
            return Err(TlsError::Setup(problem).into());
        }
    }
    let (certificate, key) = make(names(config, listening)).map_err(TlsError::Setup)?;
    write(&pair.key, &key).and_then(|()| write(&pair.certificate, &certificate)).map_err(unusable)?;
    tracing::info!(path = %pair.certificate.display(), "made a certificate and its key");
    Ok(pair)
}

/// Whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)
}

/// The certificate and its key, in PEM.
fn make(names: Vec<String>) -> Result<(String, String), String> {
    let made = || {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "Muster scheduler");
        params.not_before = date_time_ymd(YEARS.0, 1, 1);
        params.not_after = date_time_ymd(YEARS.1, 1, 1);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok::<_, rcgen::Error>((params.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    made().map_err(|error| format!("no certificate could be made: {error}"))
}

/// All names by which clients may reach the scheduler, for those that check them.
fn names(config: &ServerConfig, listening: Option<SocketAddr>) -> Vec<String> {
    let mut names = vec!["localhost".to_owned()];
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    match listening.map(|address| address.ip().to_canonical()) {
        Some(address) if address.is_unspecified() => addresses.extend(own_addresses()),
        Some(address) => addresses.push(address),
        None => {}
    }
    names.extend(nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()));
    let told = config.advertise_url.as_ref().and_then(|url| url.parse::<http::Uri>().ok());
    names.extend(told.and_then(|url| url.host().map(str::to_owned)));
    names.extend(config.access.hostnames.iter().cloned());
    names.extend(addresses.iter().map(ToString::to_string));
    let plain = |name: String| name.trim_start_matches('[').trim_end_matches(['.', ']']).to_ascii_lowercase();
    let mut names: Vec<String> =
        names.into_iter().map(plain).filter(|name| !name.is_empty() && name.is_ascii()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The addresses of this machine.
fn own_addresses() -> Vec<IpAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let fourth = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        fourth.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::Access;

    fn config(data_dir: &Path) -> ServerConfig {
        let access = Access {
            hostnames: vec!["Muster.Example.".to_owned(), "[fd00::1]".to_owned()],
            ..Access::default()
        };
        ServerConfig { data_dir: data_dir.to_owned(), access, ..ServerConfig::default() }
    }

    #[test]
    fn it_is_made_once_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let pair = find_or_make(&config, None).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&pair.key), mode(pair.key.parent().unwrap())), (0o600, 0o700));
        let first = (read(&pair.certificate), read(&pair.key));
        assert_eq!(find_or_make(&config, None).unwrap(), pair);
        assert_eq!((read(&pair.certificate), read(&pair.key)), first);
        super::super::Tls::new(pair.clone()).unwrap();
        fs::remove_file(&pair.certificate).unwrap();
        let refused = find_or_make(&config, None).unwrap_err().to_string();
        assert!(refused.contains("key.pem is there") && refused.contains("cert.pem is not"), "{refused}");
        assert_eq!(read(&pair.key), first.1, "nothing was written over");
    }

    #[test]
    fn it_has_every_name_that_clients_may_use() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = config(directory.path());
        config.advertise_url = Some("https://told.example:8443".to_owned());
        let named = names(&config, Some("10.1.2.3:80".parse().unwrap()));
        for name in ["localhost", "127.0.0.1", "::1", "10.1.2.3", "muster.example", "fd00::1", "told.example"]
        {
            assert!(named.iter().any(|known| known == name), "{name} in {named:?}");
        }
        assert!(make(named).is_ok());
        let everywhere = names(&config, Some("0.0.0.0:80".parse().unwrap()));
        assert!(!everywhere.iter().any(|name| name == "0.0.0.0"), "{everywhere:?}");
    }
}
