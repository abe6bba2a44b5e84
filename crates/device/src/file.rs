//! Regular files and block devices, without the page cache where the system permits that.
//!
//! A path is opened in this order. First its kind is examined, because a pipe would block and some
//! devices act when they are opened. The examined object is opened, even if the name refers to
//! another one now. The device is claimed: `flock` for a file, `O_EXCL` for a block device, so
//! mounted ones and those of another volume are refused. Only then is it read or written. The lock
//! belongs to the open file, not to the name or the process. So a second opening is refused under
//! any name, also in the same process, and a dead process holds no lock.
//!
//! Direct or buffered: the kernel is asked which alignment direct I/O requires for this file
//! (STATX_DIOALIGN), `O_DIRECT` is set, and one block is read. If one of these steps fails, the
//! device uses the page cache, and [`FileDevice::mode`] shows that. A flush is `fdatasync` in both
//! modes: it also flushes the device's own write cache.
//!
//! A flush that failed is never repeated. Linux reports a lost write once and then marks the pages
//! clean, so the second `fdatasync` would acknowledge lost bytes. The first error therefore stays
//! until the device is reopened.
//!
//! If a file is truncated while it is open, the next read past its new end detects that, and so
//! does the next flush, which checks the length. (A write past the new end alone would silently
//! extend the file again, with a hole of zeros.)
//!
//! Discarding a range of a block device uses `fallocate` (punch hole: write zeroes with unmap), not
//! the BLKDISCARD ioctl, which would be `unsafe`. A drive that supports TRIM but does not promise
//! zeros after it gets no TRIM.

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

/// Block length if the system does not report the alignment of direct I/O: no disk has larger
/// logical sectors.
const UNKNOWN_BLOCK_BYTES: u32 = 4096;

/// Length of one write of zeros where the system cannot zero a range itself.
const ZEROS_BYTES: usize = 256 * 1024;

/// The most slices the kernel takes in one pwritev (UIO_MAXIOV).
const SLICES_MAX: usize = 1024;

/// A regular file or a block device, locked exclusively while it is open for writing.
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
    /// The error of the first flush that failed. The lock is held during a flush: the system
    /// reports a lost write to one caller only, and no other caller may be answered before that
    /// report is known.
    flush_failure: Mutex<Option<Errno>>,
    cannot_discard: AtomicBool,
    cannot_zero: AtomicBool,
    zeros: OnceLock<AlignedBuf>,
}

/// Mode of I/O: with or without the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// O_DIRECT: I/O between the buffer and the device, without the page cache.
    Direct,
    /// Through the page cache; durable after the next flush.
    Buffered,
}

/// The mode that an opening requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Caching {
    /// Direct if that works, otherwise buffered.
    #[default]
    Auto,
    /// Buffered, even if direct would work.
    Buffered,
}

/// Access rights of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// Reads and writes; the device may not be open elsewhere.
    #[default]
    ReadWrite,
    /// Reads; others may read at the same time. A file that is open for writing is refused, a block
    /// device is not.
    ReadOnly,
    /// Reads beside any other program, even one that writes, so that torn data can be read.
    Beside,
}

/// Options of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpenOptions {
    /// Access rights.
    pub access: Access,
    /// Mode of I/O.
    pub caching: Caching,
}

