//! Login through a real OIDC provider, with the real programs: browsers and terminals, groups and roles, and everything that
//! must not let anybody in.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_tests::{
    Backing, Browser, CLIENT_SECRET, Http, LoginProvider, Page, Process, Response, Scheduler, StoreKind,
    binary, until,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(60);
const SESSION: &str = "muster_session";
const UNDER_WAY: &str = "muster_oidc";

fn person(name: &str, groups: &[&str]) -> Value {
    json!({ "preferred_username": name, "groups": groups })
}

/// A provider that knows ann, who may use the scheduler, and root, an admin of it.
fn company(options: &Value) -> LoginProvider {
    let provider = LoginProvider::prepare(options);
    provider.set_people(&json!({ "s-ann": person("ann", &["ml"]), "s-root": person("root", &["root"]) }));
    provider
}

fn start(kind: StoreKind) -> (LoginProvider, Scheduler) {
    let mut provider = company(&json!({}));
    let scheduler = Scheduler::start_with(kind, provider.settings());
    provider.start(&[&scheduler]);
    (provider, scheduler)
}

/// Begins a login; returns where the provider is.
fn begin(browser: &mut Browser, scheduler: &Scheduler) -> String {
    let begun = browser.typed(&format!("{}/auth/oidc/login", scheduler.url()));
    begun.expect(302).header("location").unwrap().to_owned()
}

fn is_callback(url: &str) -> bool {
    url.contains("/auth/oidc/callback")
}

/// Logs in at the provider; returns where the browser is sent back to, without going there.
fn sent_back(browser: &mut Browser, scheduler: &Scheduler, subject: &str) -> String {
    let place = begin(browser, scheduler);
    let page = browser.log_in(&place, subject, false, &is_callback);
    assert!(is_callback(&page.url), "{}: {}", page.url, page.response.text());
    page.url
}

fn log_in(browser: &mut Browser, scheduler: &Scheduler, subject: &str) -> Response {
    let back = sent_back(browser, scheduler, subject);
    browser.step(&back, None)
}

/// A session by a login in a browser of its own.
fn session(scheduler: &Scheduler, subject: &str) -> String {
    let mut browser = Browser::default();
    log_in(&mut browser, scheduler, subject).expect(200);
    browser.cookie(SESSION).unwrap().to_owned()
}

fn get(http: &Http, token: &str, target: &str) -> Response {
    http.request("GET", target).header("Authorization", &format!("Bearer {token}")).send()
}

fn whoami(scheduler: &Scheduler, token: &str) -> Value {
    get(&scheduler.http(), token, "/auth/whoami").expect(200).json()
}

fn change(scheduler: &Scheduler, admin: &str, user: &str, change: &Value) -> Response {
    let request = scheduler.http().request("PATCH", &format!("/users/{user}"));
    request.header("Authorization", &format!("Bearer {admin}")).body(change.to_string()).send()
}

/// The actions of the audit log, oldest first, with what they were done to.
fn audit(scheduler: &Scheduler, admin: &str) -> Vec<(String, String)> {
    let lines = get(&scheduler.http(), admin, "/audit").expect(200).json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pairs = lines.as_array().unwrap().iter().rev();
    pairs.map(|line| (text(&line["action"]), text(&line["object"]))).collect()
}

