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
use std::sync::OnceLock;

const READ_BY_ALL: u32 = 0o044;
const SEARCHED_BY_ALL: u32 = 0o011;
const WRITTEN_BY_GROUP: u32 = 0o020;
const WRITTEN_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whose a file or directory is, and who may do what with it.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of the user that owns it.
    pub owner: u32,
    /// The number of its group.
    pub group: u32,
    /// Its permission bits, and that of a sticky directory; others are ignored.
    pub mode: u32,
}

impl From<&Metadata> for Found {
    fn from(found: &Metadata) -> Found {
        Found { owner: found.uid(), group: found.gid(), mode: found.mode() }
    }
}

impl Found {
    /// Whether everybody may search the directory.
    pub fn is_searched_by_all(&self) -> bool {
        self.mode & SEARCHED_BY_ALL == SEARCHED_BY_ALL
    }

    /// Whether everybody may read the file, its group included, which a mode can leave out.
    pub fn is_for_everybody(&self) -> bool {
        self.mode & READ_BY_ALL == READ_BY_ALL
    }
}

/// The permission bits that what is made of some files may have: those of everybody if everybody
/// may read each of them, else those of its owner alone. What the group of a file may do says
/// little: a group of the same number may be another elsewhere, and with an access control list the
/// bits are its mask.
pub fn most_of_made_from(read: impl IntoIterator<Item = Found>) -> u32 {
    let is_for_everybody = read.into_iter().all(|file| file.is_for_everybody());
    if is_for_everybody { 0o777 } else { 0o700 }
}

/// Nobody's number: that of whoever may write to a directory that is open to others.
pub const SOMEBODY: u32 = u32::MAX;

/// Who acts, and which other users are trusted besides root.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    me: u32,
    /// Who gave the command by `sudo`.
    by_sudo: Option<u32>,
    /// The owner of what is asked about.
    owner: Option<u32>,
}

impl Caller {
    /// The user of this process.
    pub fn alone() -> Caller {
        Caller::of(rustix::process::geteuid().as_raw())
    }

    /// A user by number.
    pub fn of(user: u32) -> Caller {
        Caller { me: user, by_sudo: None, owner: None }
    }

    /// The user of this process. Root also trusts the user named in `SUDO_UID`: who gave the
    /// command by `sudo`, and so may do as root whatever she likes, or whom root has named there.
    pub fn or_by_sudo() -> Caller {
        let caller = Caller::alone();
        let by_sudo = || std::env::var("SUDO_UID").ok()?.parse().ok().filter(|&user: &u32| user != SOMEBODY);
        Caller { by_sudo: if caller.is_root() { by_sudo() } else { None }, ..caller }
    }

    /// Whether this is root.
    pub fn is_root(&self) -> bool {
        self.me == 0
    }

