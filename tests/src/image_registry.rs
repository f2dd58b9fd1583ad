//! A real registry of container images on loopback, which asks who pulls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_pg_testkit::PortLease;

use crate::container_engine::{ContainerEngine, IMAGE};
use crate::wait::until;

/// Who may pull, and the password as the registry keeps it.
const USER: &str = "me";
const PASSWORD: &str = "sesame";
const HASHED: &str = "$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O";

/// The registry; it ends with its value.
#[derive(Debug)]
pub struct ImageRegistry {
    folder: tempfile::TempDir,
    port: PortLease,
    process: Child,
}

impl ImageRegistry {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let port = PortLease::take();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: String| fs::write(path(name), text).expect("the folder is writable");
        write("htpasswd", format!("{USER}:{HASHED}\n"));
        write(
            "config.yml",
            format!(
                "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{}', secret: x}}\n\
                 auth: {{htpasswd: {{realm: tests, path: {}}}}}\n",
                path("data").display(),
                port.port(),
                path("htpasswd").display()
            ),
        );
        let log = fs::File::create(path("log")).expect("the folder is writable");
        let process = Command::new(program())
            .arg("serve")
            .arg(path("config.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor is free"))
            .stderr(log)
            .spawn()
            .expect("docker-registry is missing: run scripts/install-test-deps");
        let registry = Self { folder, port, process };
        let address = ("127.0.0.1", registry.port.port());
        until("the registry listens", Duration::from_secs(30), || {
            std::net::TcpStream::connect(address).is_ok()
        });
        registry
    }

    /// What names of its images begin with.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port.port())
    }

    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// What a worker shows it.
    pub fn credentials(&self) -> String {
        format!("{USER}:{PASSWORD}")
    }

    /// Puts the image of the tests there under another name, which the engine forgets again.
    pub fn push(&self, engine: &ContainerEngine, name: &str) -> String {
        self.push_image(engine, IMAGE, name)
    }

    /// The same with a layer of its own of so many bytes, which no engine has, and which cannot be made smaller.
    pub fn push_with_layer(&self, engine: &ContainerEngine, name: &str, bytes: usize) -> String {
        let mut content = vec![0; bytes];
        rand::fill(&mut content[..]);
        let file = self.folder.path().join("layer");
        fs::write(&file, content).expect("the folder is writable");
        let container = engine.docker_says(&["create", IMAGE, "true"]);
        engine.docker_says(&["cp", &file.to_string_lossy(), &format!("{container}:/layer")]);
        let image = engine.docker_says(&["commit", &container]);
        engine.docker_says(&["rm", &container]);
        self.push_image(engine, &image, name)
    }

    fn push_image(&self, engine: &ContainerEngine, image: &str, name: &str) -> String {
        let name = format!("{}/{name}", self.host());
        let login = self.folder.path().join("login");
        fs::create_dir_all(&login).expect("the folder is writable");
        let auth = STANDARD.encode(self.credentials());
        let file = format!(r#"{{"auths":{{"{}":{{"auth":"{auth}"}}}}}}"#, self.host());
        fs::write(login.join("config.json"), file).expect("the folder is writable");
        engine.docker_says(&["tag", image, &name]);
        engine.docker_says(&["--config", &login.to_string_lossy(), "push", "--quiet", &name]);
        engine.docker_says(&["rmi", &name]);
        name
    }

    /// How often a manifest was given to somebody who may have it.
    pub fn manifests_given(&self, name: &str) -> usize {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let asked = format!("\"GET /v2/{name}/manifests/");
        log.lines().filter(|line| line.contains(&asked) && line.contains("\" 200 ")).count()
    }
}

fn program() -> PathBuf {
    let usual = Path::new("/usr/bin/docker-registry");
    if usual.exists() { usual.to_owned() } else { PathBuf::from("docker-registry") }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
