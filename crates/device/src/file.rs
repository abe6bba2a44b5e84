//! Regular files and block devices, past the page cache where the system lets us.
//!
//! A path is opened in this order. First its kind is examined, because a pipe would block and some
//! devices act when they are opened. The examined object is opened, even if the name leads to
//! another one now. The device is claimed: `flock` for a file, `O_EXCL` for a block device, so
//! mounted ones and those of another volume are refused. Only then is it read or written. The lock
//! belongs to the open file, not to the name or the process. A second opening is refused under any
//! name, also by the same process, and a dead process holds no lock.
//!
//! Direct or buffered: the kernel is asked for the alignment that direct I/O demands of this file
//! (STATX_DIOALIGN), `O_DIRECT` is set, and one block is read. If any of it is refused, the device
//! works through the page cache, and [`FileDevice::mode`] shows it. A flush is `fdatasync` in both
//! modes: it empties the device's own write cache too, and for a block device the kernel's block
//! layer.
//!
//! A flush that fails is never tried again. Linux reports a lost write once and then calls the
//! pages clean, so the second `fdatasync` would acknowledge lost bytes. The first error therefore
//! stays until the device is reopened.
//!
//! A file cut while it is open is found by the next read past its new end, and by the next flush,
//! which looks at the length. (A write past the new end alone would silently make it longer again,
//! with a hole of zeros.)
//!
//! Discarding a block device uses `fallocate` (punch hole: write zeroes with unmap), not the
//! BLKDISCARD ioctl, which would be `unsafe`. A drive that can TRIM but cannot promise zeros after
//! it gets no TRIM from us.

use crate::device::{check, parts_len, site};
use crate::error::opening;
use crate::held::Held;
use crate::standing::{Standing, identity_of, standing};
use crate::{AlignedBuf, Device, DeviceError, Identity, OpKind, PAGE_BYTES, Part, PartMut};
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, OFlags, Stat, StatxFlags, fallocate, fcntl_getfl, fcntl_setfl,
    fdatasync, flock, fstat, fstatvfs, fsync, ftruncate, statx,
};
use rustix::io::{Errno, pread, pwrite, pwritev, retry_on_intr};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Block length if the system does not report the demand of direct I/O: no disk has larger logical
/// sectors.
const UNKNOWN_BLOCK_BYTES: u32 = 4096;

/// Zeros written at a time where the system cannot zero a range itself.
const ZEROS_BYTES: usize = 256 * 1024;

/// The most slices the kernel takes in one pwritev (UIO_MAXIOV).
const SLICES_MAX: usize = 1024;

/// A regular file or a block device, held exclusively while it is open for writing.
#[derive(Debug)]
pub struct FileDevice {
    file: Held,
    path: PathBuf,
    identity: Identity,
    len_bytes: u64,
    block_len_bytes: u32,
    mode: Mode,
    access: Access,
    begins_at_once: bool,
    /// The error of the first flush that failed. Held while a flush runs: the system reports a lost
    /// write to one caller only, and no other may be answered before that report is known.
    flush_failure: Mutex<Option<Errno>>,
    cannot_discard: AtomicBool,
    cannot_zero: AtomicBool,
    zeros: OnceLock<AlignedBuf>,
}

/// Use of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// O_DIRECT: between the buffer and the device.
    Direct,
    /// Through the page cache, stable at the next flush.
    Buffered,
}

/// Wanted mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Caching {
    /// Direct where it works.
    #[default]
    Auto,
    /// Buffered, although direct would work.
    Buffered,
}

/// Purpose of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Everything; nobody else may have it open.
    #[default]
    ReadWrite,
    /// Looking: others may look as well. A file that is open for writing is refused, a block device
    /// is not.
    ReadOnly,
    /// Looking beside any other, also one that writes, so that what is read can be torn.
    Beside,
}

/// Options of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenOptions {
    /// For reading only, or for everything.
    pub access: Access,
    /// Past the page cache, or through it.
    pub caching: Caching,
}

