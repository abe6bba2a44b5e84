//! Positioned reads and writes of files and block devices, and the threads that run them. This
//! crate takes no decisions.
//!
//! A [`Device`] is a fixed-length array of bytes, read and written in whole blocks. [`FileDevice`]
//! is a file or a block device, [`ServerDevice`] an export of an NBD server, and [`MemoryDevice`]
//! memory; a [`Layer`] makes any device slow ([`Throttled`]), counted ([`Counted`]) or faulty
//! ([`Faulty`]). Data is transferred in page-aligned buffers ([`AlignedBuf`]) of a bounded
//! [`BufferPool`]. An [`IoPool`] runs requests on threads, some for each device, so that a device
//! that hangs delays no other. It returns completions and does not interpret the bytes. A
//! [`Reader`] reads directly, for callers that cannot wait for another thread.
//!
//! ```
//! use pantile_device::*;
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//!
//! let buffers = BufferPool::new(1 << 20);
//! let pool = IoPool::new(PoolOptions::default());
//! let disk = pool.attach(Arc::new(MemoryDevice::new("disk 0", 1 << 20)))?;
//!
//! let mut data = buffers.take(4096).expect("the pool is empty");
//! data.fill(7);
//! let write = Op::Write { offset_bytes: 8192, parts: vec![Segment::whole(data)] };
//! pool.submit(Request { token: 1, device: disk, priority: Priority::User, op: write })
//!     .expect("room");
//!
//! let mut done = Vec::new();
//! pool.wait(&mut done, Instant::now() + Duration::from_secs(1));
//! assert!(done[0].token == 1 && done[0].result.is_ok());
//! # Ok::<(), DeviceError>(())
//! ```
//!
//! Invariants: an acknowledged write was handed to the system in full, and an acknowledged
//! [`Device::flush`] has put all of these writes on stable storage. An error is never an
//! acknowledgement. After a failed flush every later flush fails.
//!
//! Deliberately not here: redundancy, retries, checksums, caches, and choosing between devices.

mod buffer;
mod counted;
mod device;
mod error;
mod faulty;
mod file;
mod held;
mod layer;
mod memory;
mod pages;
mod pool;
mod reader;
mod ring;
mod server;
mod standing;
mod throttled;

pub use buffer::{AlignedBuf, BufferPool, PAGE_BYTES, Part, PartMut};
pub use counted::{Count, Counted, Counting, Counts};
pub use device::{Device, Identity, OpKind, open_device};
pub use error::{DeviceError, Remedy, Site};
pub use faulty::{Fault, Faulty, Planning};
pub use file::{Access, Caching, FileDevice, Mode, OpenOptions};
pub use layer::{Layer, Layered, Operation};
pub use memory::MemoryDevice;
pub use pool::{Completion, Drained, IoPool, Op, PoolOptions, Priority, Refusal, Rejected, Request, Segment};
pub use reader::{NotRead, READER_PARTS_MAX, ReadPart, Reader};
pub use server::{ServerAddress, ServerDevice, absolute_path, is_server, path_in};
pub use standing::Standing;
pub use throttled::{Throttle, Throttled, Throttling};
