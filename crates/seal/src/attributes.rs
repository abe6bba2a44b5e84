//! Extended attributes and ACLs, sealed and restored.
//!
//! An ACL is stored as the attribute in which the system keeps it. In the mode of a file with an
//! ACL the group bits hold the mask of the ACL. If the mode were restored without the ACL, the
//! group would get all rights that the mask allows to others. So the ACL is restored before the
//! mode, and if that fails, the group gets no more than the ACL gave it.
//!
//! Invariant: a restored file gives no user more rights than it had when it was sealed, and a
//! healed one no more than the file that it replaces.
//!
//! New files get the sealed `security.*` and `trusted.*` attributes only if all rights are
//! requested and the system allows it, as it does for root. Capabilities and setuid bits also need
//! the sealed owner. The report names each attribute that was not given.

use crate::disk::{Disk, DiskFile, SETGID, within_group};
use crate::report::NotDone;
use crate::set::names::{shown, shown_path};
use pantile_format::{EntryKind, Fields, Manifest};
use std::path::Path;

const ACL: &[u8] = b"system.posix_acl_access";
/// The ACL that new files in a directory inherit.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// The attribute that gives a program rights of root.
pub(crate) const CAPABILITIES: &[u8] = b"security.capability";

/// Bits that are only safe with the sealed owner, who may not have been restored.
pub(crate) const SETUID_SETGID: u32 = 0o6000;

/// The part of the sealed rights that is given.
#[derive(Clone, Copy)]
pub(crate) struct Rights {
    /// The bits of a mode that can be given.
    most: u32,
    /// True if attributes of the system are given too.
    of_system: bool,
}

impl Rights {
    /// All rights, for an existing file whose rights are kept.
    pub(crate) const ALL: Rights = Rights { most: 0o7777, of_system: true };

    /// All rights of an existing file, except those that let a program run as a user other than its
    /// caller: other users may have chosen its content.
    pub(crate) const BUT_PROGRAMS: Rights = Rights { most: 0o7777 & !SETUID_SETGID, of_system: true };

    /// Returns the rights of new files without the sealed owner. They include no right to run as
    /// the owner, who may be another user, and no more than the umask leaves unless `modes` are
    /// requested.
    pub(crate) fn of_new(disk: &dyn Disk, modes: bool) -> Rights {
        let most = Rights::ALL.most & !SETUID_SETGID;
        Rights { most: if modes { most } else { most & !disk.umask() }, of_system: modes }
    }

    /// Returns the rights of a file that has its sealed owner and group again: the sealed mode, and
    /// setuid and setgid if these were asked for.
    pub(crate) fn of_owner(self) -> Rights {
        if self.of_system { Rights::ALL } else { Rights { of_system: false, ..Rights::BUT_PROGRAMS } }
    }

    /// True if `--modes` asked for all rights that may be given.
    pub(crate) fn are_asked_for(self) -> bool {
        self.of_system
    }

    /// True if an attribute is to be restored. If only the owner gets rights, no ACL is: it would
    /// take effect before the mode narrows it.
    fn is_asked(self, name: &[u8]) -> bool {
        self.most & 0o077 != 0 || (name != ACL && name != DEFAULT_ACL)
    }

    /// True if an attribute is given. One that grants rights of root is treated like a setuid bit.
    fn gives(self, name: &[u8]) -> bool {
        let is_of_system = name.starts_with(b"security.") || name.starts_with(b"trusted.");
        let may_be_another = self.most & SETUID_SETGID != 0;
        may_be_another || (name != CAPABILITIES && (self.of_system || !is_of_system))
    }

    pub(crate) fn of_mode(self, mode: u32) -> u32 {
        mode & self.most
    }

    /// Returns the part of a directory's ACL that new files can inherit without exceeding these
    /// rights: the umask does not apply to them.
    fn of_acl(self, acl: &[u8]) -> Vec<u8> {
        const OWNER: u8 = 0x01;
        const OTHERS: u8 = 0x20;
        let mut narrowed = acl.to_vec();
        for entry in narrowed.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
            let shift = match entry[0] {
                OWNER => 6,
                OTHERS => 0,
                _ => 3,
            };
            entry[2] &= (self.most >> shift & 7) as u8;
        }
        narrowed
    }
}

