//! The gate, header by header.

use super::*;

fn gate(listening: &str, hostnames: &[&str], origins: &[&str]) -> Gate {
    let access = Access {
        hostnames: hostnames.iter().map(ToString::to_string).collect(),
        origins: origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        ..Access::default()
    };
    Gate::new(&access, Some(listening.parse().unwrap()), false)
}

/// The status with which `gate` answers, or 200.
fn answer(gate: &Gate, line: &str, headers: &[(&'static str, &str)]) -> u16 {
    let (method, path) = line.split_once(' ').unwrap();
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    let judged = gate.admit(&method.parse().unwrap(), &path.parse().unwrap(), &map);
    judged.map_or_else(|error| error.status.as_u16(), |_| 200)
}

#[test]
fn a_scheduler_on_loopback_goes_by_loopback_names_only() {
    let gate = gate("127.0.0.1:8080", &["muster.example"], &[]);
    for host in [
        "localhost",
        "localhost:8080",
        "LOCALHOST.:9",
        "my.localhost",
        "127.0.0.1:8080",
        "127.9.9.9",
        "[::1]:8080",
        "Muster.Example:80",
    ] {
        assert_eq!(answer(&gate, "GET /jobs", &[("host", host)]), 200, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "10.0.0.1", "a@localhost", "", "[::1", "localhost:x"]
    {
        assert_eq!(answer(&gate, "GET /jobs", &[("host", host)]), 421, "{host}");
    }
    assert_eq!(answer(&gate, "GET /jobs", &[("host", "localhost"), ("host", "localhost")]), 400);
    assert_eq!(answer(&gate, "GET http://evil.example/jobs", &[("host", "localhost")]), 421);
}

#[test]
fn a_request_without_a_host_comes_from_no_browser() {
    assert_eq!(answer(&gate("127.0.0.1:8080", &[], &[]), "GET /jobs", &[]), 200);
}

#[test]
fn on_every_address_each_address_and_the_name_of_the_machine_count() {
    let name = machine_name().unwrap();
    for listening in ["0.0.0.0:8080", "[::]:8080"] {
        let gate = gate(listening, &[], &[]);
        for host in ["10.1.2.3:8080", "[fe80::1]", "127.0.0.1", &name] {
            assert_eq!(answer(&gate, "GET /jobs", &[("host", host)]), 200, "{host}");
        }
        assert_eq!(answer(&gate, "GET /jobs", &[("host", "evil.example")]), 421);
    }
    let one = gate("10.1.2.3:8080", &[], &[]);
    assert_eq!(answer(&one, "GET /jobs", &[("host", "10.1.2.3")]), 200);
    assert_eq!(answer(&one, "GET /jobs", &[("host", "10.1.2.4")]), 421);
}

#[test]
fn a_page_of_another_origin_is_refused_however_it_asks() {
    let gate = gate("127.0.0.1:8080", &[], &["https://good.example"]);
    let host = ("host", "localhost:8080");
    let foreign: [&[(&'static str, &str)]; 9] = [
        &[host, ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")],
        &[host, ("origin", "http://evil.example")],
        &[host, ("origin", "null")],
        &[host, ("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")],
        &[host, ("origin", "http://localhost:8080"), ("sec-fetch-site", "same-site")],
        &[host, ("origin", "http://localhost")],
        &[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[host, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "navigate")],
        &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "no-cors")],
    ];
    for headers in foreign {
        for line in ["GET /jobs", "POST /jobs", "GET /jobs/next", "GET /nowhere", "OPTIONS /jobs"] {
            assert_eq!(answer(&gate, line, headers), 403, "{line} {headers:?}");
        }
    }
    let own = [host, ("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")];
    assert_eq!(answer(&gate, "POST /jobs", &own), 200);
    let allowed = [host, ("origin", "https://good.example"), ("sec-fetch-site", "cross-site")];
    assert_eq!(answer(&gate, "POST /jobs", &allowed), 200);
}

#[test]
fn behind_a_proxy_the_page_is_the_schedulers_own() {
    let gate = gate("127.0.0.1:8080", &["muster.example"], &[]);
    let own = [("host", "muster.example"), ("origin", "https://muster.example")];
    assert_eq!(answer(&gate, "POST /jobs", &own), 200);
}

#[test]
fn who_types_an_address_may_read_but_not_claim() {
    let gate = gate("127.0.0.1:8080", &[], &[]);
    let typed = [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")];
    assert_eq!(answer(&gate, "GET /docs", &typed), 200);
    assert_eq!(answer(&gate, "POST /jobs", &typed), 403);
    assert_eq!(answer(&gate, "GET /jobs/next", &typed), 403);
    // Browsers leave the other headers out when the address is neither loopback nor https.
    let image = [("host", "localhost"), ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)")];
    assert_eq!(answer(&gate, "GET /jobs/next?worker_id=x", &image), 403);
    let go = [("host", "localhost"), ("user-agent", "Go-http-client/1.1")];
    assert_eq!(answer(&gate, "GET /jobs/next?worker_id=x", &go), 200);
}

#[test]
fn a_browser_comes_back_from_a_login_provider_and_from_nowhere_else() {
    let gate = gate("127.0.0.1:8080", &[], &[]);
    let back = "GET /auth/oidc/callback?code=c&state=s";
    let with = |site: &str, mode: &str, dest: &str, line: &str| {
        let fetched = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        let mut headers = vec![("host", "localhost:8080")];
        headers.extend(fetched.into_iter().filter(|(_, value)| !value.is_empty()));
        answer(&gate, line, &headers)
    };
    for site in ["cross-site", "same-site"] {
        assert_eq!(with(site, "navigate", "document", back), 200, "{site}");
        for (mode, dest) in [
            ("navigate", "iframe"),
            ("navigate", "object"),
            ("navigate", ""),
            ("no-cors", "image"),
            ("cors", "empty"),
            ("no-cors", "document"),
            ("", "document"),
        ] {
            assert_eq!(with(site, mode, dest, back), 403, "{site} {mode} {dest}");
        }
        for line in [
            "POST /auth/oidc/callback",
            "HEAD /auth/oidc/callback",
            "GET /auth/oidc/callback/",
            "GET /auth/oidc/login",
            "GET /docs",
            "GET /jobs/next",
            "POST /auth/oidc/device",
        ] {
            assert_eq!(with(site, "navigate", "document", line), 403, "{site} {line}");
        }
    }
    let posted = [
        ("host", "localhost:8080"),
        ("origin", "https://sso.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    assert_eq!(answer(&gate, back, &posted), 403, "a navigation by GET has no origin");
    assert_eq!(answer(&gate, back, &[("host", "evil.example")]), 421);
}

#[test]
fn a_scheduler_with_tls_has_pages_of_https_only() {
    let own = |secure: bool, host: &str, origin: &str| {
        let gate = Gate::new(&Access::default(), Some("127.0.0.1:8443".parse().unwrap()), secure);
        answer(&gate, "POST /jobs", &[("host", host), ("origin", origin)])
    };
    assert_eq!(own(true, "localhost:8443", "https://localhost:8443"), 200);
    assert_eq!(own(true, "localhost", "https://localhost"), 200);
    assert_eq!(own(true, "localhost:8443", "http://localhost:8443"), 403);
    assert_eq!(own(true, "localhost", "http://localhost"), 403);
    assert_eq!(own(false, "localhost:8443", "https://localhost:8443"), 200, "a proxy may end TLS");
}
