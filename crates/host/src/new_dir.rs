//! New folders: for a volume, and for an experiment.

use crate::FolderError;
use pantile_paths::Dir;
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The folder of a new volume.
pub(crate) struct NewDir {
    pub(crate) folder: Dir,
    /// Its parent and name, if it was made here.
    made: Option<(Dir, OsString)>,
}

impl NewDir {
    /// Makes a folder to which only its owner can write, or opens an existing empty one.
    ///
    /// Errors: `NotEmpty`, `IsAFile`, or an error of the system.
    pub(crate) fn make(path: &Path) -> Result<NewDir, FolderError> {
        if path.file_name().is_some() {
            match NewDir::make_new(path, 0o755) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map_err(|error| FolderError::file("make", path, &error)),
            }
        }
        NewDir::open_empty(path)
    }

    fn open_empty(path: &Path) -> Result<NewDir, FolderError> {
        let folder = Dir::open_named(path).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => FolderError::IsAFile { path: path.to_path_buf() },
            _ => FolderError::file("open", path, &error),
        })?;
        match folder.list() {
            Ok(names) if names.is_empty() => Ok(NewDir { folder, made: None }),
            Ok(_) => Err(FolderError::NotEmpty { folder: path.to_path_buf() }),
            Err(error) => Err(FolderError::file("read", path, &error)),
        }
    }

    /// Refuses a path that [`NewDir::make`] would refuse. Nothing is made.
    pub(crate) fn check(path: &Path) -> Result<(), FolderError> {
        match path.exists() {
            true => NewDir::open_empty(path).map(drop),
            false => Ok(()),
        }
    }

    fn make_new(path: &Path, mode: u32) -> std::io::Result<NewDir> {
        let (above, name) = Dir::around(path)?;
        let folder = above.make_dir(&name, mode)?;
        Ok(NewDir { folder, made: Some((above, name)) })
    }

    /// Removes the folder, if it was made here and is empty.
    pub(crate) fn unmake(&self) {
        if let Some((above, name)) = &self.made {
            let _ = above.remove_dir(name);
        }
    }
}

/// A new folder for an experiment, accessible only to its owner. It is held open, and removed with
/// its content at the end, even if it was renamed.
pub struct ScratchFolder(NewDir);

impl ScratchFolder {
    /// Makes the folder in an existing directory.
    ///
    /// Errors: `File` if the name is taken, or an error of the system.
    pub fn make(path: &Path) -> Result<ScratchFolder, FolderError> {
        let failed = |error: Error| FolderError::file("make", path, &error);
        NewDir::make_new(path, 0o700).map(ScratchFolder).map_err(failed)
    }

    /// Returns a path by which this process reaches the folder.
    pub fn path(&self) -> PathBuf {
        self.0.folder.at("")
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Best effort: the owner sees files that cannot be removed.
        for name in self.0.folder.list().unwrap_or_default() {
            let path = self.0.folder.at(name);
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
        self.0.unmake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, read_dir, rename, write};
    use std::os::unix::fs::{MetadataExt, symlink};

    fn names(path: &Path) -> usize {
        read_dir(path).expect("a folder").count()
    }

    #[test]
    fn a_new_folder_is_the_one_that_was_made() {
        let place = tempfile::tempdir().expect("a folder");
        let [root, aside, victim] = ["v", "aside", "victim"].map(|name| place.path().join(name));
        create_dir(&victim).expect("a folder");
        write(victim.join("device-00.pantile"), "precious").expect("it writes");
        let new = NewDir::make(&root).expect("it is made");
        rename(&root, &aside).expect("it is moved");
        symlink(&victim, &root).expect("a link");
        write(new.folder.at("lock"), "").expect("it writes");
        assert_eq!((names(&aside), names(&victim)), (1, 1));
        new.unmake();
        assert!(victim.is_dir() && aside.is_dir() && root.is_symlink(), "no folder has that name any more");
        assert!(matches!(NewDir::make(&root), Err(FolderError::NotEmpty { .. })), "the link leads to one");
        assert_eq!(names(&victim), 1);
    }

    /// An experiment writes only in the folder that it made, and removes only that one.
    #[test]
    fn a_scratch_folder_stays_the_one_that_was_made() {
        let place = tempfile::tempdir().expect("a folder");
        let [new, aside, victim] = ["new", "aside", "victim"].map(|name| place.path().join(name));
        create_dir(&victim).expect("a folder");
        write(victim.join("keep"), "precious").expect("it writes");
        assert!(ScratchFolder::make(&place.path().join("missing/new")).is_err());
        let scratch = ScratchFolder::make(&new).expect("it is made");
        assert_eq!(new.metadata().expect("it is there").mode() & 0o777, 0o700);
        assert!(ScratchFolder::make(&new).is_err(), "it is there");
        rename(&new, &aside).expect("it moves");
        symlink(&victim, &new).expect("a link");
        write(scratch.path().join("disk"), "data").expect("it writes");
        create_dir(scratch.path().join("below")).expect("a folder");
        assert!(ScratchFolder::make(&new).is_err(), "something has the name");
        assert_eq!((names(&aside), names(&victim)), (2, 1));
        drop(scratch);
        assert_eq!((names(&aside), names(&victim)), (0, 1));
        std::fs::remove_file(&new).expect("the link is there");
        drop(ScratchFolder::make(&new).expect("it is made"));
        assert!(new.symlink_metadata().is_err());
    }
}
