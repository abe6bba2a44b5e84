//! Who else on this machine may choose what a path leads to, or what a file says.
//!
//! Files that another user can change or exchange are not what they were when a person named them.
//! Whoever writes by such a path asks here first.
//!
//! The rules: root is trusted, and the user who acts. A directory or file that everybody may write
//! to is another's. For root so is one that a group other than root's may write to; the groups of
//! ordinary users are what those users have made them. Names in a sticky directory can be exchanged
//! by the owners of the files alone; but whoever may write there may put a link there that its
//! owner made elsewhere, such as one that root restored in a directory of another user.

#![forbid(unsafe_code)]

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

const WRITTEN_BY_GROUP: u32 = 0o020;
const WRITTEN_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Who acts, and which other user is trusted besides root.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    me: u32,
    also: Option<u32>,
}

impl Caller {
    /// The user of this process.
    pub fn alone() -> Caller {
        Caller::of(rustix::process::geteuid().as_raw())
    }

    /// A user by number.
    pub fn of(user: u32) -> Caller {
        Caller { me: user, also: None }
    }

    /// The user of this process. Root also trusts the user named in `SUDO_UID`: who gave the
    /// command by `sudo`, and so may do as root whatever she likes, or whom root has named there.
    pub fn or_by_sudo() -> Caller {
        let caller = Caller::alone();
        let by_sudo = || std::env::var("SUDO_UID").ok()?.parse().ok();
        Caller { also: if caller.is_root() { by_sudo() } else { None }, ..caller }
    }

    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.me == 0
    }

    /// Whether what this user owns is as good as one's own.
    pub fn trusts(&self, owner: u32) -> bool {
        owner == 0 || owner == self.me || self.also == Some(owner)
    }

    /// Whether somebody else may choose what a file or directory holds.
    pub fn is_of_another(&self, found: &Metadata) -> bool {
        self.is_owned_by_another(found.uid(), found.gid(), found.mode())
    }

    /// Whether somebody else may exchange the names in a directory.
    pub fn names_may_be_exchanged(&self, directory: &Metadata) -> bool {
        let is_kept = directory.mode() & STICKY != 0 && self.trusts(directory.uid());
        self.is_of_another(directory) && !is_kept
    }

    /// Whether somebody else may have made a link, or put it in the directory that it lies in.
    pub fn is_led_by_another(&self, link: &Metadata, directory: &Metadata) -> bool {
        !self.trusts(link.uid()) || self.is_of_another(directory)
    }

    fn is_owned_by_another(&self, owner: u32, group: u32, mode: u32) -> bool {
        let by_group =
            self.is_root() && self.also != Some(owner) && group != 0 && mode & WRITTEN_BY_GROUP != 0;
        !self.trusts(owner) || mode & WRITTEN_BY_ALL != 0 || by_group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a person in her home, which root serves for her by sudo, and those of others.
    #[test]
    fn root_acts_for_whoever_gave_the_command_and_for_nobody_else() {
        let (plain, by_sudo) = (Caller { me: 0, also: None }, Caller { me: 0, also: Some(1000) });
        let herself = Caller { me: 1000, also: None };
        for (owner, group, mode, of_another) in [
            // Whether it is another's for root, for root by sudo from user 1000, for that user.
            (0, 0, 0o755, [false, false, false]),
            (0, 0, 0o775, [false, false, false]),
            (0, 6, 0o775, [true, true, false]),
            (1000, 1000, 0o755, [true, false, false]),
            (1000, 1000, 0o775, [true, false, false]),
            (1000, 1000, 0o777, [true, true, true]),
            (1001, 1001, 0o755, [true, true, true]),
        ] {
            let found = [&plain, &by_sudo, &herself].map(|who| who.is_owned_by_another(owner, group, mode));
            assert_eq!(found, of_another, "{owner}:{group} {mode:o}");
        }
    }
}