    /// Whether this is root who may do what other users may. Alone in a name space of users
    /// (`unshare -r`) root may do no more than whoever made it.
    pub fn rules_others(&self) -> bool {
        static MAPS_OTHERS: OnceLock<bool> = OnceLock::new();
        let maps_others =
            || std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| maps_others(&map));
        self.is_root() && *MAPS_OTHERS.get_or_init(maps_others)
    }

    /// Whether this is the user who acts.
    pub fn is_me(&self, user: u32) -> bool {
        user == self.me
    }

    /// Whether what this user owns is as good as one's own.
    pub fn trusts(&self, owner: u32) -> bool {
        owner == 0 || owner == self.me || self.also(owner)
    }

    fn also(&self, owner: u32) -> bool {
        [self.by_sudo, self.owner].contains(&Some(owner))
    }

    /// Whether somebody else may choose what a file or directory holds.
    pub fn is_of_another(&self, found: impl Into<Found>) -> bool {
        let Found { owner, group, mode } = found.into();
        let by_group = self.is_root() && !self.also(owner) && group != 0 && mode & WRITTEN_BY_GROUP != 0;
        !self.trusts(owner) || mode & WRITTEN_BY_ALL != 0 || by_group
    }

    /// Whether somebody else may exchange the names in a directory.
    pub fn names_may_be_exchanged(&self, directory: impl Into<Found>) -> bool {
        let directory = directory.into();
        let is_kept = directory.mode & STICKY != 0 && self.trusts(directory.owner);
        self.is_of_another(directory) && !is_kept
    }

    /// Whether nobody else can exchange any of some directories, each of which lies in the next.
    ///
    /// A directory that others may write to, sticky or not, they may also move out of one that they
    /// may write to: to move it asks for the right to write in it.
    pub fn are_kept(&self, above: &[Found]) -> bool {
        let is_open = |dir: &Found| self.is_of_another(*dir);
        let can_move = above.windows(2).any(|pair| is_open(&pair[0]) && is_open(&pair[1]));
        !can_move && !above.iter().any(|dir| self.names_may_be_exchanged(*dir))
    }

    /// Whether somebody else may have made a link, or put it in the directory that it lies in.
    pub fn is_led_by_another(&self, link: impl Into<Found>, directory: impl Into<Found>) -> bool {
        !self.trusts(link.into().owner) || self.is_of_another(directory)
    }

    /// Whether a file that is there may be written to.
    ///
    /// Root also does the work of whoever owns the directory; and what lies in a directory in which
    /// nobody else can put anything, root has put there.
    pub fn may_change(&self, file: impl Into<Found>, directory: impl Into<Found>) -> bool {
        let (owner, directory) = (file.into().owner, directory.into());
        let is_at_home = owner == directory.owner || !self.is_of_another(directory);
        self.trusts(owner) || (self.is_root() && is_at_home)
    }

    /// Who can have put a file where it is, by the directories above it from its own to the
    /// topmost: its owner, or whoever owns one of those and is not trusted, or [`SOMEBODY`] if
    /// others may write to its directory, sticky or not, or exchange one above. A file of root's
    /// that was made elsewhere can be moved to a sticky directory.
    pub fn put_by<F: Into<Found>>(&self, file: impl Into<Found>, above: impl IntoIterator<Item = F>) -> u32 {
        let owner = file.into().owner;
        if !self.trusts(owner) {
            return owner;
        }
        let above: Vec<Found> = above.into_iter().map(Into::into).collect();
        let Some(own) = above.first() else { return SOMEBODY };
        let of_another = above.iter().map(|dir| dir.owner).find(|&owner| !self.trusts(owner));
        let is_open = || self.is_of_another(*own) || !self.are_kept(&above);
        of_another.unwrap_or_else(|| if is_open() { SOMEBODY } else { owner })
    }

    /// Whether nobody but its owner, and whom the caller trusts, can have put something where it
    /// is, by the directories above it from its own to the topmost.
    pub fn is_at_home<F: Into<Found>>(
        &self,
        found: impl Into<Found>,
        above: impl IntoIterator<Item = F>,
    ) -> bool {
        let found = found.into();
        Caller { owner: Some(found.owner), ..*self }.put_by(found, above) == found.owner
    }

    /// The same of a directory, which others can put nowhere but in the one that it is in, unless
    /// they may write to it; nor there, if that is sticky.
    pub fn is_dir_at_home<F: Into<Found>>(
        &self,
        dir: impl Into<Found>,
        above: impl IntoIterator<Item = F>,
    ) -> bool {
        let dir = dir.into();
        let caller = Caller { owner: Some(dir.owner), ..*self };
        let above: Vec<Found> = above.into_iter().map(Into::into).collect();
        let can_be_brought =
            caller.is_of_another(dir) && above.first().is_some_and(|own| caller.is_of_another(*own));
        !can_be_brought && above.iter().all(|dir| caller.trusts(dir.owner)) && caller.are_kept(&above)
    }

    /// Whether something may be made or replaced in a directory that nobody has named: either no
    /// other user can have put the directory where it is, or everybody may go there and write.
    pub fn may_fill<F: Into<Found>>(
        &self,
        dir: impl Into<Found>,
        above: impl IntoIterator<Item = F>,
    ) -> bool {
        const USED_BY_ALL: u32 = 0o033;
        let dir = dir.into();
        let above: Vec<Found> = above.into_iter().map(Into::into).collect();
        let is_used_by_all = dir.mode & (USED_BY_ALL | STICKY) == USED_BY_ALL;
        let is_for_all =
            is_used_by_all && self.trusts(dir.owner) && above.iter().all(Found::is_searched_by_all);
        is_for_all || self.is_dir_at_home(dir, above)
    }
}