/// A name and a value.
pub(crate) type Attribute = (Vec<u8>, Vec<u8>);

/// True if an attribute is sealed. All others belong to the file system, not to the file.
fn is_kept(name: &[u8]) -> bool {
    let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    name == ACL || name == DEFAULT_ACL || spaces.iter().any(|space| name.starts_with(space))
}

/// Returns the attributes that are sealed, ascending by name.
pub(crate) fn kept(mut all: Vec<Attribute>) -> Vec<Attribute> {
    all.retain(|(name, _)| is_kept(name));
    all.sort_unstable();
    all
}

/// Converts attributes to fields of an entry.
pub(crate) fn to_fields(attributes: &[Attribute]) -> Fields {
    let mut fields = Fields::default();
    attributes.iter().for_each(|(name, value)| fields.push_xattr(name, value));
    fields
}

/// Gives a restored file the sealed owner and group, as far as the system lets this user, then its
/// attributes; returns the mode that it may have.
///
/// A directory keeps the setgid bit, which gives its group to new files in it. If the owner cannot
/// be set, the umask narrows the mode, and a group that is not the sealed one gets no more than
/// other users.
pub(crate) fn give_sealed(
    made: &dyn DiskFile,
    (manifest, index): (&Manifest, usize),
    rights: Rights,
    called: &Path,
    not_kept: &mut Vec<NotDone>,
) -> u32 {
    let entry = &manifest.entries[index];
    let attributes = of_fields(&entry.fields);
    let owner = manifest.owner_of(index);
    if owner.is_some_and(|(user, group)| made.set_owner(user, group).is_ok()) {
        let setgid = if entry.kind == EntryKind::Dir { entry.mode & SETGID } else { 0 };
        let rights = rights.of_owner();
        return setgid | give(made, &attributes, (rights.of_mode(entry.mode), rights), called, not_kept);
    }
    let mode = within_group(made, rights.of_mode(entry.mode));
    give(made, &attributes, (mode, rights), called, not_kept)
}

/// Returns the sealed attributes of an entry.
pub(crate) fn of_fields(fields: &Fields) -> Vec<Attribute> {
    fields
        .xattrs()
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

/// True if a file has the attributes and the mode that [`give`] would give it.
///
/// Nothing is changed: the file may have another name elsewhere.
pub(crate) fn has(file: &dyn DiskFile, attributes: &[Attribute], (mode, rights): (u32, Rights)) -> bool {
    let (Ok(there), Ok(meta)) = (file.attributes(), file.meta()) else { return false };
    let mode = rights.of_mode(mode);
    let is_acl = |name: &[u8]| name == ACL || name == DEFAULT_ACL;
    let given: Vec<Attribute> = (attributes.iter())
        .filter(|(name, _)| rights.is_asked(name) && rights.gives(name))
        .map(|(name, value)| {
            (name.clone(), if name == ACL { under_mode(value, mode) } else { value.clone() })
        })
        .collect();
    let no_more = || there.iter().all(|(name, _)| !is_acl(name) || given.iter().any(|own| own.0 == *name));
    meta.mode == mode && given.iter().all(|own| there.contains(own)) && no_more()
}

/// Returns the ACL of a file.
pub(crate) fn acl_of(file: &dyn DiskFile) -> std::io::Result<Option<Vec<u8>>> {
    Ok(file.attributes()?.into_iter().find(|(name, _)| name == ACL).map(|(_, acl)| acl))
}

/// Returns the ACL in the fields of an entry.
pub(crate) fn acl_in(fields: &Fields) -> Option<&[u8]> {
    fields.xattrs().find(|(name, _)| *name == ACL).map(|(_, acl)| acl)
}

/// Returns an ACL after a change of mode. The mode sets its entries for the owner, the mask and
/// others, and without a mask that for the group.
fn under_mode(acl: &[u8], mode: u32) -> Vec<u8> {
    const GROUP: u8 = 0x04;
    const MASK: u8 = 0x10;
    let has_mask = acl.get(4..).unwrap_or_default().chunks_exact(8).any(|entry| entry[0] == MASK);
    let of_group = if has_mask { MASK } else { GROUP };
    let shifts = [(0x01, 6), (of_group, 3), (0x20, 0)];
    let mut acl = acl.to_vec();
    for entry in acl.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        if let Some((_, shift)) = shifts.iter().find(|(tag, _)| *tag == entry[0]) {
            entry[2] = (mode >> shift & 7) as u8;
        }
    }
    acl
}