/// Opens the object that was seen at a path, even if another has taken its place. Another user can
/// put a device there that acts when it is opened, such as a watchdog or a tape.
///
/// Errors: those of the system; `NODEV` if it is another by now, on a system without /proc.
fn open_seen(seen: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = |path: &Path| retry_on_intr(|| rustix::fs::open(path, flags, rustix::fs::Mode::empty()));
    match open(Path::new(&format!("/proc/self/fd/{}", seen.as_raw_fd()))) {
        // A system without /proc. Nobody waits for the other end of a pipe.
        Err(Errno::NOENT) => {
            let opened = open(path)?;
            let (was, is) = (fstat(seen)?, fstat(&opened)?);
            let is_it = (was.st_dev, was.st_ino, was.st_rdev) == (is.st_dev, is.st_ino, is.st_rdev);
            if is_it { Ok(opened) } else { Err(Errno::NODEV) }
        }
        done => done,
    }
}

impl FileDevice {
    /// Opens a file or block device for everything, direct where that works.
    ///
    /// Errors: see [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DeviceError> {
        Self::open_with(path, OpenOptions::default())
    }

    /// Opens a file or block device. Its length is rounded down to whole blocks.
    ///
    /// Errors: `NotThere`, `NotADevice`, `InUse`, `TooSmall` (not one block long, or empty), or an
    /// error of the system.
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        let seen = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty());
        Self::open_found(&seen.map_err(|errno| opening(path, OpKind::Open, errno))?, path, options)
    }

    /// Opens a file that was found at a path, by a descriptor of `O_PATH`, as [`Self::open_with`].
    fn open_found(seen: &OwnedFd, path: &Path, options: OpenOptions) -> Result<Self, DeviceError> {
        let refused = |errno| opening(path, OpKind::Open, errno);
        let kind = FileType::from_raw_mode(fstat(seen).map_err(refused)?.st_mode);
        let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags |= match options.access {
            Access::ReadWrite => OFlags::RDWR,
            Access::ReadOnly | Access::Beside => OFlags::RDONLY,
        };
        match kind {
            // A file that the kernel computes on reading holds no volume, and acts when it is
            // written.
            FileType::RegularFile if is_of_the_kernel(seen) => {
                return Err(DeviceError::NotADevice { at: site(path, OpKind::Open, 0, 0) });
            }
            FileType::RegularFile => {}
            FileType::BlockDevice if options.access == Access::ReadWrite => flags |= OFlags::EXCL,
            FileType::BlockDevice => {}
            _ => return Err(DeviceError::NotADevice { at: site(path, OpKind::Open, 0, 0) }),
        }
        let file = open_seen(seen, path, flags).map_err(refused)?;
        // Later operations must not have it: io_uring would fail instead of waiting.
        let opened = fcntl_getfl(&file).map_err(refused)?;
        fcntl_setfl(&file, opened - OFlags::NONBLOCK).map_err(refused)?;
        Self::from_open(file, path, options, OpKind::Open)
    }

    /// Makes a sparse file of `len_bytes`, durable with its name, and opens it.
    ///
    /// Errors: `AlreadyThere`; whatever fails, nothing of that name is left behind.
    pub fn create(path: impl AsRef<Path>, len_bytes: u64) -> Result<Self, DeviceError> {
        Self::create_with(path, len_bytes, false, OpenOptions::default())
    }

    /// Creates a device with other options. Takes its space at once if `reserve`.
    ///
    /// Reserved space cannot run out later, and costs as much as it says from the first day.
    pub fn create_with(
        path: impl AsRef<Path>,
        len_bytes: u64,
        reserve: bool,
        options: OpenOptions,
    ) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        Self::create_at(rustix::fs::CWD, (path, path), (len_bytes, reserve), options)
    }

    /// Works like [`create`](Self::create), for a name in an open directory. The file is made there
    /// even if its path is exchanged at the same time. It is called `path` from then on.
    pub fn create_in(
        directory: impl AsFd,
        name: &Path,
        path: &Path,
        len_bytes: u64,
    ) -> Result<Self, DeviceError> {
        Self::create_at(directory.as_fd(), (name, path), (len_bytes, false), OpenOptions::default())
    }

    fn create_at(
        directory: BorrowedFd<'_>,
        (name, path): (&Path, &Path),
        (len_bytes, reserve): (u64, bool),
        options: OpenOptions,
    ) -> Result<Self, DeviceError> {
        let refused = |errno| opening(path, OpKind::Create, errno);
        let flags = OFlags::CLOEXEC | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = retry_on_intr(|| rustix::fs::openat(directory, name, flags, 0o600.into()));
        let file = file.map_err(refused)?;
        let made = fill_new(&file, (directory, name), len_bytes, reserve)
            .map_err(refused)
            .and_then(|()| Self::from_open(file, path, options, OpKind::Create));
        if made.is_err() {
            // It is ours: O_EXCL made it. If even this fails, the first error is still the one to
            // tell.
            let _ = rustix::fs::unlinkat(directory, name, rustix::fs::AtFlags::empty());
        }
        made
    }

    /// Returns the mode: past the page cache or through it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn from_open(file: OwnedFd, path: &Path, options: OpenOptions, op: OpKind) -> Result<Self, DeviceError> {
        let refused = |errno| opening(path, op, errno);
        let stat = fstat(&file).map_err(refused)?;
        let Some(identity) = identity_of(&stat) else {
            return Err(DeviceError::NotADevice { at: site(path, op, 0, 0) });
        };
        let is_file = matches!(identity, Identity::File { .. });
        if is_file {
            let lock = match options.access {
                Access::ReadWrite => Some(FlockOperation::NonBlockingLockExclusive),
                Access::ReadOnly => Some(FlockOperation::NonBlockingLockShared),
                Access::Beside => None,
            };
            if let Some(lock) = lock {
                retry_on_intr(|| flock(&file, lock)).map_err(refused)?;
            }
        }
        let all_bytes = match identity {
            // Read again under the lock: another process may just have finished making it.
            Identity::File { .. } => fstat(&file).map_err(refused)?.st_size as u64,
            _ => rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(refused)?,
        };
        let (mode, block_len_bytes) =
            choose_mode(&file, &stat, all_bytes, options.caching).map_err(refused)?;
        let len_bytes = all_bytes - all_bytes % u64::from(block_len_bytes);
        if len_bytes == 0 {
            let at = site(path, op, 0, 0);
            return Err(DeviceError::TooSmall { at, len_bytes: all_bytes, block_len_bytes });
        }
        let begins_at_once = begins_at_once(&file, identity);
        Ok(Self {
            file: Held::new(file, is_file && options.access != Access::Beside),
            path: path.to_path_buf(),
            identity,
            len_bytes,
            block_len_bytes,
            mode,
            access: options.access,
            begins_at_once,
            flush_failure: Mutex::new(None),
            cannot_discard: AtomicBool::new(false),
            cannot_zero: AtomicBool::new(false),
            zeros: OnceLock::new(),
        })
    }

    fn may_change(&self, op: OpKind, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly | Access::Beside => {
                Err(DeviceError::ReadOnly { at: site(&self.path, op, offset, len), errno: 0 })
            }
        }
    }

    /// The error for a transfer that stopped.
    fn stopped(&self, op: OpKind, offset: u64, len: u64, stop: Stop) -> DeviceError {
        let at = site(&self.path, op, offset, len);
        match stop {
            Stop::Ended { done } => DeviceError::Truncated {
                at,
                end_bytes: offset + done as u64,
                device_len_bytes: self.len_bytes,
            },
            // Our own checks passed, so it is the system that wants more than it told.
            Stop::Errno(Errno::INVAL) => {
                DeviceError::Misaligned { at, block_len_bytes: self.block_len_bytes }
            }
            Stop::Errno(errno) => DeviceError::from_errno(at, errno.raw_os_error()),
        }
    }

    fn write_parts(&self, offset: u64, parts: &[Part<'_>]) -> Result<(), Stop> {
        let len = parts_len(parts) as usize;
        let block = self.block_len_bytes as usize;
        if let [part] = parts {
            return to_the_end(len, block, |done| pwrite(&self.file, &part[done..], offset + done as u64));
        }
        to_the_end(len, block, |done| {
            let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part.bytes())).collect();
            let mut rest = &mut slices[..];
            IoSlice::advance_slices(&mut rest, done);
            let taken = rest.len().min(SLICES_MAX);
            pwritev(&self.file, &rest[..taken], offset + done as u64)
        })
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<(), Stop> {
        let zeros = self.zeros.get_or_init(|| AlignedBuf::zeroed(ZEROS_BYTES));
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(ZEROS_BYTES as u64);
            self.write_parts(offset + done, &[zeros.part(0..piece as usize)])?;
            done += piece;
        }
        Ok(())
    }

    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> Result<(), Errno> {
        retry_on_intr(|| fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, len))
    }

    /// Calls `sync` unless an earlier call failed; the first failure stays.
    fn sync_with(&self, sync: impl FnOnce() -> Result<(), Errno>) -> Result<(), DeviceError> {
        let mut failure = self.flush_failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() {
            *failure = sync().err();
        }
        match *failure {
            None => Ok(()),
            Some(errno) => {
                let at = site(&self.path, OpKind::Flush, 0, 0);
                Err(DeviceError::FlushFailed { at, errno: errno.raw_os_error() })
            }
        }
    }

    /// Checks that a file is as long as it was. Bytes beyond a shortened end are not durable.
    fn check_end(&self) -> Result<(), DeviceError> {
        if let Identity::Block { .. } = self.identity {
            return Ok(());
        }
        let mut end_bytes = self.len_bytes;
        self.sync_with(|| fstat(&self.file).map(|stat| end_bytes = stat.st_size as u64))?;
        if end_bytes < self.len_bytes {
            let at = site(&self.path, OpKind::Flush, 0, 0);
            return Err(DeviceError::Truncated { at, end_bytes, device_len_bytes: self.len_bytes });
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_len_bytes(&self) -> u32 {
        self.block_len_bytes
    }

    fn identity(&self) -> Identity {
        self.identity
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len();
        check(self, OpKind::Read, offset_bytes, len as u64, [(into.as_ptr() as usize, len)].into_iter())?;
        to_the_end(len, self.block_len_bytes as usize, |done| {
            pread(&self.file, &mut into[done..], offset_bytes + done as u64)
        })
        .map_err(|stop| self.stopped(OpKind::Read, offset_bytes, len as u64, stop))
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let len = parts_len(parts);
        let places = parts.iter().map(|part| (part.as_ptr() as usize, part.len()));
        check(self, OpKind::Write, offset_bytes, len, places)?;
        self.may_change(OpKind::Write, offset_bytes, len)?;
        let result = self.write_parts(offset_bytes, parts);
        result.map_err(|stop| self.stopped(OpKind::Write, offset_bytes, len, stop))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.sync_with(|| retry_on_intr(|| fdatasync(&self.file)))?;
        self.check_end()
    }

    fn flushed_directly(&self, errno: Option<i32>) -> Result<(), DeviceError> {
        self.sync_with(|| errno.map_or(Ok(()), |errno| Err(Errno::from_raw_os_error(errno))))?;
        self.check_end()
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Discard, offset_bytes, len_bytes, std::iter::empty())?;
        self.may_change(OpKind::Discard, offset_bytes, len_bytes)?;
        if len_bytes == 0 || self.cannot_discard.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.fallocate(FallocateFlags::PUNCH_HOLE, offset_bytes, len_bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.cannot_discard.store(true, Ordering::Relaxed),
            Err(errno) => {
                return Err(self.stopped(OpKind::Discard, offset_bytes, len_bytes, Stop::Errno(errno)));
            }
            Ok(()) => {}
        }
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Zero, offset_bytes, len_bytes, std::iter::empty())?;
        self.may_change(OpKind::Zero, offset_bytes, len_bytes)?;
        if len_bytes == 0 {
            return Ok(());
        }
        let stopped = |stop| self.stopped(OpKind::Zero, offset_bytes, len_bytes, stop);
        if !self.cannot_zero.load(Ordering::Relaxed) {
            match self.fallocate(FallocateFlags::ZERO_RANGE, offset_bytes, len_bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.cannot_zero.store(true, Ordering::Relaxed),
                result => return result.map_err(|errno| stopped(Stop::Errno(errno))),
            }
        }
        self.write_zeros(offset_bytes, len_bytes).map_err(stopped)
    }

    fn direct_file(&self) -> Option<BorrowedFd<'_>> {
        // A write to one that is open for reading is refused by the system, and then asked of the
        // device, for its error.
        (self.mode == Mode::Direct && self.begins_at_once).then(|| self.file.as_fd())
    }

    fn standing(&self) -> Standing {
        standing(&self.file, &self.path, self.identity, self.len_bytes)
    }
}

