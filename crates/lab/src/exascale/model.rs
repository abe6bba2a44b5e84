//! What is simulated: devices, links, schemes, and how long.

use super::service::ServiceTimes;
use pantile::Code;
use pantile_sim::Random;
use std::sync::Arc;

/// How writes are made redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Not at all.
    Raid0,
    /// Old data and old parity are read for each write.
    Std,
    /// Writes go to a cache zone: no old data is read.
    Wcl,
    /// Parity is made once, when the application ends its epoch.
    Delayed,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Scheme; 4] = [Scheme::Raid0, Scheme::Std, Scheme::Wcl, Scheme::Delayed];

    /// As quantities name it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Raid0 => "raid0",
            Scheme::Std => "std",
            Scheme::Wcl => "wcl",
            Scheme::Delayed => "delayed",
        }
    }
}

/// A device model: a position, then bytes at a rate.
#[derive(Clone, Debug)]
pub struct Device {
    /// As cases name it.
    pub name: &'static str,
    /// Mean time before the first byte; single ones are uniform between half and one and a half of
    /// it.
    pub position_ns: u64,
    /// Bytes per second.
    pub read_bytes_per_s: u64,
    /// Bytes per second.
    pub write_bytes_per_s: u64,
    /// Inputs and outputs at once.
    pub channels: u32,
    /// Neighbours in the log that are written as one, at the most.
    pub merge_most: u32,
    /// Measured times, which then count instead of position and rates.
    pub service: Option<Arc<ServiceTimes>>,
}

impl Device {
    /// A disk of 7200 turns a minute: 8.9 ms of seek and half a turn; 100 MB/s.
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

    /// A device by what was measured of one, one operation at a time.
    pub fn measured(times: ServiceTimes) -> Device {
        Device { name: "measured", channels: 1, service: Some(Arc::new(times)), ..Device::hdd() }
    }

    /// The virtual disk of the machine that this was built on, as fio measured it beside other
    /// work: `records/virtual-disk.fio` has the command, `records/virtual-disk.log` its log.
    pub fn virtual_disk() -> Device {
        const LOG: &str = include_str!("../../records/virtual-disk.log");
        let Ok(times) = ServiceTimes::parse(LOG.as_bytes()) else { unreachable!("the record is a log") };
        Device { name: "virtual-disk", ..Device::measured(times) }
    }

