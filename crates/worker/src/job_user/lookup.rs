//! Users by name, from the user database of this machine.

use std::ffi::CString;

use nix::unistd::{User, getgrouplist};

use super::JobUser;

/// What programs get as their shell where the user database names none.
const USUAL_SHELL: &str = "/bin/sh";

/// The user of a name with all of its groups; `None` where there is no such user.
pub(super) fn find(name: &str) -> Result<Option<JobUser>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("the user {name} cannot be looked up: {error}");
    let c_name = CString::new(name).map_err(|error| failed(&error))?;
    let Some(user) = User::from_name(name).map_err(|errno| failed(&errno))? else { return Ok(None) };
    let groups = getgrouplist(&c_name, user.gid).map_err(|errno| failed(&errno))?;
    let shell = user.shell.to_string_lossy().into_owned();
    Ok(Some(JobUser {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        home: user.dir.to_string_lossy().into_owned(),
        shell: if shell.is_empty() { USUAL_SHELL.to_owned() } else { shell },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_everywhere_and_some_are_nowhere() {
        let root = find("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid, root.name.as_str()), (0, 0, "root"));
        assert!(root.groups.contains(&0) && !root.shell.is_empty());
        assert_eq!(find("no-such-user-here").unwrap(), None);
        assert!(find("a\0b").is_err());
    }
}
