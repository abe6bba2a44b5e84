//! Location of the records of sealed sets.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Returns the directory of this user's records of sealed sets, in the user's state directory.
/// Without `HOME`, as in a service, that is below the home of the account.
pub fn records() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let account = || {
        let user = std::fs::metadata("/proc/self").ok()?.uid().to_string();
        account_home(&std::fs::read_to_string("/etc/passwd").ok()?, &user)
    };
    let home = || absolute("HOME").or_else(account);
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("pantile/sealed"))
}

/// Returns the home directory of a user number from the text of `/etc/passwd`.
fn account_home(passwd: &str, user: &str) -> Option<PathBuf> {
    let fields = |line: &str| line.split(':').map(String::from).collect::<Vec<_>>();
    let own = passwd.lines().map(fields).find(|fields| fields.get(2).is_some_and(|id| id == user))?;
    own.get(5).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_home_in_the_environment_that_of_the_account_counts() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1500:1500::/home/ann:/bin/sh\nodd:x:7:7\n";
        assert_eq!(account_home(passwd, "1500"), Some(PathBuf::from("/home/ann")));
        assert_eq!(account_home(passwd, "0"), Some(PathBuf::from("/root")));
        assert_eq!((account_home(passwd, "7"), account_home(passwd, "1")), (None, None));
    }
}