#[test]
fn a_browser_logs_in_and_its_cookie_works() {
    let (_provider, scheduler) = start(StoreKind::Sqlite);
    let methods = scheduler.http().get("/auth/methods").expect(200).json();
    assert_eq!(methods["oidc"]["login_url"], format!("{}/auth/oidc/login", scheduler.url()));
    let mut browser = Browser::default();
    let page = log_in(&mut browser, &scheduler, "s-ann");
    assert!(page.expect(200).text().contains("url=/docs\""), "{}", page.text());
    let cookies: Vec<&str> = page
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert!(cookies[0].contains("; HttpOnly; SameSite=Strict; Max-Age=86400"), "{cookies:?}");
    assert!(cookies[1].starts_with("muster_oidc=;") && cookies[1].contains("Max-Age=0"), "{cookies:?}");
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let cookie = format!("{SESSION}={}", browser.cookie(SESSION).unwrap());
    let me = scheduler.http().request("GET", "/auth/whoami").header("Cookie", &cookie).send();
    let me = me.expect(200).json();
    assert_eq!((&me["name"], &me["role"], &me["login"]), (&json!("ann"), &json!("user"), &json!("oidc")));
    let job = scheduler.http().request("POST", "/jobs").header("Cookie", &cookie);
    job.clone().body("{\"command\":\"true\"}").send().expect(401);
    job.header("X-Muster-Page", "1").body("{\"command\":\"true\"}").send().expect(201);
    let admin = session(&scheduler, "s-root");
    let users = get(&scheduler.http(), &admin, "/users").json();
    assert_eq!((&users[0]["oidc_subject"], &users[0]["has_password"]), (&json!("s-ann"), &json!(false)));
    let seen = audit(&scheduler, &admin);
    let expected = [("user.create", "ann"), ("login", "ann"), ("user.create", "root"), ("login", "root")];
    assert_eq!(seen, expected.map(|(action, object)| (action.to_owned(), object.to_owned())));
}

#[test]
fn a_browser_is_led_to_paths_of_the_scheduler_only() {
    let (_provider, scheduler) = start(StoreKind::Memory);
    let mut browser = Browser::default();
    let ask = |browser: &mut Browser, to: &str| {
        browser.typed(&format!("{}/auth/oidc/login?to={to}", scheduler.url()))
    };
    for foreign in
        ["//evil.example", "https%3A%2F%2Fevil.example", "/%5Cevil.example", "%2F%2Fevil.example", "jobs"]
    {
        let refused = ask(&mut browser, foreign);
        assert!(refused.expect(400).text().starts_with("to: write a path"), "{foreign}: {}", refused.text());
    }
    let place = ask(&mut browser, "/jobs%3Fstatus%3Ddone%26limit%3D5")
        .expect(302)
        .header("location")
        .unwrap()
        .to_owned();
    let page = browser.log_in(&place, "s-ann", false, &is_callback);
    let page = browser.step(&page.url, None);
    assert!(page.expect(200).text().contains("url=/jobs?status=done&amp;limit=5\""), "{}", page.text());
}

/// Replaces the value of a parameter.
fn with_param(url: &str, name: &str, value: &str) -> String {
    let (head, rest) = url.split_once(&format!("{name}=")).unwrap();
    let tail = rest.split_once('&').map(|(_, tail)| format!("&{tail}")).unwrap_or_default();
    format!("{head}{name}={value}{tail}")
}

