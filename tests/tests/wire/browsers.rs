//! What a browser sends on behalf of a page of another origin, and what programs send.

use muster_tests::{Scheduler, Settings, for_each_store};

/// Headers of a `fetch` with `mode: "no-cors"` from another origin, as Chromium sends them.
const PAGE: [(&str, &str); 5] = [
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36",
    ),
    ("Origin", "http://evil.example"),
    ("Sec-Fetch-Site", "cross-site"),
    ("Sec-Fetch-Mode", "no-cors"),
    ("Content-Type", "text/plain;charset=UTF-8"),
];

for_each_store! {
    fn a_page_of_another_origin_submits_nothing_and_claims_nothing(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("sleep 60");
        let ask = |method: &str, target: &str, headers: &[(&str, &str)], body: &str| {
            let request = scheduler.http().request(method, target);
            headers.iter().fold(request, |request, (name, value)| request.header(name, value)).body(body).send()
        };
        let refused = ask("POST", "/jobs", &PAGE, r#"{"command":"touch /tmp/x"}"#);
        assert!(refused.expect(403).text().contains("--allow-origin http://evil.example"), "{}", refused.text());
        let image = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")];
        ask("GET", "/jobs/next", &image, "").expect(403);
        ask("GET", "/jobs/next", &PAGE[..1], "").expect(403);
        ask("GET", "/metrics", &image, "").expect(403);
        assert_eq!(scheduler.jobs().len(), 1);
        assert_eq!(scheduler.status(&id), "pending");
    }
}

#[test]
fn a_host_that_is_not_known_is_refused_with_the_flag_to_set() {
    let settings =
        Settings::default().set("hostname", "muster.example").set("allow-origin", "https://board.example");
    let scheduler = Scheduler::start_with(muster_tests::StoreKind::Memory, settings);
    let raw = |head: &str| scheduler.http().raw(head.as_bytes()).unwrap();
    let refused = raw("GET /jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(refused.expect(421).text().contains("--hostname evil.example"), "{}", refused.text());
    raw("GET /jobs HTTP/1.1\r\nHost: muster.example:80\r\nConnection: close\r\n\r\n").expect(200);
    raw("GET /jobs HTTP/1.0\r\n\r\n").expect(200);
    let page = "Host: localhost\r\nOrigin: https://board.example\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n";
    let answer = raw(&format!("GET /jobs HTTP/1.1\r\n{page}\r\n"));
    assert_eq!(answer.expect(200).header("access-control-allow-origin"), Some("https://board.example"));
    let asked = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: content-type\r\n";
    let answer = raw(&format!("OPTIONS /queues/a HTTP/1.1\r\n{page}{asked}\r\n"));
    assert_eq!(answer.expect(204).header("access-control-allow-headers"), Some("content-type"));
}