    /// How long one operation takes; `follows`: it is where the last one ended.
    pub(crate) fn service_ns(&self, is_write: bool, bytes: u64, follows: bool, random: &mut Random) -> u64 {
        if let Some(times) = &self.service {
            // A log does not say what followed what: the fastest that was seen did.
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

    /// Mean time of an operation.
    pub fn mean_ns(&self, is_write: bool, bytes: u64) -> u64 {
        let rate = if is_write { self.write_bytes_per_s } else { self.read_bytes_per_s };
        match &self.service {
            Some(times) => times.mean(is_write, bytes),
            None => self.position_ns + ns_of(bytes, rate),
        }
    }

    /// A drive such as the Intel 320: 270 MB/s read, 165 MB/s written, four channels.
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

/// Nanoseconds for so many bytes.
pub(super) fn ns_of(bytes: u64, bytes_per_s: u64) -> u64 {
    // Messages, units and operations are far below the 18 GB at which this would overflow.
    bytes * 1_000_000_000 / bytes_per_s.max(1)
}

/// Links: serial at either end.
#[derive(Clone, Debug)]
pub struct Network {
    /// From end to end, for the first byte.
    pub latency_ns: u64,
    /// Of each server's link, each way.
    pub server_bytes_per_s: u64,
    /// Of a client's link.
    pub client_bytes_per_s: u64,
    /// Beside the content, by kind of message.
    pub messages: Messages,
}

/// What a message is, for its size beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A write is asked for, and its bytes are fetched.
    Write,
    /// A read is asked for.
    Read,
    /// A write is answered.
    Written,
    /// A read is answered, and its bytes are sent.
    Data,
}

/// Bytes of messages beside their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Of [`Message::Write`].
    pub write: u64,
    /// Of [`Message::Read`], with what acknowledges the bytes.
    pub read: u64,
    /// Of [`Message::Written`], with what fetches the bytes.
    pub written: u64,
    /// Of [`Message::Data`].
    pub data: u64,
}

impl Messages {
    /// Lustre's, of version 2.9.59, which is of the paper's year.
    ///
    /// A message is `lustre_msg_v2`, 32 bytes and 4 for the length of each part, filled up to a
    /// multiple of 8, and the parts, each filled up likewise. A request to read or write one extent
    /// has `ptlrpc_body_v3` 184, `ost_body` 208, `obd_ioobj` 24, `niobuf_remote` 16 and a
    /// capability, which is empty and has its length all the same: 56 + 184 + 208 + 24 + 16 = 488.
    /// The answer to a write has body, `ost_body` and a result code of 4: 48 + 184 + 208 + 8 = 448;
    /// that to a read has body and `ost_body`: 40 + 184 + 208 = 432.
    ///
    /// What travels over LNet has a header of 72 bytes. The bytes of a write are fetched by the
    /// server (a GET to the client, a REPLY with them), those of a read are PUT and acknowledged.
    /// Headers of what carries LNet are left out.
    ///
    /// Source: `lustre/utils/wiretest.c` (sizes), `lustre/ptlrpc/layout.c` (`ost_brw_client`,
    /// `ost_brw_write_server`, `ost_brw_read_server`), `lustre/ptlrpc/pack_generic.c`
    /// (`lustre_msg_size_v2`), `lustre/ptlrpc/niobuf.c` and `lnet/lnet/api-ni.c` (`lnet_hdr`) of
    /// github.com/lustre/lustre-release at 2.9.59. Versions from 2.11 on have one more part, empty
    /// as well, in requests (still 56) and in answers to reads (48).
    pub const LUSTRE: Messages =
        Messages { write: 488 + 2 * 72, read: 488 + 2 * 72, written: 448 + 2 * 72, data: 432 + 2 * 72 };

    /// Messages of nothing but content.
    pub const NONE: Messages = Messages { write: 0, read: 0, written: 0, data: 0 };

    /// Of one kind.
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

/// Which servers the units of a stripe lie on. Whatever it is, a unit lies on one server, and its
/// parities on others as long as there are as many servers as the stripe is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A stripe after the other, each unit on the next server, from the file's start on; parity
    /// behind the data. So an application whose stripes are as wide as there are servers has all
    /// its parity on the same ones, as Figure 2 has it.
    Striped,
    /// The units of every stripe anew on servers drawn by the seed.
    Random,
    /// The stripes of one round of writes on the same servers, the next round one server further.
    /// So the parities of neighbouring stripes are neighbours on one server, as in Figure 2: an
    /// epoch writes them as one.
    Aligned,
}

/// A stripe: how many units it has, and which parities each changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    parities: u32,
    changed: Vec<Vec<u32>>,
}

impl Stripe {
    /// A row of so many units of data with parities of all of them.
    pub fn row(data: usize, parities: u32) -> Stripe {
        Stripe { parities, changed: vec![(0..parities).collect(); data.max(1)] }
    }

    /// That of a code: units are its elements, and parities those of its equations.
    pub fn of(code: &Code) -> Stripe {
        let generator = code.generator();
        let parities = code.parity().len();
        let of = |position| {
            let rows = (0..parities).filter(|&row| !generator.get(row, position).is_zero());
            rows.map(|row| row as u32).collect()
        };
        Stripe { parities: parities as u32, changed: (0..code.data().len()).map(of).collect() }
    }