/// Gives a new file exactly these attributes, as far as `rights` allow, and returns the mode that
/// the file can get. It is less than that of `rights` if the ACL cannot be given. Attributes that
/// are not given are reported under the final path of the file.
///
/// The ACL is set last, since the mode that is set afterwards narrows it: no user gets more rights
/// in the meantime.
///
/// The content must be written and the owner set before this call: both remove attributes.
pub(crate) fn give(
    made: &dyn DiskFile,
    attributes: &[Attribute],
    (mode, rights): (u32, Rights),
    called: &Path,
    not_kept: &mut Vec<NotDone>,
) -> u32 {
    let mut mode = mode;
    let mut attributes: Vec<&Attribute> =
        attributes.iter().filter(|(name, _)| rights.is_asked(name)).collect();
    attributes.sort_by_key(|(name, _)| name == ACL);
    // ACLs that the new file inherited from its directory.
    let inherited = made.attributes().unwrap_or_default();
    for name in [ACL, DEFAULT_ACL] {
        let is_there = inherited.iter().any(|(there, _)| there == name);
        if is_there && !attributes.iter().any(|given| given.0 == name) {
            // If the ACL cannot be removed, the group bits of the mode remain its mask: a mask of
            // zero gives no rights.
            if made.set_attribute(name, None).is_err() && name == ACL {
                mode &= !0o070;
            }
        }
    }
    // One message lists all refused attributes, another one all failed ones.
    let (mut refused, mut failed) = (Vec::new(), Vec::new());
    for (name, value) in attributes {
        let value = &match &**name {
            DEFAULT_ACL => rights.of_acl(value),
            ACL => under_mode(value, rights.of_mode(mode)),
            _ => value.clone(),
        };
        if inherited.iter().any(|there| there.0 == *name && there.1 == *value) {
            continue;
        }
        if !rights.gives(name) {
            refused.push(name.as_slice());
        } else if let Err(error) = made.set_attribute(name, Some(value)) {
            if name == ACL {
                mode = mode & !0o070 | group_of_acl(value) << 3;
            }
            failed.push((name.as_slice(), error));
        }
    }
    let mut tell = |reason| not_kept.push(NotDone { path: shown_path(called), reason });
    if !refused.is_empty() {
        let how = if refused.iter().all(|name| *name == CAPABILITIES) { "" } else { "; --modes gives them" };
        tell(format!("{} could be rights of root, and were not set{how}", listed(refused.into_iter())));
    }
    if let Some((name, error)) = failed.first() {
        let of_system = name.starts_with(b"security.") || name.starts_with(b"trusted.");
        let who = if of_system { ", which root may" } else { "" };
        let names = listed(failed.iter().map(|(name, _)| *name));
        tell(format!("{names} could not be set{who}: {error}"));
    }
    rights.of_mode(mode)
}

/// Returns the first few attribute names, and the number of the others.
fn listed<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let mut told: Vec<String> = names.take(SHOWN).map(shown).collect();
    told.extend((more > 0).then(|| format!("{more} more")));
    format!("attributes ({})", told.join(", "))
}

