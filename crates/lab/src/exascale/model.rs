//! Inputs of the simulation: devices, links, schemes, and the length of a run.

use super::service::ServiceTimes;
use pantile::Code;
use pantile_sim::Random;
use std::sync::Arc;

/// Scheme of redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// No redundancy.
    Raid0,
    /// Old data and old parity are read for each write.
    Std,
    /// Writes go to a cache zone: no old data is read.
    Wcl,
    /// Parity is made once, when the application ends its epoch.
    Delayed,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 4] = [Scheme::Raid0, Scheme::Std, Scheme::Wcl, Scheme::Delayed];

    /// Returns the name that quantities use.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Raid0 => "raid0",
            Scheme::Std => "std",
            Scheme::Wcl => "wcl",
            Scheme::Delayed => "delayed",
        }
    }
}

/// A device model: a positioning time, then bytes at a rate.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name that cases use.
    pub name: &'static str,
    /// Mean time before the first byte; times are uniform from half of it to one and a half of it.
    pub position_ns: u64,
    /// Read rate in bytes per second.
    pub read_bytes_per_s: u64,
    /// Write rate in bytes per second.
    pub write_bytes_per_s: u64,
    /// Number of concurrent inputs and outputs.
    pub channels: u32,
    /// The most adjacent writes of the log that are merged into one.
    pub merge_most: u32,
    /// Measured times, which replace position and rates.
    pub service: Option<Arc<ServiceTimes>>,
}

impl Device {
    /// Returns a disk of 7200 turns a minute: 8.9 ms of seek and half a turn; 100 MB/s.
    pub fn hdd() -> Device {
        Device {
            name: "hdd",
            position_ns: 13_070_000,
            read_bytes_per_s: 100_000_000,
            write_bytes_per_s: 100_000_000,
            channels: 1,
            merge_most: 8,
            service: None,
        }
    }

    /// Returns a device with measured service times, which runs one operation at a time.
    pub fn measured(times: ServiceTimes) -> Device {
        Device { name: "measured", channels: 1, service: Some(Arc::new(times)), ..Device::hdd() }
    }

    /// Returns the virtual disk of the machine that this was built on, as fio measured it under
    /// other load: `records/virtual-disk.fio` has the command, `records/virtual-disk.log` its log.
    pub fn virtual_disk() -> Device {
        const LOG: &str = include_str!("../../records/virtual-disk.log");
        let Ok(times) = ServiceTimes::parse(LOG.as_bytes()) else { unreachable!("the record is a log") };
        Device { name: "virtual-disk", ..Device::measured(times) }
    }

    /// Returns the time of one operation; `follows`: it begins where the last one ended.
    pub(crate) fn service_ns(&self, is_write: bool, bytes: u64, follows: bool, random: &mut Random) -> u64 {
        if let Some(times) = &self.service {
            // A log does not record sequential operations: they take the fastest time in it.
            let quantile = if follows { 0 } else { random.below(65_536) };
            return times.at(is_write, bytes, quantile);
        }
        let position = match follows {
            true => 0,
            false => self.position_ns * (500 + random.below(1000)) / 1000,
        };
        let rate = if is_write { self.write_bytes_per_s } else { self.read_bytes_per_s };
        position + ns_of(bytes, rate)
    }

    /// Returns the mean time of an operation.
    pub fn mean_ns(&self, is_write: bool, bytes: u64) -> u64 {
        let rate = if is_write { self.write_bytes_per_s } else { self.read_bytes_per_s };
        match &self.service {
            Some(times) => times.mean(is_write, bytes),
            None => self.position_ns + ns_of(bytes, rate),
        }
    }

    /// Returns a drive such as the Intel 320: 270 MB/s read, 165 MB/s written, four channels.
    pub fn ssd() -> Device {
        Device {
            name: "ssd",
            position_ns: 80_000,
            read_bytes_per_s: 270_000_000,
            write_bytes_per_s: 165_000_000,
            channels: 4,
            merge_most: 8,
            service: None,
        }
    }
}

/// Returns the nanoseconds for a number of bytes.
pub(super) fn ns_of(bytes: u64, bytes_per_s: u64) -> u64 {
    // Messages, units and operations are far below the 18 GB at which this would overflow.
    bytes * 1_000_000_000 / bytes_per_s.max(1)
}

/// Links, serial at either end.
#[derive(Clone, Debug)]
pub struct Network {
    /// Latency from end to end, for the first byte.
    pub latency_ns: u64,
    /// Rate of each server's link, each way.
    pub server_bytes_per_s: u64,
    /// Rate of a client's link.
    pub client_bytes_per_s: u64,
    /// Bytes beside the content, by kind of message.
    pub messages: Messages,
}

