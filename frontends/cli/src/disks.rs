//! Model and serial number of a disk, as udev and the kernel know them.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What is printed on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The model, such as `WDC WD40EFRX-68N32N0`.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
}

impl Label {
    /// Returns the label of the disk at a path; an empty one for files, and where nothing is known.
    pub fn of(path: &Path) -> Label {
        let found = std::fs::metadata(path).ok().filter(|found| found.file_type().is_block_device());
        let Some(found) = found else { return Label::default() };
        let number = format!("{}:{}", major(found.rdev()), minor(found.rdev()));
        Label::known(Path::new("/run/udev/data"), Path::new("/sys/dev/block"), &number)
    }

    /// Reads it from the database of udev, and from sysfs where that has nothing.
    fn known(udev: &Path, sys: &Path, number: &str) -> Label {
        let entries = std::fs::read_to_string(udev.join(format!("b{number}"))).unwrap_or_default();
        let entry = |key: &str| {
            let value = entries
                .lines()
                .find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
            value.map(|value| value.replace('_', " ").trim().to_string()).filter(|value| !value.is_empty())
        };
        // A partition has its disk above it.
        let places = [sys.join(number).join("device"), sys.join(number).join("../device")];
        let attribute = |name: &str| {
            let text = places.iter().find_map(|place| std::fs::read_to_string(place.join(name)).ok())?;
            Some(text.trim().to_string()).filter(|text| !text.is_empty())
        };
        Label {
            model: entry("ID_MODEL").or_else(|| attribute("model")),
            serial: entry("ID_SERIAL_SHORT").or_else(|| attribute("serial")),
        }
    }

    /// Returns both in one cell of a table; `None`: neither is known.
    pub fn text(&self) -> Option<String> {
        match (&self.model, &self.serial) {
            (Some(model), Some(serial)) => Some(format!("{model} {serial}")),
            (Some(known), None) | (None, Some(known)) => Some(known.clone()),
            (None, None) => None,
        }
    }
}

/// The major number in a device number of Linux.
fn major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
}

/// The minor number.
fn minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & !0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_that_of_udev_before_that_of_the_kernel() {
        let place = tempfile::tempdir().expect("a folder");
        let (udev, sys) = (place.path().join("udev"), place.path().join("sys"));
        let write = |path: std::path::PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, text).expect("it writes");
        };
        assert_eq!(Label::known(&udev, &sys, "8:16").text(), None);
        write(sys.join("8:16/device/model"), "Model of sysfs  \n");
        assert_eq!(Label::known(&udev, &sys, "8:16").text().as_deref(), Some("Model of sysfs"));
        write(udev.join("b8:16"), "S:disk/by-id/x\nE:ID_MODEL=WDC_WD40EFRX\nE:ID_SERIAL_SHORT=WD-1\n");
        let label = Label::known(&udev, &sys, "8:16");
        assert_eq!(label.text().as_deref(), Some("WDC WD40EFRX WD-1"));
    }

    #[test]
    fn a_file_has_no_label_and_numbers_are_those_of_linux() {
        assert_eq!(Label::of(Path::new("Cargo.toml")), Label::default());
        let sdb1 = 8 << 8 | 17;
        assert_eq!((major(sdb1), minor(sdb1)), (8, 17));
        let nvme = 259 << 8 | 5;
        assert_eq!((major(nvme), minor(nvme)), (259, 5));
    }
}