/// Returns the rights that an ACL gives the owning group, as three bits; zero if it cannot be
/// parsed.
fn group_of_acl(acl: &[u8]) -> u32 {
    const VERSION: [u8; 4] = 2u32.to_le_bytes();
    const GROUP_OBJ: u16 = 0x04;
    const MASK: u16 = 0x10;
    let Some(entries) = acl.strip_prefix(&VERSION) else { return 0 };
    let permission = |wanted: u16| {
        entries.chunks_exact(8).find_map(|entry| {
            let number = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            (number(0) == wanted).then(|| u32::from(number(2)) & 7)
        })
    };
    permission(GROUP_OBJ).unwrap_or(0) & permission(MASK).unwrap_or(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn new_files_get_no_right_of_root_from_a_set() {
        let anew = |of_system| Rights { most: 0o755, of_system };
        let gives = |rights: Rights| {
            [&b"user.a"[..], b"trusted.a", b"security.selinux", b"security.capability"]
                .map(|name| rights.gives(name))
        };
        assert_eq!(gives(anew(false)), [true, false, false, false]);
        assert_eq!(gives(anew(true)), [true, true, true, false]);
        assert_eq!(gives(Rights::ALL), [true; 4], "of a file that is there");
    }

    fn acl(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for (tag, permission) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permission.to_le_bytes());
            bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_group_gets_what_the_acl_gives_it_and_not_what_the_mask_allows() {
        let with_mask = acl(&[(1, 6), (2, 6), (4, 4), (0x10, 6), (0x20, 0)]);
        assert_eq!(group_of_acl(&with_mask), 4);
        assert_eq!(group_of_acl(&acl(&[(1, 6), (4, 6), (0x10, 2), (0x20, 0)])), 2);
        assert_eq!(group_of_acl(&acl(&[(1, 6), (4, 5), (0x20, 0)])), 5);
        for bad in [&b""[..], b"\x02\0", b"\x03\0\0\0\x04\0\x07\0\0\0\0\0", &with_mask[..11]] {
            assert_eq!(group_of_acl(bad), 0, "{bad:?}");
        }
    }

    /// Records the attributes of a file, in the order in which they are set.
    #[derive(Default)]
    struct Noting(std::sync::Mutex<Vec<Attribute>>);

    impl DiskFile for Noting {
        fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> io::Result<()> {
            self.0.lock().unwrap().push((name.to_vec(), value.unwrap_or_default().to_vec()));
            if name.starts_with(b"user.") { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn attributes(&self) -> io::Result<Vec<Attribute>> {
            Ok(Vec::new())
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            unreachable!("attributes alone are set")
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn meta(&self) -> io::Result<crate::disk::Meta> {
            unreachable!("attributes alone are set")
        }

        fn set_meta(&self, _: u32, _: pantile_format::Timestamp) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn set_owner(&self, _: u32, _: u32) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn give_name(&self, _: &Path) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn give_free_name(&self, _: &Path) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn discard(&self) -> io::Result<()> {
            unreachable!("attributes alone are set")
        }

        fn beside(&self, _: Option<&std::ffi::OsStr>) -> io::Result<Box<dyn crate::disk::Seen>> {
            unreachable!("attributes alone are set")
        }
    }

    #[test]
    fn an_acl_is_given_last_and_as_narrow_as_the_mode_that_follows() {
        let wide = acl(&[(1, 7), (2, 7), (4, 7), (0x10, 7), (0x20, 7)]);
        let minimal = acl(&[(1, 7), (4, 7), (0x20, 7)]);
        for (given, narrowed) in [
            (wide, acl(&[(1, 7), (2, 7), (4, 7), (0x10, 5), (0x20, 5)])),
            (minimal, acl(&[(1, 7), (4, 5), (0x20, 5)])),
        ] {
            let file = Noting::default();
            let sealed: Vec<Attribute> = [ACL, b"user.b"].map(|name| (name.to_vec(), given.clone())).into();
            let rights = Rights { most: 0o755, of_system: false };
            assert_eq!(give(&file, &sealed, (0o777, rights), Path::new("f"), &mut Vec::new()), 0o755);
            let set = file.0.into_inner().unwrap();
            assert_eq!(set.last(), Some(&(ACL.to_vec(), narrowed)));
        }
    }

    #[test]
    fn refused_attributes_are_reported_in_one_sentence() {
        let names =
            |space: &'static str| (0..1000).map(move |i| (format!("{space}{i:04}").into_bytes(), Vec::new()));
        let sealed: Vec<Attribute> = names("security.").chain(names("user.")).collect();
        let (mut told, rights) = (Vec::new(), Rights { most: 0o755, of_system: false });
        give(&Noting::default(), &sealed, (0o644, rights), Path::new("f"), &mut told);
        let told: Vec<&str> = told.iter().map(|not| not.reason.as_str()).collect();
        assert_eq!(told.len(), 2);
        assert!(
            told[0]
                .starts_with("attributes (security.0000, security.0001, security.0002, 997 more) could be")
        );
        assert!(
            told[1].starts_with("attributes (user.0000, user.0001, user.0002, 997 more) could not be set:")
        );
    }
}