/// Whether a map of user numbers, as the kernel shows it, has more than one.
fn maps_others(map: &str) -> bool {
    let counts = map.lines().map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    let all = counts.sum::<Option<u64>>();
    all.is_none_or(|all| all > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_who_is_alone_rules_nobody() {
        for (map, rules) in [
            ("         0          0 4294967295\n", true),
            ("         0       1000          1\n", false),
            ("         0       1000          1\n         1     100000      65536\n", true),
            ("something", true),
        ] {
            assert_eq!(maps_others(map), rules, "{map}");
        }
    }

    /// A directory of a person in her home, which root serves for her by sudo, and those of others.
    #[test]
    fn root_acts_for_whoever_gave_the_command_and_for_nobody_else() {
        let (plain, by_sudo) = (Caller::of(0), Caller { by_sudo: Some(1000), ..Caller::of(0) });
        let herself = Caller::of(1000);
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
            let found =
                [&plain, &by_sudo, &herself].map(|who| who.is_of_another(Found { owner, group, mode }));
            assert_eq!(found, of_another, "{owner}:{group} {mode:o}");
        }
    }
    fn of(owner: u32, mode: u32) -> Found {
        Found { owner, group: owner, mode }
    }

    #[test]
    fn a_link_is_followed_if_nobody_else_can_have_put_it_there() {
        let (root, user) = (Caller::of(0), Caller::of(1000));
        for (link, directory, is_led) in [
            // The owners of the link and of its directory, for root and user 1000.
            (0, of(0, 0o755), [false, false]),
            (1000, of(1000, 0o755), [true, false]),
            (1001, of(1001, 0o755), [true, true]),
            (1001, of(0, 0o1777), [true, true]),
            // Made elsewhere, and moved.
            (0, of(1001, 0o755), [true, true]),
            (0, of(0, 0o1777), [true, true]),
            (1000, of(1001, 0o755), [true, true]),
        ] {
            let found = [root, user].map(|who| who.is_led_by_another(of(link, 0o777), directory));
            assert_eq!(found, is_led, "{link} in {directory:?}");
        }
    }

    #[test]
    fn a_file_was_put_where_it_is_by_whoever_can_have() {
        let user = Caller::of(1000);
        let root = || of(0, 0o755);
        for (file, above, putter) in [
            (1000, vec![of(1000, 0o755), root(), root()], 1000),
            (0, vec![root()], 0),
            // Whoever owns the file, or a directory above it.
            (1001, vec![of(1000, 0o755), root()], 1001),
            (1000, vec![of(1000, 0o755), of(1001, 0o755), root()], 1001),
            (0, vec![of(1001, 0o1777), root()], 1001),
            // In a sticky directory anybody; but a directory there to which nobody else may write
            // stays where it is.
            (1000, vec![of(0, 0o1777), root()], SOMEBODY),
            (0, vec![of(0, 0o777), root()], SOMEBODY),
            (1000, vec![of(1000, 0o755), of(0, 0o1777), root()], 1000),
            (1000, vec![of(1000, 0o755), of(0, 0o777), root()], SOMEBODY),
            // Of two sticky ones the inner may have been moved to the outer.
            (0, vec![root(), of(0, 0o1777), of(0, 0o1777), root()], SOMEBODY),
            (0, vec![root(), of(0, 0o1777), root(), of(0, 0o1777), root()], 0),
            (1000, vec![], SOMEBODY),
        ] {
            assert_eq!(user.put_by(of(file, 0o600), above.clone()), putter, "{file} in {above:?}");
        }
        assert!(!user.trusts(SOMEBODY));
    }

    #[test]
    fn what_somebody_else_may_have_moved_is_not_at_home() {
        let of_group = Found { owner: 0, group: 6, mode: 0o775 };
        for (found, above, at_home) in [
            // Whether a file is, and a directory.
            (of(0, 0o755), vec![of(0, 0o755), of(0, 0o755)], [true, true]),
            (of(1001, 0o755), vec![of(1001, 0o775), of(0, 0o755)], [true, true]),
            (of(1001, 0o755), vec![of(0, 0o755), of(0, 0o755)], [true, true]),
            // Of root or a third user, in a directory of another.
            (of(0, 0o755), vec![of(1001, 0o755), of(0, 0o755)], [false, false]),
            (of(1002, 0o755), vec![of(1001, 0o755), of(0, 0o755)], [false, false]),
            (of(1002, 0o755), vec![of(1002, 0o755), of(1001, 0o755), of(0, 0o755)], [false, false]),
            // Where several may write.
            (of(1001, 0o755), vec![of_group, of(0, 0o755)], [false, false]),
            (of(1001, 0o755), vec![of(0, 0o777), of(0, 0o755)], [false, false]),
            (of(1001, 0o755), vec![of(0, 0o1777), of(0, 0o755)], [false, true]),
            (of(1001, 0o777), vec![of(0, 0o1777), of(0, 0o755)], [false, false]),
            (of(1001, 0o755), vec![of(1001, 0o755), of(0, 0o1777), of(0, 0o755)], [true, true]),
            // Where everybody may write.
            (of(0, 0o700), vec![of(0, 0o777), of(0, 0o755)], [false, false]),
            (of(0, 0o777), vec![of(0, 0o777), of(0, 0o755)], [false, false]),
            // Where nobody else can go.
            (of(0, 0o777), vec![of(0, 0o700), of(1001, 0o755), of(0, 0o755)], [false, false]),
        ] {
            let root = Caller::of(0);
            let is_at_home =
                [root.is_at_home(found, above.clone()), root.is_dir_at_home(found, above.clone())];
            assert_eq!(is_at_home, at_home, "{found:?} in {above:?}");
            let is_for_all = found.mode == 0o777 && found.owner == 0 && above[0].mode == 0o777;
            assert_eq!(
                root.may_fill(found, above.clone()),
                at_home[1] || is_for_all,
                "{found:?} in {above:?}"
            );
        }
    }

    #[test]
    fn a_file_is_written_to_if_nobody_else_put_it_there() {
        let (root, user) = (Caller::of(0), Caller::of(1000));
        for (file, directory, may) in [
            (0, of(1001, 0o755), [true, true]),
            (1000, of(1000, 0o755), [true, true]),
            (1001, of(1001, 0o777), [true, false]),
            (1001, of(0, 0o755), [true, false]),
            (1001, of(0, 0o1777), [false, false]),
            (1001, of(1000, 0o755), [false, false]),
        ] {
            let found = [root, user].map(|who| who.may_change(of(file, 0o666), directory));
            assert_eq!(found, may, "{file} in {directory:?}");
        }
    }

    #[test]
    fn what_is_made_of_files_is_for_everybody_only_if_each_of_them_is() {
        assert_eq!(most_of_made_from([of(0, 0o644), of(1, 0o444)]), 0o777);
        assert_eq!(most_of_made_from([of(0, 0o644), of(1, 0o640)]), 0o700);
        assert_eq!(most_of_made_from([of(0, 0o644), of(1, 0o604)]), 0o700);
        assert_eq!(most_of_made_from([]), 0o777);
    }
}
