//! Which hierarchies of control groups are mounted, and the worker's own group in each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The worker's own groups.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hierarchies {
    /// In the hierarchy of the second form.
    pub(super) unified: Option<OwnGroup>,
    /// In each hierarchy of the first form, with its controllers.
    pub(super) separate: Vec<(Vec<String>, PathBuf)>,
}

/// The worker's own group in the hierarchy of the second form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnGroup {
    pub(super) path: PathBuf,
    /// It is the uppermost one that the worker can see: of the machine, or of its container.
    pub(super) is_top: bool,
}

/// One mounted hierarchy.
struct Mount {
    /// Which part of the hierarchy is mounted, and where.
    root: String,
    point: String,
    unified: bool,
    options: Vec<String>,
}

impl Hierarchies {
    pub(super) fn read() -> io::Result<Self> {
        let (mounts, own) =
            (fs::read_to_string("/proc/self/mountinfo")?, fs::read_to_string("/proc/self/cgroup")?);
        Ok(Self::parse(&mounts, &own))
    }

    /// The uppermost groups that can be seen, whoever is in them.
    pub(super) fn tops() -> io::Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut found = Self::default();
        for mount in mounts.lines().filter_map(Mount::parse) {
            let path = PathBuf::from(mount.point);
            if mount.unified {
                found.unified.get_or_insert(OwnGroup { path, is_top: true });
            } else {
                found.separate.push((mount.options, path));
            }
        }
        Ok(found)
    }

    #[cfg(test)]
    pub(super) fn of_top(path: &Path) -> Self {
        Self { unified: Some(OwnGroup { path: path.to_owned(), is_top: true }), separate: Vec::new() }
    }

    fn parse(mounts: &str, own: &str) -> Self {
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut found = Self::default();
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                let group = mounts.iter().filter(|mount| mount.unified).find_map(|mount| mount.of(path));
                found.unified = group.map(|path| OwnGroup { is_top: is_mount_point(&mounts, &path), path });
                continue;
            }
            let controllers: Vec<String> = controllers.split(',').map(str::to_owned).collect();
            let has_all = |mount: &&Mount| {
                !mount.unified && controllers.iter().all(|controller| mount.options.contains(controller))
            };
            if let Some(path) = mounts.iter().filter(has_all).find_map(|mount| mount.of(path)) {
                found.separate.push((controllers, path));
            }
        }
        found
    }

    /// The worker's own group in the hierarchy of a controller of the first form.
    pub(super) fn of(&self, controller: &str) -> Option<&(Vec<String>, PathBuf)> {
        self.separate.iter().find(|(controllers, _)| controllers.iter().any(|known| known == controller))
    }
}

fn is_mount_point(mounts: &[Mount], path: &Path) -> bool {
    mounts.iter().any(|mount| mount.unified && Path::new(&mount.point) == path)
}

impl Mount {
    /// Of a line of `/proc/self/mountinfo`; `None` for other file systems.
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let place: Vec<&str> = place.split(' ').collect();
        let mut kind = kind.split(' ');
        let unified = match kind.next()? {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        let options = kind.nth(1)?.split(',').map(str::to_owned).collect();
        let (root, point) = (unescape(place.get(3)?), unescape(place.get(4)?));
        Some(Self { root, point, unified, options })
    }

    /// Where the group of this path lies; `None` when it is outside of what is mounted.
    fn of(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        // What is empty must not end in a slash.
        Some(if below.as_os_str().is_empty() {
            PathBuf::from(&self.point)
        } else {
            Path::new(&self.point).join(below)
        })
    }
}

/// Spaces and the like are written as octal numbers.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn own_groups_are_found_in_every_hierarchy() {
        let own = "4:memory:/a/b\n2:cpu,cpuacct:/\n9:name=systemd:/\n7:pids:/not-mounted\n0::/x\n";
        let found = Hierarchies::parse(HYBRID, own);
        let unified = found.unified.as_ref().unwrap();
        assert_eq!((unified.path.to_str(), unified.is_top), (Some("/sys/fs/cgroup/uni fied/x"), false));
        assert_eq!(found.of("memory").unwrap().1, Path::new("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(found.of("cpuacct").unwrap().0, ["cpu", "cpuacct"]);
        assert_eq!(found.of("cpuacct").unwrap().1, Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert!(found.of("pids").is_none());
    }

    #[test]
    fn a_container_sees_a_part_of_a_hierarchy() {
        let mounts = "40 31 0:37 /docker/1f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchies::parse(mounts, "4:memory:/docker/1f/sub\n0::/\n");
        assert_eq!(found.of("memory").unwrap().1, Path::new("/sys/fs/cgroup/memory/sub"));
        assert!(found.unified.unwrap().is_top);
        let outside = Hierarchies::parse(mounts, "4:memory:/other\n0::/\n");
        assert!(outside.of("memory").is_none());
        assert_eq!(Hierarchies::parse("", ""), Hierarchies::default());
    }
}