#[test]
fn what_this_browser_has_not_begun_lets_nobody_in() {
    let (_provider, scheduler) = start(StoreKind::Memory);
    let refused = |browser: &mut Browser, url: &str, status: u16, said: &str| {
        let answer = browser.step(url, None);
        assert!(answer.expect(status).text().contains(said), "{said}: {}", answer.text());
        assert_eq!(browser.cookie(SESSION), None);
    };
    let mut browser = Browser::default();
    let back = sent_back(&mut browser, &scheduler, "s-ann");
    refused(&mut Browser::default(), &back, 400, "has begun no login here");
    refused(&mut browser, &with_param(&back, "state", "wrong"), 400, "belongs to another login");
    let mut other = Browser::default();
    begin(&mut other, &scheduler);
    refused(&mut other, &back, 400, "belongs to another login");
    let right = browser.cookie(UNDER_WAY).unwrap().to_owned();
    let flipped = if right.starts_with('a') { "b" } else { "a" };
    browser.set_cookie(UNDER_WAY, &format!("{flipped}{}", &right[1..]));
    refused(&mut browser, &back, 400, "its cookie is not ours");
    browser.set_cookie(UNDER_WAY, &right);
    refused(&mut browser, &with_param(&back, "code", "made-up"), 400, "invalid_grant");
    refused(&mut browser, &with_param(&back, "iss", "http%3A%2F%2Fother"), 400, "another provider");
    let before = browser.clone();
    browser.step(&back, None).expect(200);
    assert!(browser.cookie(SESSION).is_some());
    refused(&mut before.clone(), &back, 400, "invalid_grant");
    // The code of one login with the cookie and the state of another one.
    let (mut one, mut two) = (Browser::default(), Browser::default());
    let (first, second) =
        (sent_back(&mut one, &scheduler, "s-ann"), sent_back(&mut two, &scheduler, "s-root"));
    let code = first.split_once("code=").unwrap().1.split('&').next().unwrap();
    refused(&mut two, &with_param(&second, "code", code), 400, "invalid_grant");
    // The provider repeats another nonce than the one that was asked for.
    let mut browser = Browser::default();
    let place = with_param(&begin(&mut browser, &scheduler), "nonce", "another");
    let page = browser.log_in(&place, "s-ann", false, &is_callback);
    refused(&mut browser, &page.url, 502, "it belongs to another login");
    let mut browser = Browser::default();
    let place = begin(&mut browser, &scheduler);
    let page = browser.log_in(&place, "s-ann", true, &is_callback);
    refused(&mut browser, &page.url, 403, "denied at the provider");
}

#[test]
fn groups_become_roles_at_each_login() {
    let (provider, scheduler) = start(StoreKind::Sqlite);
    let admin = session(&scheduler, "s-root");
    let ann = session(&scheduler, "s-ann");
    let with = |groups: &[&str]| {
        provider.set_people(&json!({ "s-ann": person("ann", groups), "s-root": person("root", &["ml"]) }));
    };
    with(&["other", "ops", "ml"]);
    assert_eq!(whoami(&scheduler, &ann)["role"], "user");
    let again = session(&scheduler, "s-ann");
    assert_eq!(whoami(&scheduler, &again)["role"], "operator");
    assert_eq!(whoami(&scheduler, &ann)["role"], "operator", "all sessions have the role of the account");
    with(&["other"]);
    let refused = log_in(&mut Browser::default(), &scheduler, "s-ann");
    assert!(refused.expect(403).text().contains("ann has no role here"), "{}", refused.text());
    let last = log_in(&mut Browser::default(), &scheduler, "s-root");
    assert!(last.expect(409).text().contains("root is the last admin"), "{}", last.text());
    let seen = audit(&scheduler, &admin);
    let end: Vec<&str> = seen.iter().rev().take(4).map(|(action, _)| action.as_str()).collect();
    assert_eq!(end, ["login.refused", "login.refused", "login", "user.change"]);
    assert_eq!(seen.last().unwrap().1, "root");
}

#[test]
fn a_name_takes_over_no_account() {
    let (provider, scheduler) = start(StoreKind::Sqlite);
    let admin = session(&scheduler, "s-root");
    let bob = json!({ "name": "bob", "role": "viewer", "password": "a long password" }).to_string();
    let made = scheduler.http().request("POST", "/users").header("Authorization", &format!("Bearer {admin}"));
    made.body(bob).send().expect(201);
    provider.set_people(&json!({
        "s-bob": person("bob", &["root"]), "s-other": person("root", &["root"]), "s-root": person("root", &["root"]),
        "s-odd": person("a b", &["ml"]), "s-none": { "groups": ["ml"] },
    }));
    let refused = |subject: &str, status: u16, said: &str| {
        let mut browser = Browser::default();
        let answer = log_in(&mut browser, &scheduler, subject);
        assert!(answer.expect(status).text().contains(said), "{}", answer.text());
        assert_eq!(browser.cookie(SESSION), None);
    };
    refused("s-bob", 409, "muster user set bob --oidc-subject s-bob");
    refused("s-other", 409, "user root exists already");
    refused("s-odd", 403, "cannot be the name of a user");
    refused("s-none", 403, "does not tell the claim preferred_username");
    change(&scheduler, &admin, "bob", &json!({ "oidc_subject": "s-root" })).expect(409);
    change(&scheduler, &admin, "bob", &json!({ "oidc_subject": "s-bob" })).expect(200);
    let bob = session(&scheduler, "s-bob");
    assert_eq!(whoami(&scheduler, &bob)["role"], "admin", "linked, it has the role of its groups");
    change(&scheduler, &admin, "bob", &json!({ "disabled": true })).expect(200);
    get(&scheduler.http(), &bob, "/auth/whoami").expect(401);
    refused("s-bob", 403, "user bob is disabled");
    change(&scheduler, &admin, "bob", &json!({ "disabled": false, "oidc_subject": "" })).expect(200);
    refused("s-bob", 409, "not linked");
}