/// Kind of a message, which decides its size beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Request to write; the server fetches the bytes.
    Write,
    /// Request to read.
    Read,
    /// Answer to a write.
    Written,
    /// Answer to a read, with its bytes.
    Data,
}

/// Bytes of messages beside their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Bytes of [`Message::Write`].
    pub write: u64,
    /// Bytes of [`Message::Read`], including the acknowledgement of the bytes.
    pub read: u64,
    /// Bytes of [`Message::Written`], including the request for the bytes.
    pub written: u64,
    /// Bytes of [`Message::Data`].
    pub data: u64,
}

impl Messages {
    /// Messages of Lustre 2.9.59, a version of the paper's year.
    ///
    /// A message is `lustre_msg_v2`, 32 bytes and 4 for the length of each part, filled up to a
    /// multiple of 8, and the parts, each filled up likewise. A request to read or write one extent
    /// has `ptlrpc_body_v3` 184, `ost_body` 208, `obd_ioobj` 24, `niobuf_remote` 16 and a
    /// capability, which is empty and has its length all the same: 56 + 184 + 208 + 24 + 16 = 488.
    /// The answer to a write has body, `ost_body` and a result code of 4: 48 + 184 + 208 + 8 = 448;
    /// that to a read has body and `ost_body`: 40 + 184 + 208 = 432.
    ///
    /// Each LNet message has a header of 72 bytes. The bytes of a write are fetched by the server
    /// (a GET to the client, a REPLY with them), those of a read are PUT and acknowledged. Headers
    /// below LNet are left out.
    ///
    /// Source: `lustre/utils/wiretest.c` (sizes), `lustre/ptlrpc/layout.c` (`ost_brw_client`,
    /// `ost_brw_write_server`, `ost_brw_read_server`), `lustre/ptlrpc/pack_generic.c`
    /// (`lustre_msg_size_v2`), `lustre/ptlrpc/niobuf.c` and `lnet/lnet/api-ni.c` (`lnet_hdr`) of
    /// github.com/lustre/lustre-release at 2.9.59. Versions from 2.11 on have one more part, which
    /// is empty, in requests (still 56) and in answers to reads (48).
    pub const LUSTRE: Messages =
        Messages { write: 488 + 2 * 72, read: 488 + 2 * 72, written: 448 + 2 * 72, data: 432 + 2 * 72 };

    /// Messages without overhead.
    pub const NONE: Messages = Messages { write: 0, read: 0, written: 0, data: 0 };

    /// Returns the bytes of one kind.
    pub fn bytes(&self, message: Message) -> u64 {
        match message {
            Message::Write => self.write,
            Message::Read => self.read,
            Message::Written => self.written,
            Message::Data => self.data,
        }
    }
}

impl Default for Network {
    fn default() -> Network {
        Network {
            latency_ns: 50_000,
            server_bytes_per_s: 1_250_000_000,
            client_bytes_per_s: 1_000_000_000,
            messages: Messages::LUSTRE,
        }
    }
}

/// Placement of the units of a stripe on servers. Each unit is on one server, and its parities are
/// on others if there are as many servers as the stripe is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each unit is on the next server, stripe after stripe, from the start of the file on; the
    /// parities follow the data of their stripe. If stripes are as wide as there are servers, all
    /// parity of an application is on the same servers, as in Figure 2.
    Striped,
    /// The units of every stripe are on servers drawn by the seed.
    Random,
    /// The stripes of one round of writes are on the same servers, those of the next round one
    /// server further. The parities of neighbouring stripes are then adjacent on one server, as in
    /// Figure 2: an epoch writes them as one.
    Aligned,
}

/// A stripe: its units, and the parities that each changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    parities: u32,
    changed: Vec<Vec<u32>>,
}

impl Stripe {
    /// Returns a row of `data` units with parities of all of them.
    pub fn row(data: usize, parities: u32) -> Stripe {
        Stripe { parities, changed: vec![(0..parities).collect(); data.max(1)] }
    }

    /// Returns the stripe of a code: units are its elements, and parities those of its equations.
    pub fn of(code: &Code) -> Stripe {
        let generator = code.generator();
        let parities = code.parity().len();
        let of = |position| {
            let rows = (0..parities).filter(|&row| !generator.get(row, position).is_zero());
            rows.map(|row| row as u32).collect()
        };
        Stripe { parities: parities as u32, changed: (0..code.data().len()).map(of).collect() }
    }

