//! Every route has a row and every row a route, by the router and by the OpenAPI document.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use muster_domain::access::{Object, Principal, may};
use muster_store::MemoryStore;
use muster_store::engine::Policy;
use tower::ServiceExt as _;

use super::*;
use crate::routes::{openapi, table};
use crate::{Listen, RunningServer, Server, ServerConfig};

const STRANGER: Principal = Principal::Stranger(Unproven::OtherUser { caller: 1001, scheduler: 1000 });

type Pairs = BTreeSet<(String, String)>;

fn pair(method: &str, path: &str) -> (String, String) {
    (method.to_owned(), path.to_owned())
}

fn rows() -> Rows {
    table::all().into_parts().1
}

fn with_row(rows: &Rows) -> Pairs {
    let verbs = |actions: &[Option<Action>; VERBS]| {
        let actions = *actions;
        Verb::ALL.into_iter().filter(move |verb| actions[*verb as usize].is_some())
    };
    let paths = rows.0.iter();
    paths.flat_map(|(path, actions)| verbs(actions).map(|verb| pair(verb.method().as_str(), path))).collect()
}

fn described() -> Pairs {
    let document: serde_json::Value = serde_json::from_str(&openapi::document().unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(move |method| pair(&method.to_uppercase(), path))
    });
    methods.collect()
}

async fn scheduler() -> (RunningServer, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = ServerConfig { data_dir: directory.path().to_owned(), ..ServerConfig::default() };
    let store = Arc::new(MemoryStore::new(Policy::default()));
    (Server::start(config, store, Listen::InProcess).await.unwrap(), directory)
}

/// The paths that a router has, which it shows only in its debug form.
fn paths_of(router: &Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let quoted = shown.split('"').skip(1).step_by(2);
    // The fallback is kept under / and a wildcard.
    let routes = quoted.filter(|text| text.starts_with('/') && *text != "/" && !text.contains("{*"));
    routes.map(str::to_owned).collect()
}

#[test]
fn the_document_and_the_table_have_the_same_routes() {
    let (table, document) = (with_row(&rows()), described());
    assert!(table.len() >= 75, "{}", table.len());
    assert_eq!(table.difference(&document).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    assert_eq!(document.difference(&table).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
}

#[tokio::test]
async fn the_router_has_the_paths_of_the_table_and_no_others() {
    let (server, _directory) = scheduler().await;
    let expected: BTreeSet<String> = rows().0.keys().map(|path| (*path).to_owned()).collect();
    assert_eq!(paths_of(&server.router()), expected);
    server.shutdown().await;
}

/// Sends every method to every path as a stranger: what has a handler answers 403 unless all may use it, everything else
/// 405.
#[tokio::test]
async fn a_stranger_reaches_no_handler() {
    let (server, _directory) = scheduler().await;
    let table = with_row(&rows());
    let mut refused = 0;
    for path in paths_of(&server.router()) {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"] {
            let mut request = Request::builder().method(method).uri(&path).body(Body::empty()).unwrap();
            request.extensions_mut().insert(STRANGER);
            let status = server.router().oneshot(request).await.unwrap().status().as_u16();
            let verb = if method == "HEAD" { "GET" } else { method };
            match (table.contains(&pair(verb, &path)), is_open(method, &path)) {
                (true, false) => assert_eq!(status, 403, "{method} {path}"),
                // The handler reads the right to do it in the link, and this one is none.
                (true, true) if path.starts_with("/artifact-links/") => assert_eq!(status, 403),
                (true, true) => assert_ne!(status, 403, "{method} {path}"),
                (false, _) => assert_eq!(status, 405, "{method} {path}"),
            }
            refused += usize::from(status == 403 && method != "HEAD");
        }
    }
    assert_eq!(refused + 15, table.len());
    server.shutdown().await;
}

/// Whether everybody may use a route: health, documentation, and logging in.
fn is_open(method: &str, path: &str) -> bool {
    let action = rows().action(&method.parse().unwrap(), path).unwrap();
    action.is_some_and(|action| may(&STRANGER, action, &Object::UNKNOWN).is_ok())
}

#[tokio::test]
async fn a_caller_in_the_process_is_local() {
    let (server, _directory) = scheduler().await;
    let request = Request::get("/jobs").body(Body::empty()).unwrap();
    assert_eq!(server.router().oneshot(request).await.unwrap().status(), 200);
    server.shutdown().await;
}

#[test]
fn a_path_without_a_row_is_answered_by_nobody() {
    let action = |route| rows().action(&Method::GET, route);
    assert_eq!(action("/no-row").unwrap_err().status, 500);
    assert_eq!(action("/jobs"), Ok(Some(Action::ReadJobs)));
    assert_eq!(rows().action(&Method::PUT, "/jobs"), Ok(None));
}