/// Gives a new file its length, and its name durability.
fn fill_new(
    file: &OwnedFd,
    (directory, name): (BorrowedFd<'_>, &Path),
    len_bytes: u64,
    reserve: bool,
) -> Result<(), Errno> {
    retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive))?;
    if reserve {
        // Asked first: a file system takes all that it has before it says that this was not enough,
        // and meanwhile nobody else can write.
        let free = fstatvfs(file)?;
        if free.f_bavail.saturating_mul(free.f_frsize) < len_bytes {
            return Err(Errno::NOSPC);
        }
    }
    retry_on_intr(|| ftruncate(file, len_bytes))?;
    if reserve && len_bytes > 0 {
        retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len_bytes))?;
    }
    retry_on_intr(|| fsync(file))?;
    let parent = match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(directory, parent, flags, 0.into())?;
    retry_on_intr(|| fsync(&dir))
}

/// True if a file is one of `/proc` or `/sys`.
fn is_of_the_kernel(seen: &OwnedFd) -> bool {
    const PROC: u64 = 0x9fa0;
    const SYSFS: u64 = 0x6265_6572;
    rustix::fs::fstatfs(seen).is_ok_and(|system| [PROC, SYSFS].contains(&(system.f_type as u64)))
}

/// True where the system begins a direct read or write, or leaves it to a thread of its own,
/// without waiting for a device. io_uring asks for that (`IOCB_NOWAIT`); FUSE and network file
/// systems wait for their server all the same, in the thread that submits.
fn begins_at_once(file: &OwnedFd, identity: Identity) -> bool {
    /// Magic numbers of statfs(2): ext4, XFS, btrfs, F2FS, tmpfs.
    const LOCAL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    /// The kernel's NBD client sends to its socket in the thread that submits.
    const NBD_MAJOR: u32 = 43;
    match identity {
        Identity::Block { device } => rustix::fs::major(device) != NBD_MAJOR,
        _ => rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u64))),
    }
}

