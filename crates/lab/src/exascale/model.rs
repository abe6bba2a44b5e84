//! What is simulated: devices, links, schemes, and how long.

use super::service::ServiceTimes;
use pantile::Code;
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

    /// Mean time of an operation.
    pub fn mean_ns(&self, is_write: bool, bytes: u64) -> u64 {
        let rate = if is_write { self.write_bytes_per_s } else { self.read_bytes_per_s };
        match &self.service {
            Some(times) => times.mean(is_write, bytes),
            None => self.position_ns + bytes * 1_000_000_000 / rate.max(1),
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

/// Links: serial at either end.
#[derive(Clone, Debug)]
pub struct Network {
    /// From end to end, for the first byte.
    pub latency_ns: u64,
    /// Of each server's link, each way.
    pub server_bytes_per_s: u64,
    /// Of a client's link.
    pub client_bytes_per_s: u64,
    /// With each message.
    pub header_bytes: u64,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            latency_ns: 50_000,
            server_bytes_per_s: 1_250_000_000,
            client_bytes_per_s: 1_000_000_000,
            header_bytes: 512,
        }
    }
}

/// Which server a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// By chance, as the paper's seeds have it.
    Random,
    /// The file's start and the offset in it, unit by unit; its parity on the servers before.
    Striped,
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
    /// Parities that a write changes, unit after unit of the stripe.
    pub parities: Vec<u32>,
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

/// Parities that a write changes by a code, for each data element of a stripe.
pub fn parities_of(code: &Code) -> Vec<u32> {
    let generator = code.generator();
    let of =
        |position| (0..code.parity().len()).filter(|&row| !generator.get(row, position).is_zero()).count();
    (0..code.data().len()).map(|position| of(position) as u32).collect()
}

impl Run {
    /// Device time of one write of a client and the reads before it, all devices together, in
    /// nanoseconds: what a batch must be longer than.
    pub fn device_ns_per_write(&self) -> u64 {
        let bytes = u64::from(self.write_bytes);
        let (read, write) = (self.device.mean_ns(false, bytes), self.device.mean_ns(true, bytes));
        let reads = u64::from(self.reads_per_mille.min(999));
        let reads_before = read * reads / (1000 - reads);
        let q = self.parities.iter().map(|&q| u64::from(q)).sum::<u64>() / self.parities.len().max(1) as u64;
        let write_ns = match self.scheme {
            Scheme::Raid0 => write,
            Scheme::Std => read + write + q * (read + write),
            Scheme::Wcl => write + q * (read + write),
            Scheme::Delayed => {
                let all = u64::from(self.clients_per_app.min(self.clients).max(1)) * bytes;
                let unit = all.min(self.unit_bytes.into()).max(1);
                let units = all.div_ceil(unit);
                let end = units * self.device.mean_ns(false, unit) + q * self.device.mean_ns(true, unit);
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
