//! Query parameters that no route has: refused, by what the OpenAPI document says of the route.
//!
//! Guarantee: a parameter that is read is one that the document lists, or another name of it below.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::{HeaderMap, Method, Uri};
use serde_json::Value;

use super::openapi;
use crate::error::{ApiError, hint};
use crate::extract::reading;
use crate::lenient::Reading;
use crate::oidc::CALLBACK;
use crate::params::Params;

/// Parameters by method and path.
type Table = HashMap<(String, String), Vec<String>>;

static TABLE: LazyLock<Table> =
    LazyLock::new(|| openapi::document().map(|text| table(&text)).unwrap_or_default());

/// Other names of parameters, which the document does not list.
fn other_names(route: &str, listed: &[String]) -> impl Iterator<Item = &'static str> {
    let has = |name: &str| listed.iter().any(|listed| listed == name);
    let reason = has("message").then_some("reason");
    let set = (route == "/jobs").then_some("set");
    reason.into_iter().chain(set)
}

fn table(document: &str) -> Table {
    let document: Value = serde_json::from_str(document).unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, operation)| ((method.to_uppercase(), path.clone()), operation))
    });
    let query = |operation: &Value| {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let named = parameters.filter(|parameter| parameter["in"] == "query");
        named.filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned())).collect()
    };
    operations.map(|(key, operation)| (key, query(operation))).collect()
}

/// Refuses a request for `route` with a parameter that it does not have.
pub(crate) fn check(method: &Method, route: &str, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let query = uri.query().filter(|query| !query.is_empty());
    // What comes back from a login provider is the provider's to say.
    if route == CALLBACK {
        return Ok(());
    }
    if query.is_none() || reading(headers) == Reading::Lenient {
        return Ok(());
    }
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let Some(listed) = TABLE.get(&(method.to_owned(), route.to_owned())) else { return Ok(()) };
    let given = Params::parse(query);
    let known = |name: &str| {
        listed.iter().any(|listed| listed == name) || other_names(route, listed).any(|other| other == name)
    };
    match given.names().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => {
            let name: String = name.chars().take(60).collect();
            let names: Vec<&str> = listed.iter().map(String::as_str).collect();
            let message = match names.as_slice() {
                [] => format!("unknown query parameter {name:?}; {method} {route} has none"),
                names => format!("unknown query parameter {name:?}; {}", hint(&name, names)),
            };
            Err(ApiError::bad_request("unknown_parameter", message).at(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(method: &Method, route: &str, uri: &str) -> Result<(), String> {
        let judged = check(method, route, &uri.parse().unwrap(), &HeaderMap::new());
        judged.map_err(|error| error.message.into_owned())
    }

    #[test]
    fn a_parameter_that_a_route_does_not_have_is_refused() {
        assert_eq!(judged(&Method::GET, "/jobs", "/jobs?status=done&limit=5&set=x"), Ok(()));
        assert_eq!(judged(&Method::HEAD, "/jobs", "/jobs?limit=5"), Ok(()));
        let refused = judged(&Method::GET, "/jobs", "/jobs?worker_id=w").unwrap_err();
        assert!(refused.contains("\"worker_id\"; did you mean worker?"), "{refused}");
        assert!(judged(&Method::GET, "/jobs", "/jobs?offset=5").unwrap_err().contains("it may have"));
        assert!(judged(&Method::GET, "/queues", "/queues?x").unwrap_err().ends_with("GET /queues has none"));
        assert_eq!(judged(&Method::GET, "/docs", "/docs"), Ok(()));
        assert_eq!(judged(&Method::GET, CALLBACK, "/auth/oidc/callback?code=1&session_state=2"), Ok(()));
    }

    #[test]
    fn clients_that_count_on_the_old_way_say_so() {
        let mut headers = HeaderMap::new();
        headers.insert("muster-lenient", "true".parse().unwrap());
        assert!(check(&Method::GET, "/jobs", &"/jobs?offset=5".parse().unwrap(), &headers).is_ok());
    }
}