/// Finds the mode that works and the block length it demands; leaves the file in that mode.
fn choose_mode(file: &OwnedFd, stat: &Stat, len: u64, caching: Caching) -> Result<(Mode, u32), Errno> {
    let sector = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Some(rustix::fs::ioctl_blksszget(file)?),
        _ => None,
    };
    let direct = direct_block_len(file, sector);
    // The same block length in both modes: a volume made buffered opens direct on another day.
    let block = direct.or(sector).unwrap_or(UNKNOWN_BLOCK_BYTES);
    if direct.is_none() || caching == Caching::Buffered {
        return Ok((Mode::Buffered, block));
    }
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok((Mode::Buffered, block));
    }
    let mut probe = AlignedBuf::zeroed(block as usize);
    match retry_on_intr(|| pread(file, &mut probe[..], 0)) {
        Err(Errno::INVAL | Errno::OPNOTSUPP) if len >= u64::from(block) => {
            fcntl_setfl(file, flags)?;
            Ok((Mode::Buffered, block))
        }
        // A block that cannot be read is the reader's to find, where it can be repaired.
        _ => Ok((Mode::Direct, block)),
    }
}

/// Block length of direct I/O; `None` if the system says there is none for this file, or for pages
/// such as ours.
fn direct_block_len(file: &OwnedFd, sector: Option<u32>) -> Option<u32> {
    let unknown = Some(sector.unwrap_or(UNKNOWN_BLOCK_BYTES));
    let Ok(found) = statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return unknown;
    };
    if !StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) {
        return unknown;
    }
    let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
    if memory == 0 || offset == 0 || !offset.is_power_of_two() || memory as usize > PAGE_BYTES {
        return None;
    }
    Some(offset.max(sector.unwrap_or(0)).max(512))
}