/// The settings of a person, in which `muster login` keeps what it was given.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, scheduler: &Scheduler, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("muster"));
        command.args(arguments).env("MUSTER_URL", scheduler.url()).env("HOME", self.0.path());
        command.env("XDG_CONFIG_HOME", self.0.path()).current_dir(self.0.path());
        command
    }

    fn start(&self, scheduler: &Scheduler, arguments: &[&str]) -> Process {
        Process::start("muster", self.command(scheduler, arguments), &self.0.path().join("output"))
    }

    /// Runs it to its end; whether it succeeded, and what it said.
    fn run(&self, scheduler: &Scheduler, arguments: &[&str]) -> (bool, String) {
        let _ = fs::remove_file(self.0.path().join("output"));
        let mut process = self.start(scheduler, arguments);
        let status = process.wait(BOUND);
        (status.success(), process.output())
    }
}

/// The address with the code that a terminal shows.
fn shown(process: &mut Process) -> String {
    until("the terminal shows the code", BOUND, || {
        assert!(process.is_alive(), "it has ended: {}", process.output());
        process.output().contains("which has the code in it")
    });
    let said = process.output();
    assert!(said.contains(" in a browser and enter the code "), "{said}");
    said.split_once("or open ").unwrap().1.split(',').next().unwrap().to_owned()
}

fn enter(place: &str, subject: &str, denies: bool) -> Page {
    Browser::default().log_in(place, subject, denies, &|_| false)
}

#[test]
fn a_terminal_logs_in() {
    let (_provider, scheduler) = start(StoreKind::Sqlite);
    for arguments in [&["login", "--oidc"][..], &["login"]] {
        let home = Home::new();
        let mut login = home.start(&scheduler, arguments);
        let page = enter(&shown(&mut login), "s-ann", false);
        assert!(page.response.text().contains("Sign-in Success"), "{}", page.response.text());
        let status = login.wait(BOUND);
        assert!(status.success() && login.output().contains("logged in to"), "{}", login.output());
        let (fine, said) = home.run(&scheduler, &["whoami"]);
        assert!(fine && said.contains("ann (user), logged in through the provider"), "{said}");
        let (fine, said) = home.run(&scheduler, &["logout"]);
        assert!(fine, "{said}");
    }
}