    /// Returns the number of data units.
    pub fn data(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Returns the number of parities, a unit each.
    pub fn parities(&self) -> u64 {
        self.parities.into()
    }

    /// Returns the parities that a unit changes.
    pub fn changed(&self, position: u64) -> &[u32] {
        &self.changed[position as usize]
    }

    /// Returns the parities that any of the first units changes; the end of an epoch writes them.
    pub fn written(&self, units: u64) -> Vec<u32> {
        let mut all: Vec<u32> = self.changed[..units as usize].iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the number of parities that a write changes, as the mean over the units.
    fn changed_mean(&self) -> f64 {
        self.changed.iter().map(Vec::len).sum::<usize>() as f64 / self.changed.len() as f64
    }
}

/// Cost of writes to the cache zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Cost as anywhere else.
    Random,
    /// No positioning after another write to the cache zone; waiting neighbours are merged.
    Sequential,
}

/// All inputs of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Scheme of redundancy.
    pub scheme: Scheme,
    /// The stripe that writes go to.
    pub stripe: Stripe,
    /// Object storage servers, one device each.
    pub servers: u16,
    /// Writers.
    pub clients: u32,
    /// Clients of one application: they wait for one another where parity is delayed.
    pub clients_per_app: u32,
    /// Reads among 1000 requests of a client.
    pub reads_per_mille: u32,
    /// Bytes of one write.
    pub write_bytes: u32,
    /// True if two of three writes have the size of small plot files: [`FLASH`].
    pub has_plots: bool,
    /// True if each client writes its own region, one write after the other, instead of all
    /// clients of an application side by side. Needs `writes_each`; epochs are side by side.
    pub has_own_regions: bool,
    /// Bytes of a stripe unit.
    pub unit_bytes: u32,
    /// The devices.
    pub device: Device,
    /// The links.
    pub network: Network,
    /// Placement of units on servers.
    pub placement: Placement,
    /// Cost of writes to the cache zone.
    pub log: Log,
    /// True if data is moved back from the cache zone, which the paper leaves out.
    pub move_back: bool,
    /// Writes of each client, after which it stops; `None`: no client stops before the end.
    pub writes_each: Option<u32>,
    /// Length of one batch, over which throughput is measured.
    pub batch_ns: u64,
    /// Batches left out at the beginning.
    pub warm_up_batches: u64,
    /// Maximum of batches.
    pub batches_most: u64,
    /// Maximum of events.
    pub events_most: u64,
}

/// Bytes of a FLASH block in each file of an output. Its output benchmark writes three files, one
/// after the other: a checkpoint of 24 variables in double precision; a plot file of 4 in single
/// precision; the same at the corners of the 8 x 8 x 8 cells.
///
/// Source: `benchmarks/FLASH-IO` of github.com/Parallel-NetCDF/PnetCDF (`physicaldata.fh`,
/// `plotfile_ncmpi_parallel.F90`, `flash_benchmark_io.F90`), the benchmark of flash.uchicago.edu
/// with another library. The run in its README has other shares, a sixth and a fifth: blocks of 16
/// x 16 x 16, and variables of plot files as long as those of checkpoints.
pub const FLASH: [u64; 3] = [24 * 8 * 8 * 8 * 8, 4 * 4 * 8 * 8 * 8, 4 * 4 * 9 * 9 * 9];

impl Run {
    /// Returns the bytes of a client's write number `n`.
    pub fn bytes_of_write(&self, n: u32) -> u32 {
        let share = if self.has_plots { FLASH[n as usize % FLASH.len()] } else { FLASH[0] };
        ((u64::from(self.write_bytes) * share / FLASH[0]) as u32).max(1)
    }

    /// Returns the nanoseconds of device time of one write of a client and the reads before it,
    /// all devices together; a batch must be longer.
    pub fn device_ns_per_write(&self) -> u64 {
        let bytes = u64::from(self.write_bytes);
        let (read, write) = (self.device.mean_ns(false, bytes), self.device.mean_ns(true, bytes));
        let reads = u64::from(self.reads_per_mille.min(999));
        let reads_before = read * reads / (1000 - reads);
        let q = self.stripe.changed_mean().round() as u64;
        let write_ns = match self.scheme {
            Scheme::Raid0 => write,
            Scheme::Std => read + write + q * (read + write),
            Scheme::Wcl => write + q * (read + write),
            Scheme::Delayed => {
                let all = u64::from(self.clients_per_app.min(self.clients).max(1)) * bytes;
                let unit = all.min(self.unit_bytes.into()).max(1);
                let units = all.div_ceil(unit);
                let parities = units.div_ceil(self.stripe.data()) * self.stripe.parities();
                let end =
                    units * self.device.mean_ns(false, unit) + parities * self.device.mean_ns(true, unit);
                write + end / u64::from(self.clients_per_app.min(self.clients).max(1))
            }
        };
        write_ns + reads_before
    }

    /// Returns the cycle of the closed loop: the time of one write of every client if devices were
    /// always busy.
    pub fn cycle_ns(&self) -> u64 {
        let channels = u64::from(self.servers) * u64::from(self.device.channels);
        (self.device_ns_per_write() as u128 * u128::from(self.clients) / u128::from(channels.max(1))) as u64
    }
}