    /// Units of data.
    pub fn data(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Parities, a unit each.
    pub fn parities(&self) -> u64 {
        self.parities.into()
    }

    /// The parities that a unit changes.
    pub fn changed(&self, position: u64) -> &[u32] {
        &self.changed[position as usize]
    }

    /// The parities that any of the first units changes: what the end of an epoch writes.
    pub fn written(&self, units: u64) -> Vec<u32> {
        let mut all: Vec<u32> = self.changed[..units as usize].iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Parities that a write changes, the mean over the units.
    fn changed_mean(&self) -> f64 {
        self.changed.iter().map(Vec::len).sum::<usize>() as f64 / self.changed.len() as f64
    }
}

/// What writing to the cache zone costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// As much as anywhere.
    Random,
    /// No position after another such write, and neighbours that wait are merged.
    Sequential,
}

/// Everything of one run.
#[derive(Clone, Debug)]
pub struct Run {
    /// How writes are made redundant.
    pub scheme: Scheme,
    /// The stripe that writes go to.
    pub stripe: Stripe,
    /// Object storage servers, one device each.
    pub servers: u16,
    /// Writers.
    pub clients: u32,
    /// Of one application: they wait for one another where parity is delayed.
    pub clients_per_app: u32,
    /// Of 1000 requests of a client, how many read instead of writing.
    pub reads_per_mille: u32,
    /// Of one write.
    pub write_bytes: u32,
    /// Whether two of three writes are small: the plot files of [`FLASH`].
    pub has_plots: bool,
    /// Whether each client writes a region of its own, one write after the other, instead of all
    /// clients of an application side by side. Needs `writes_each`; epochs are side by side.
    pub has_own_regions: bool,
    /// Of a stripe unit.
    pub unit_bytes: u32,
    /// The devices.
    pub device: Device,
    /// The links.
    pub network: Network,
    /// Which server.
    pub placement: Placement,
    /// What the cache zone costs.
    pub log: Log,
    /// Whether data is moved back from the cache zone, which the paper leaves out.
    pub move_back: bool,
    /// Writes of each client, after which it stops; without, none stops before the end.
    pub writes_each: Option<u32>,
    /// Of one batch, over which throughput is measured.
    pub batch_ns: u64,
    /// Batches that are left out at the beginning.
    pub warm_up_batches: u64,
    /// The end.
    pub batches_most: u64,
    /// The end, if it comes first.
    pub events_most: u64,
}

/// Bytes of a block of FLASH in each file of an output, which its benchmark of outputs writes one
/// after the other: a checkpoint of 24 variables in double precision; a plot file of 4 in single
/// precision; the same at the corners of the 8 x 8 x 8 cells.
///
/// Source: `benchmarks/FLASH-IO` of github.com/Parallel-NetCDF/PnetCDF (`physicaldata.fh`,
/// `plotfile_ncmpi_parallel.F90`, `flash_benchmark_io.F90`), the benchmark of flash.uchicago.edu
/// with another library. The run that its README shows has other shares, a sixth and a fifth:
/// blocks of 16 x 16 x 16, and variables of plot files as long as those of checkpoints.
pub const FLASH: [u64; 3] = [24 * 8 * 8 * 8 * 8, 4 * 4 * 8 * 8 * 8, 4 * 4 * 9 * 9 * 9];

impl Run {
    /// Bytes of a client's write number `n`.
    pub fn bytes_of_write(&self, n: u32) -> u32 {
        let share = if self.has_plots { FLASH[n as usize % FLASH.len()] } else { FLASH[0] };
        ((u64::from(self.write_bytes) * share / FLASH[0]) as u32).max(1)
    }

    /// Device time of one write of a client and the reads before it, all devices together, in
    /// nanoseconds: what a batch must be longer than.
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

    /// All clients' writes once, if devices were busy all the time: the cycle of the closed loop.
    pub fn cycle_ns(&self) -> u64 {
        let channels = u64::from(self.servers) * u64::from(self.device.channels);
        (self.device_ns_per_write() as u128 * u128::from(self.clients) / u128::from(channels.max(1))) as u64
    }
}