#[test]
fn a_terminal_is_told_why_it_is_not_let_in() {
    let mut provider = company(&json!({ "device_ttl": 6 }));
    let scheduler = Scheduler::start_with(StoreKind::Memory, provider.settings());
    provider.start(&[&scheduler]);
    let (home, end) = (Home::new(), |mut login: Process| {
        let status = login.wait(BOUND);
        assert!(!status.success());
        login.output()
    });
    let (fine, said) = home.run(&scheduler, &["login", "--oidc"]);
    assert!(!fine && said.contains("has expired"), "{said}");
    let begun = scheduler.http().post("/auth/oidc/device", "").expect(200).json();
    let question = json!({ "handle": begun["handle"] });
    let asked = || scheduler.http().post_json("/auth/oidc/device/token", &question);
    assert_eq!(asked().expect(200).json(), json!({ "slow_down": false }));
    until("the code has expired here too", BOUND, || asked().status == 410);
    let forged = json!({ "handle": "e30.00" });
    scheduler.http().post_json("/auth/oidc/device/token", &forged).expect(410);
    provider.stop();
    let mut patient = company(&json!({}));
    let scheduler = Scheduler::start_with(StoreKind::Memory, patient.settings());
    patient.start(&[&scheduler]);
    let home = Home::new();
    let mut login = home.start(&scheduler, &["login"]);
    enter(&shown(&mut login), "s-ann", true);
    let said = end(login);
    assert!(said.contains("the login was denied at the provider"), "{said}");
    let home = Home::new();
    patient.set_people(&json!({ "s-eve": person("eve", &["sales"]) }));
    let mut login = home.start(&scheduler, &["login"]);
    enter(&shown(&mut login), "s-eve", false);
    let said = end(login);
    assert!(said.contains("eve has no role here"), "{said}");
}

#[test]
fn a_public_client_without_a_device_login_and_with_claims_elsewhere() {
    let mut provider = company(&json!({ "client_secret": null, "device": false, "claims_in_token": false }));
    let scheduler = Scheduler::start_with(StoreKind::Memory, provider.settings());
    provider.start(&[&scheduler]);
    let ann = session(&scheduler, "s-ann");
    assert_eq!(whoami(&scheduler, &ann)["role"], "user");
    let (fine, said) = Home::new().run(&scheduler, &["login", "--oidc"]);
    assert!(!fine && said.contains("has no device login"), "{said}");
    let plain = Scheduler::start(StoreKind::Memory);
    let (fine, said) = Home::new().run(&plain, &["login", "--oidc"]);
    assert!(!fine && said.contains("there is no login through a provider here"), "{said}");
    plain.http().get("/auth/oidc/login").expect(404);
}

#[test]
fn a_provider_that_is_away_costs_logins_only() {
    let (mut provider, scheduler) = start(StoreKind::Sqlite);
    let ann = session(&scheduler, "s-ann");
    let mut browser = Browser::default();
    let back = sent_back(&mut browser, &scheduler, "s-ann");
    provider.stop();
    assert_eq!(whoami(&scheduler, &ann)["name"], "ann");
    let refused = browser.step(&back, None);
    assert!(refused.expect(503).text().contains("cannot be asked"), "{}", refused.text());
    let refused = scheduler.http().post("/auth/oidc/device", "");
    assert!(refused.expect(503).text().contains(&provider.issuer()), "{}", refused.text());
    let (fine, said) = Home::new().run(&scheduler, &["login", "--oidc"]);
    assert!(!fine && said.contains("cannot be asked"), "{said}");
    scheduler.http().get("/readyz").expect(200);
    let fresh = Scheduler::start_with(StoreKind::Memory, provider.settings());
    fresh.http().get("/auth/oidc/login").expect(503);
    // It comes back with another key, which the scheduler has not read yet.
    provider.start(&[&scheduler]);
    until("logins work again", BOUND, || log_in(&mut Browser::default(), &scheduler, "s-ann").status == 200);
    assert_eq!(whoami(&scheduler, &ann)["name"], "ann");
}

#[test]
fn a_login_begins_at_one_scheduler_and_ends_at_another() {
    let mut provider = company(&json!({}));
    let backing = Backing::new(StoreKind::Postgres);
    let one = Scheduler::start_on(&backing, provider.settings());
    let settings = provider.settings().set("oidc-public-url", &one.url());
    let other = Scheduler::start_apart(&backing, settings, "other");
    provider.start(&[&one]);
    let mut browser = Browser::default();
    let back = sent_back(&mut browser, &one, "s-ann");
    let cookie = format!("{UNDER_WAY}={}", browser.cookie(UNDER_WAY).unwrap());
    let target = back.strip_prefix(&one.url()).unwrap();
    let answer = other.http().request("GET", target).header("Cookie", &cookie).send();
    let set = answer.expect(200).header("set-cookie").unwrap();
    let token = set.strip_prefix("muster_session=").unwrap().split(';').next().unwrap();
    for scheduler in [&one, &other] {
        assert_eq!(whoami(scheduler, token)["name"], "ann");
    }
    let begun = one.http().post("/auth/oidc/device", "").expect(200).json();
    enter(begun["verification_uri_complete"].as_str().unwrap(), "s-root", false);
    let question = json!({ "handle": begun["handle"] });
    let done = other.http().post_json("/auth/oidc/device/token", &question).expect(200).json();
    let token = done["session"]["token"].as_str().unwrap();
    assert_eq!(whoami(&one, token)["name"], "root");
}

