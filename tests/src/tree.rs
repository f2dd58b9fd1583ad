//! The source tree as the structural tests see it: its files, and the dependencies that cargo resolves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

const NOT_OURS: [&str; 6] = [".git", ".venv", "data", "node_modules", "target", ".hypothesis"];

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies below the root")
}

/// Every file of the tree, relative to the root, without what tools put there.
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root().to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).expect("the tree is readable").flatten() {
            let path = entry.path();
            if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(root()).expect("found below the root").to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// The Rust sources, with their text.
pub fn rust_sources() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| {
        let text = fs::read_to_string(root().join(&path)).expect("sources are UTF-8");
        (path, text)
    })
    .collect()
}

/// Which packages end up in which: the normal dependencies that cargo resolves, followed to the end.
#[derive(Debug)]
pub struct Dependencies {
    direct: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

impl Dependencies {
    /// What cargo resolves for this machine; asked once.
    pub fn resolved() -> &'static Self {
        static RESOLVED: OnceLock<Dependencies> = OnceLock::new();
        RESOLVED.get_or_init(Self::resolve)
    }

    /// Asks cargo, without the network: packages of other platforms may not have been downloaded.
    fn resolve() -> Self {
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--format-version",
                "1",
                "--offline",
                "--locked",
                "--filter-platform",
                &host(),
            ])
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
        let names = package_names(&metadata);
        let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
        let direct =
            nodes.iter().map(|node| (names[text(&node["id"])].clone(), normal_dependencies(node, &names)));
        let members = metadata["workspace_members"].as_array().expect("members");
        Self { direct: direct.collect(), members: members.iter().map(|id| names[text(id)].clone()).collect() }
    }

    /// The packages of this workspace.
    pub fn members(&self) -> &BTreeSet<String> {
        &self.members
    }

    /// What the package names itself.
    pub fn direct(&self, package: &str) -> &BTreeSet<String> {
        self.direct.get(package).unwrap_or_else(|| panic!("no package {package}"))
    }

    /// Everything that is linked into the package.
    pub fn linked(&self, package: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut pending: Vec<&String> = self.direct(package).iter().collect();
        while let Some(next) = pending.pop() {
            if found.insert(next.clone()) {
                pending.extend(self.direct(next));
            }
        }
        found
    }
}

/// The platform that this toolchain builds for.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc -vV names the host").to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn package_names(metadata: &Value) -> BTreeMap<&str, String> {
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(|package| (text(&package["id"]), text(&package["name"]).to_owned())).collect()
}

/// A kind of `null` is a normal dependency; the others are for builds and tests.
fn normal_dependencies(node: &Value, names: &BTreeMap<&str, String>) -> BTreeSet<String> {
    let all = node["deps"].as_array().expect("deps");
    let is_normal = |dependency: &&Value| {
        dependency["dep_kinds"].as_array().is_some_and(|k| k.iter().any(|k| k["kind"].is_null()))
    };
    all.iter().filter(is_normal).map(|dependency| names[text(&dependency["pkg"])].clone()).collect()
}
