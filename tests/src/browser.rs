//! What a browser does in a login: it follows redirects, keeps cookies, fills in forms and says where a navigation comes from.

use crate::http::{Http, Response};

/// Redirects that are followed.
const MOST_STEPS: usize = 30;

/// A browser with its cookies: port, path, name and value.
#[derive(Debug, Default, Clone)]
pub struct Browser {
    cookies: Vec<(u16, String, String, String)>,
}

/// A page, and where it is.
#[derive(Debug)]
pub struct Page {
    pub url: String,
    pub response: Response,
}

impl Browser {
    /// The value of a cookie, whatever its path.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find(|(_, _, known, _)| known == name).map(|(_, _, _, value)| value.as_str())
    }

    /// Replaces the value of a cookie.
    pub fn set_cookie(&mut self, name: &str, changed: &str) {
        for (_, _, known, value) in &mut self.cookies {
            if known == name {
                changed.clone_into(value);
            }
        }
    }

    /// Goes to an address as a link on a page of another origin leads there, without following redirects.
    pub fn step(&mut self, url: &str, form: Option<&str>) -> Response {
        let (port, target) = split(url);
        let shown: Vec<String> = self
            .cookies
            .iter()
            .filter(|(of, path, _, _)| *of == port && target.starts_with(path.as_str()))
            .map(|(_, _, name, value)| format!("{name}={value}"))
            .collect();
        let method = if form.is_some() { "POST" } else { "GET" };
        let mut request = Http::new(port)
            .request(method, &target)
            .header("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)")
            .header("Accept", "text/html")
            .header("Sec-Fetch-Site", "cross-site")
            .header("Sec-Fetch-Mode", "navigate")
            .header("Sec-Fetch-Dest", "document");
        if !shown.is_empty() {
            request = request.header("Cookie", &shown.join("; "));
        }
        if let Some(form) = form {
            request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form);
        }
        let response = request.send();
        self.keep(port, &response);
        response
    }

    /// Types an address: the navigation comes from no page.
    pub fn typed(&mut self, url: &str) -> Response {
        let (port, target) = split(url);
        let request = Http::new(port).request("GET", &target).header("Sec-Fetch-Site", "none");
        let response = request.header("Sec-Fetch-Mode", "navigate").send();
        self.keep(port, &response);
        response
    }

    fn keep(&mut self, port: u16, response: &Response) {
        let set = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        for (_, text) in set {
            let mut parts = text.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            let path = parts.find_map(|part| {
                let (key, value) = part.split_once('=')?;
                key.eq_ignore_ascii_case("path").then_some(value)
            });
            let path = path.unwrap_or("/").to_owned();
            self.cookies.retain(|(of, at, known, _)| !(*of == port && *at == path && known == name));
            let over = text.contains("Max-Age=0") || text.contains("1970");
            if !over && !value.is_empty() {
                self.cookies.push((port, path, name.to_owned(), value.to_owned()));
            }
        }
    }

    /// Goes to an address and on to where it leads, but not to an address that `stops`.
    pub fn follow(&mut self, url: &str, form: Option<&str>, stops: &dyn Fn(&str) -> bool) -> Page {
        let (mut url, mut form) = (url.to_owned(), form.map(str::to_owned));
        for _ in 0..MOST_STEPS {
            let response = self.step(&url, form.take().as_deref());
            let Some(next) = response.header("location").filter(|_| (300..400).contains(&response.status))
            else {
                return Page { url, response };
            };
            url = absolute(&url, next);
            if stops(&url) {
                return Page { url, response };
            }
        }
        panic!("{url} leads round and round");
    }

    /// Fills in the forms of the provider as `subject`, from `url` on, until one that `stops` or a page without a form.
    /// `denies` says no where the provider asks whether that is wanted.
    pub fn log_in(&mut self, url: &str, subject: &str, denies: bool, stops: &dyn Fn(&str) -> bool) -> Page {
        let mut page = self.follow(url, None, stops);
        for _ in 0..MOST_STEPS {
            if stops(&page.url) {
                return page;
            }
            let html = page.response.text();
            let Some(action) = attribute(&html, "action") else { return page };
            let mut filled = hidden(&html);
            if html.contains("name=\"login\"") {
                filled.extend([
                    ("login".to_owned(), subject.to_owned()),
                    ("password".to_owned(), "x".to_owned()),
                ]);
            }
            if denies && html.contains("name=\"abort\"") {
                filled.push(("abort".to_owned(), "yes".to_owned()));
                return self.follow(&absolute(&page.url, &action), Some(&encoded(&filled)), stops);
            }
            let abort = html.find("[ Cancel ]").filter(|_| denies);
            page = match abort.and_then(|end| attribute(html.get(..end)?.rsplit("<a ").next()?, "href")) {
                Some(link) => self.follow(&absolute(&page.url, &link), None, stops),
                None => self.follow(&absolute(&page.url, &action), Some(&encoded(&filled)), stops),
            };
        }
        panic!("{} asks again and again", page.url);
    }
}

fn attribute(html: &str, name: &str) -> Option<String> {
    let (_, rest) = html.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0.replace("&amp;", "&"))
}

/// The fields that a form has filled in already.
fn hidden(html: &str) -> Vec<(String, String)> {
    let inputs = html.split("<input").skip(1).filter_map(|rest| rest.split('>').next());
    let pairs = inputs.filter_map(|input| {
        let value = attribute(input, "value")?;
        Some((attribute(input, "name")?, value))
    });
    pairs.collect()
}

fn encoded(pairs: &[(String, String)]) -> String {
    let escape = |text: &str| {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect::<String>()
    };
    pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
}

/// The port and the target of an address on this machine.
fn split(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("{url} is elsewhere"));
    let (port, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    (port.parse().unwrap_or_else(|error| panic!("{url}: {error}")), target)
}

fn absolute(from: &str, to: &str) -> String {
    if to.starts_with("http") {
        return to.to_owned();
    }
    let (port, _) = split(from);
    format!("http://127.0.0.1:{port}{to}")
}