/// Whether a file, or one below a directory, has these bytes in it.
fn holds(path: &Path, wanted: &str) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| holds(&entry.unwrap().path(), wanted));
    }
    let Ok(bytes) = fs::read(path) else { return false };
    bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

#[test]
fn what_the_provider_gives_is_kept_nowhere() {
    for kind in [StoreKind::Sqlite, StoreKind::Postgres] {
        let mut provider = company(&json!({}));
        let mut scheduler = Scheduler::start_with(kind, provider.settings().set("log", "trace"));
        provider.start(&[&scheduler]);
        let mut browser = Browser::default();
        let back = sent_back(&mut browser, &scheduler, "s-ann");
        let code = back.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
        let under_way = browser.cookie(UNDER_WAY).unwrap().to_owned();
        browser.step(&back, None).expect(200);
        let session = browser.cookie(SESSION).unwrap().to_owned();
        let begun = scheduler.http().post("/auth/oidc/device", "").expect(200).json();
        enter(begun["verification_uri_complete"].as_str().unwrap(), "s-root", false);
        let question = json!({ "handle": begun["handle"] });
        scheduler.http().post_json("/auth/oidc/device/token", &question).expect(200);
        scheduler.terminate();
        let log = scheduler.process().output();
        let dump = match kind {
            StoreKind::Postgres => {
                let dumped = Command::new("pg_dump").arg(scheduler.backing().url()).output().unwrap();
                assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
                String::from_utf8_lossy(&dumped.stdout).into_owned()
            }
            _ => String::new(),
        };
        let known = dump.contains("s-ann") || holds(&scheduler.backing().directory(), "s-ann");
        assert!(known, "the account is kept");
        let handle = begun["handle"].as_str().unwrap();
        // The last one is how every token of the provider in JSON begins.
        for secret in [CLIENT_SECRET, &code, &under_way, &session, handle, "eyJhbGciOi"] {
            assert!(!log.contains(secret), "the log has {secret}");
            assert!(!dump.contains(secret) && !holds(&scheduler.backing().directory(), secret), "{secret}");
        }
    }
}

#[test]
fn settings_that_contradict_each_other_are_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let start = |settings: &[&str]| {
        let mut command = Command::new(binary("muster-scheduler"));
        command.args(["--listen", "127.0.0.1:0", "--db-driver", "memory"]).args(settings);
        command.current_dir(directory.path());
        let log = directory.path().join("log");
        let _ = fs::remove_file(&log);
        let mut process = Process::start("muster-scheduler", command, &log);
        assert!(!process.wait(BOUND).success());
        process.output()
    };
    let said = start(&["--oidc-client-id", "muster"]);
    assert!(said.contains("add --oidc-issuer"), "{said}");
    let issuer =
        ["--oidc-issuer", "http://sso.example", "--oidc-client-id", "muster", "--oidc-role", "a=user"];
    assert!(start(&issuer).contains("write https://"));
    let mut missing = issuer.to_vec();
    missing[1] = "https://sso.example";
    missing.extend(["--oidc-client-secret-file", "nowhere"]);
    let said = start(&missing);
    assert!(said.contains("--oidc-client-secret-file is \"nowhere\""), "{said}");
    assert!(start(&["--oidc-role", "a=boss"]).contains("there is no role"));
}