/// Reason why a transfer stopped.
#[derive(Debug, PartialEq)]
enum Stop {
    Errno(Errno),
    /// No further block could be moved, and no error was given.
    Ended {
        done: usize,
    },
}

/// Calls `step(done)` until `len` bytes are moved, whatever the system does in one call.
///
/// A call may move less than asked for, be interrupted, or stop within a block: then the block is
/// begun again, because direct I/O cannot go on from its middle. Invariant: `done` is a multiple of
/// `block`, and grows, or it is over.
fn to_the_end(
    len: usize,
    block: usize,
    mut step: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<(), Stop> {
    let mut done = 0;
    while done < len {
        match step(done) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Stop::Errno(errno)),
            Ok(moved) => {
                let whole = (done + moved) / block * block;
                if whole == done {
                    return Err(Stop::Ended { done: done + moved });
                }
                done = whole;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves `len` bytes by a scripted system, which stops short where the script says; gives the
    /// calls it saw.
    fn moved(len: usize, script: &[Result<usize, Errno>]) -> (Result<(), Stop>, Vec<usize>) {
        let (mut script, mut seen) = (script.iter(), Vec::new());
        let result = to_the_end(len, 512, |done| {
            seen.push(done);
            script.next().copied().unwrap_or(Ok(len - done))
        });
        (result, seen)
    }

    #[test]
    fn short_and_interrupted_calls_are_continued_at_a_block() {
        assert_eq!(moved(4096, &[]), (Ok(()), vec![0]));
        assert_eq!(moved(4096, &[Ok(1024), Err(Errno::INTR), Ok(512)]), (Ok(()), vec![0, 1024, 1024, 1536]));
        // 700 bytes are one block and a bit: the second block is begun again.
        assert_eq!(moved(4096, &[Ok(700), Ok(512)]), (Ok(()), vec![0, 512, 1024]));
        assert_eq!(moved(0, &[]), (Ok(()), vec![]));
    }

    #[test]
    fn no_progress_is_an_end_and_no_endless_loop() {
        assert_eq!(moved(4096, &[Ok(1024), Ok(0)]).0, Err(Stop::Ended { done: 1024 }));
        assert_eq!(moved(4096, &[Ok(1024), Ok(100)]).0, Err(Stop::Ended { done: 1124 }));
        assert_eq!(moved(4096, &[Ok(512), Err(Errno::IO)]).0, Err(Stop::Errno(Errno::IO)));
    }

    #[test]
    fn an_exchanged_path_still_opens_what_was_seen() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["seen", "other"].map(|name| dir.path().join(name));
        [&path, &other].iter().for_each(|path| std::fs::write(path, "").unwrap());
        let seen = rustix::fs::open(&path, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let file = open_seen(&seen, &path, OFlags::RDWR).unwrap();
        let inode = |file: &OwnedFd| fstat(file).unwrap().st_ino;
        assert_eq!(inode(&file), inode(&seen));
    }

    #[test]
    fn a_flush_that_failed_once_fails_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::create(dir.path().join("d"), 1 << 20).unwrap();
        device.flush().unwrap();
        device.sync_with(|| Err(Errno::IO)).unwrap_err();
        // The first of two failures is reported, and the system is not asked again.
        device.sync_with(|| panic!("asked again")).unwrap_err();
        let error = device.flush().unwrap_err();
        assert!(matches!(error, DeviceError::FlushFailed { errno, .. } if errno == Errno::IO.raw_os_error()));
    }
}