/// Opens the object that was examined at a path, even if the path now refers to another one.
/// Another user can put a device there that acts when it is opened, such as a watchdog or a tape.
///
/// Errors: those of the system; without /proc, `NODEV` if the path now refers to another object.
fn open_seen(seen: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let open = |path: &Path| retry_on_intr(|| rustix::fs::open(path, flags, rustix::fs::Mode::empty()));
    match open(Path::new(&format!("/proc/self/fd/{}", seen.as_raw_fd()))) {
        // A system without /proc. The flags keep the opening of a pipe from waiting.
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
    /// Opens a file or block device for reads and writes, direct if that works.
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

    /// Opens the file or block device of a descriptor of `O_PATH`, found at a path, as
    /// [`Self::open_with`] does.
    fn open_found(seen: &OwnedFd, path: &Path, options: OpenOptions) -> Result<Self, DeviceError> {
        let refused = |errno| opening(path, OpKind::Open, errno);
        let kind = FileType::from_raw_mode(fstat(seen).map_err(refused)?.st_mode);
        let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags |= match options.access {
            Access::ReadWrite => OFlags::RDWR,
            Access::ReadOnly | Access::Beside => OFlags::RDONLY,
        };
        match kind {
            // A file that the kernel generates (`/proc`, `/sys`) holds no volume, and acts when it
            // is written.
            FileType::RegularFile if is_of_the_kernel(seen) => {
                return Err(DeviceError::NotADevice { at: site(path, OpKind::Open, 0, 0) });
            }
            FileType::RegularFile => {}
            FileType::BlockDevice if options.access == Access::ReadWrite => flags |= OFlags::EXCL,
            FileType::BlockDevice => {}
            _ => return Err(DeviceError::NotADevice { at: site(path, OpKind::Open, 0, 0) }),
        }
        let file = open_seen(seen, path, flags).map_err(refused)?;
        // Only the opening must not block: with this flag later operations of io_uring would fail
        // instead of waiting.
        let opened = fcntl_getfl(&file).map_err(refused)?;
        fcntl_setfl(&file, opened - OFlags::NONBLOCK).map_err(refused)?;
        Self::from_open(file, path, options, OpKind::Open)
    }

    /// Makes a sparse file of `len_bytes`, makes it and its name durable, and opens it.
    ///
    /// Errors: `AlreadyThere`. After any error no file of that name is left.
    pub fn create(path: impl AsRef<Path>, len_bytes: u64) -> Result<Self, DeviceError> {
        Self::create_with(path, len_bytes, false, OpenOptions::default())
    }

    /// Makes a file with other options. If `reserve`, all of its space is allocated at once.
    ///
    /// Reserved space cannot run out later; it is occupied from the beginning.
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
    /// even if its path is exchanged at the same time. In errors the device is called `path`.
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
            // The file was made here, because of O_EXCL. If its removal fails, the first error is
            // still the one to report.
            let _ = rustix::fs::unlinkat(directory, name, rustix::fs::AtFlags::empty());
        }
        made
    }

    /// Returns the mode: with or without the page cache.
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
            // The length is read again under the lock: another process may just have finished
            // making the file.
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

    /// Returns the error of a transfer that stopped.
    fn stopped(&self, op: OpKind, offset: u64, len: u64, stop: Stop) -> DeviceError {
        let at = site(&self.path, op, offset, len);
        match stop {
            Stop::Ended { done } => DeviceError::Truncated {
                at,
                end_bytes: offset + done as u64,
                device_len_bytes: self.len_bytes,
            },
            // The checks of this crate passed, so the system requires more than it reported.
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

    /// Checks that the file has not become shorter. Bytes beyond a new end are not durable.
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
        // If the device is read-only, the system refuses a write, which is then repeated on the
        // device for its error.
        (self.mode == Mode::Direct && self.begins_at_once).then(|| self.file.as_fd())
    }

    fn standing(&self) -> Standing {
        standing(&self.file, &self.path, self.identity, self.len_bytes)
    }
}

/// Sets the length of a new file, and makes the file and its name durable.
fn fill_new(
    file: &OwnedFd,
    (directory, name): (BorrowedFd<'_>, &Path),
    len_bytes: u64,
    reserve: bool,
) -> Result<(), Errno> {
    retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive))?;
    if reserve {
        // Free space is checked first: a file system allocates all that it has before it reports
        // that this was too little, and meanwhile no other program can write.
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

/// True if a file is in `/proc` or `/sys`.
fn is_of_the_kernel(seen: &OwnedFd) -> bool {
    const PROC: u64 = 0x9fa0;
    const SYSFS: u64 = 0x6265_6572;
    rustix::fs::fstatfs(seen).is_ok_and(|system| [PROC, SYSFS].contains(&(system.f_type as u64)))
}

/// True if the system starts a direct read or write, or hands it to a thread of its own, without
/// waiting for the device. io_uring requests that by `IOCB_NOWAIT`. FUSE and network file systems
/// still wait for their server in the submitting thread.
fn begins_at_once(file: &OwnedFd, identity: Identity) -> bool {
    /// Magic numbers of statfs(2): ext4, XFS, btrfs, F2FS, tmpfs.
    const LOCAL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    /// The kernel's NBD client sends to its socket in the submitting thread.
    const NBD_MAJOR: u32 = 43;
    match identity {
        Identity::Block { device } => rustix::fs::major(device) != NBD_MAJOR,
        _ => rustix::fs::fstatfs(file).is_ok_and(|system| LOCAL.contains(&(system.f_type as u64))),
    }
}

/// Chooses the mode that works and its block length; leaves the file in that mode.
fn choose_mode(file: &OwnedFd, stat: &Stat, len: u64, caching: Caching) -> Result<(Mode, u32), Errno> {
    let sector = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Some(rustix::fs::ioctl_blksszget(file)?),
        _ => None,
    };
    let direct = direct_block_len(file, sector);
    // The block length is the same in both modes, so that a volume made in buffered mode can be
    // opened in direct mode later.
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
        // An unreadable block is left to later reads, whose caller can repair it.
        _ => Ok((Mode::Direct, block)),
    }
}

/// Returns the block length of direct I/O. `None`: this file does not support it, or not with
/// memory that is aligned to a page.
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
    /// No further block could be transferred, and no error was reported.
    Ended {
        done: usize,
    },
}

/// Calls `step(done)` until `len` bytes are transferred, even if single calls stop short.
///
/// A call may transfer less than requested, be interrupted, or stop within a block. In the last
/// case the block is repeated from its beginning, because direct I/O cannot continue in its middle.
/// Invariant: `done` is a multiple of `block`, and each step increases it or is the last.
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

    /// Transfers `len` bytes by a scripted system, which stops short as the script says. Returns
    /// the result and the offsets of the calls.
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
        // 700 bytes are one block and a part of the next: the second block is repeated.
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
