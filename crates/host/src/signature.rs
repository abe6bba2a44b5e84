//! File systems and partition tables, recognised by magic numbers at the front of a device. They
//! are named when a device with data is refused.

/// A magic number: its offset, its bytes, and the name of the file system or table.
type Mark = (usize, &'static [u8], &'static str);

/// Common magic numbers. The first match counts, so a file system precedes the boot sector that it
/// also has.
const MARKS: &[Mark] = &[
    (0, b"XFSB", "an xfs file system"),
    (0, b"LUKS\xba\xbe", "a LUKS encrypted device"),
    (0x1_0040, b"_BHRfS_M", "a btrfs file system"),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (512, b"LABELONE", "a physical volume of LVM"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a Linux md array"),
    (0, b"\xfc\x4e\x2b\xa9", "a member of a Linux md array"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (510, b"\x55\xaa", "a partition table (MBR)"),
];

/// Range of a ZFS label that contains the name of its pool.
const ZFS_NAMES: std::ops::Range<usize> = 16 << 10..128 << 10;

/// Returns the name of the file system or partition table in the first 128 KiB of a device, with
/// its label if it has one.
///
/// `None`: no magic number matches.
pub(crate) fn of_front(front: &[u8]) -> Option<String> {
    let is_at = |at: usize, mark: &[u8]| front.get(at..).is_some_and(|rest| rest.starts_with(mark));
    let marked = MARKS.iter().find(|(at, mark, _)| is_at(*at, mark));
    let Some((_, _, name)) = marked else {
        let names = front.get(ZFS_NAMES)?;
        let is_pool = names.windows(9).any(|word| word == b"pool_guid");
        return is_pool.then(|| "a device of a ZFS pool".into());
    };
    let (label, mounted) = match *name {
        "an xfs file system" => (text(front, 108, 12), None),
        "a btrfs file system" => (text(front, 0x1_012b, 256), None),
        "an ext2, ext3 or ext4 file system" => (text(front, 0x478, 16), text(front, 0x488, 64)),
        "a member of a Linux md array" => (text(front, 4096 + 32, 32), None),
        "swap space" => (text(front, 1024 + 28, 16), None),
        _ => (None, None),
    };
    let label = label.map_or(String::new(), |label| format!(" '{label}'"));
    let mounted = mounted.map_or(String::new(), |at| format!(", mounted last at {at}"));
    Some(format!("{name}{label}{mounted}"))
}

/// Returns the text of a field up to its first zero byte, made harmless for a terminal.
fn text(front: &[u8], at: usize, len: usize) -> Option<String> {
    let field = front.get(at..at + len)?;
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(len);
    let text = crate::harmless(&String::from_utf8_lossy(&field[..end]));
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_file_systems_are_known_with_their_labels() {
        let with = |parts: &[(usize, &[u8])]| {
            let mut front = vec![0; 128 << 10];
            for (at, bytes) in parts {
                front[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            of_front(&front)
        };
        for (parts, said) in [
            (&[(0x438, &b"\x53\xef"[..])][..], Some("an ext2, ext3 or ext4 file system")),
            (
                &[(0x438, b"\x53\xef"), (0x478, b"films"), (0x488, b"/srv/films")],
                Some("an ext2, ext3 or ext4 file system 'films', mounted last at /srv/films"),
            ),
            (&[(0, b"XFSB"), (108, b"a\x1b[31m")], Some("an xfs file system 'a\\u{1b}[31m'")),
            (&[(3, b"NTFS    "), (510, b"\x55\xaa")], Some("an NTFS file system")),
            (&[(510, b"\x55\xaa"), (512, b"EFI PART")], Some("a partition table (GPT)")),
            (&[(510, b"\x55\xaa")], Some("a partition table (MBR)")),
            (&[(4096, b"\xfc\x4e\x2b\xa9"), (4128, b"nas:0")], Some("a member of a Linux md array 'nas:0'")),
            (&[(20000, b"pool_guid")], Some("a device of a ZFS pool")),
            (&[(0, b"text")], None),
            (&[], None),
        ] {
            assert_eq!(with(parts).as_deref(), said);
        }
        assert_eq!(of_front(&[]), None);
        assert_eq!(of_front(&[0xff; 4096]), None);
    }

    /// File systems that were made by their own tools are recognised.
    #[test]
    fn a_file_system_of_its_own_tool_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("a file");
        let made = std::process::Command::new("mkfs.ext4").args(["-q", "-L", "films"]).arg(&path).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("no mkfs.ext4 here: left out");
            return;
        }
        let found = of_front(&std::fs::read(&path).expect("a file")[..128 << 10]);
        assert_eq!(found.as_deref(), Some("an ext2, ext3 or ext4 file system 'films'"));
    }
}
