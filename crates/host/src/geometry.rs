//! Default numbers of a new volume, and the geometry of a superblock.

use crate::memory::BLOCK;
use pantile_code::{Code, CodeError, Placement};
use pantile_format::FormatError;
use pantile_format::volume::{RECORD_BLOCKS_MAX, Superblock, VolumeId};
use pantile_plan::{Choice, Writes};
use pantile_volume::{Geometry, NewVolume, Slot};

/// Longest chunk: long enough for a disk to stream, and its checksums take little memory.
const CHUNK_BYTES_MAX: u64 = 256 << 10;

/// Fewest stripes of a volume; if necessary the elements are shorter. With fewer, merging has
/// little choice.
const STRIPES_WANTED: u64 = 128;

/// Most blocks of the log. Each costs about 100 bytes of memory and, if its row is full, 17 bytes
/// of every snapshot on every device.
const LOG_BLOCKS_MAX: u64 = 1 << 20;

/// Most blocks of the log times devices. With it, a snapshot of a log of full rows writes at most
/// about 300 MB to all devices together.
const LOG_BLOCKS_BY_DEVICES_MAX: u64 = 1 << 24;

/// Blocks of a record beside the stripes that it switches: for its head and the states of the
/// devices.
const RECORD_OTHER_BLOCKS: u64 = 2;

/// Least size of spare places for stripes, if that is at most an eighth of the volume. Stripes are
/// written there ahead of a commit.
const SPARE_BYTES_MIN: u64 = 128 << 20;

/// Fewest rows of the log.
const LOG_ROWS_MIN: u64 = 512;

/// Parameters of a new volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'c> {
    pub(crate) code: &'c Code,
    pub(crate) placement: Placement,
    pub(crate) volume: VolumeId,
    /// Bytes that epochs of delayed parity may overwrite at a time, beyond the reserve of every
    /// volume.
    pub(crate) epoch_bytes: u64,
}

impl Wanted<'_> {
    /// Returns the numbers of a volume with these elements and stripes.
    fn numbers(&self, element_blocks: u32, stripes: u64) -> NewVolume {
        let mut new = numbers((self.code, self.placement), self.volume, element_blocks, stripes);
        if self.epoch_bytes > 0 {
            // A range that begins within a stripe also ends within one, so one stripe is added; the
            // volume has at most `most`.
            let most = stripes.min(self.most_epoch_stripes());
            let places = (self.epoch_bytes.div_ceil(self.stripe_bytes(element_blocks)) + 1).min(most);
            new.spare_stripes = new.spare_stripes.saturating_add(places.try_into().unwrap_or(u32::MAX));
            // One record switches all of these stripes, and takes at most a quarter of the journal.
            let record = (places * switch_bytes(self.code)).div_ceil(BLOCK as u64) + RECORD_OTHER_BLOCKS;
            let record = record.min(RECORD_BLOCKS_MAX.into()) as u32;
            new.journal_blocks = new.journal_blocks.max(4 * record);
        }
        new
    }

    fn stripe_bytes(&self, element_blocks: u32) -> u64 {
        self.code.data().len() as u64 * u64::from(element_blocks) * BLOCK as u64
    }

    /// Returns the most bytes that epochs can overwrite, with any reserve: one record names all of
    /// their stripes.
    pub(crate) fn most_epoch_bytes(&self, element_blocks: u32) -> u64 {
        (self.most_epoch_stripes() - 1).saturating_mul(self.stripe_bytes(element_blocks))
    }

    /// Returns the most stripes that one record can name.
    fn most_epoch_stripes(&self) -> u64 {
        (u64::from(RECORD_BLOCKS_MAX) - RECORD_OTHER_BLOCKS) * BLOCK as u64 / switch_bytes(self.code)
    }
}

/// Returns the bytes that a record needs to switch one stripe.
fn switch_bytes(code: &Code) -> u64 {
    2 * 64 + 8 * code.columns() as u64
}

/// Returns the default geometry of a volume of at least `user_bytes`.
///
/// Errors: the volume is impossible, for example because it has more stripes than the format can
/// number.
pub fn usual_geometry(code: &Code, volume: VolumeId, user_bytes: u64) -> Result<Geometry, FormatError> {
    let placement = usual_placement(code).placement;
    for_user_bytes(&Wanted { code, placement, volume, epoch_bytes: 0 }, user_bytes)
}

/// Returns the default placement of a code.
pub fn usual_placement(code: &Code) -> Choice {
    pantile_plan::usual_placement(code, Writes::Whole)
}

/// Returns the geometry of a volume of at least `user_bytes`.
pub(crate) fn for_user_bytes(wanted: &Wanted<'_>, user_bytes: u64) -> Result<Geometry, FormatError> {
    let code = wanted.code;
    let user_blocks = user_bytes.div_ceil(BLOCK as u64).max(1);
    let element_blocks = element_blocks(code, user_blocks);
    let stripes = user_blocks.div_ceil(code.data().len() as u64 * u64::from(element_blocks));
    Geometry::new(wanted.numbers(element_blocks, stripes))
}

/// Returns the most bytes of a volume: a stripe has a 32-bit number, and some of the places are
/// spare.
pub(crate) fn most_user_bytes(code: &Code) -> u64 {
    let per_stripe = code.data().len() as u64 * u64::from(element_blocks(code, u64::MAX)) * BLOCK as u64;
    (u64::from(u32::MAX) / 32 * 31).saturating_mul(per_stripe)
}

/// Returns the largest volume that fits devices of these lengths, by slot; `None` if not even the
/// smallest fits.
pub(crate) fn for_devices(wanted: &Wanted<'_>, len_bytes: &[u64]) -> Option<Geometry> {
    let code = wanted.code;
    let blocks = |slot: usize| len_bytes[slot] / BLOCK as u64;
    let rows = |slot: usize| blocks(slot) / code.rows(slot) as u64;
    let user = (0..len_bytes.len()).map(rows).min().unwrap_or(0).saturating_mul(code.data().len() as u64);
    let fits = |geometry: &Geometry| {
        (0..len_bytes.len()).all(|slot| geometry.device_blocks(Slot(slot as u32)) <= blocks(slot))
    };
    let mut best: Option<Geometry> = None;
    let mut element = element_blocks(code, user);
    while element > 0 {
        let (mut low, mut high) = (1, user.clamp(1, u32::MAX.into()));
        while low <= high {
            let middle = low + (high - low) / 2;
            match Geometry::new(wanted.numbers(element, middle)) {
                Ok(geometry) if fits(&geometry) => {
                    let better = |best: &Geometry| geometry.user_blocks() > best.user_blocks();
                    if best.as_ref().is_none_or(better) {
                        best = Some(geometry);
                    }
                    low = middle + 1;
                }
                // A volume with too many stripes for the format does not fit, either.
                Ok(_) | Err(_) => high = middle - 1,
            }
        }
        element /= 2;
    }
    best
}

/// Returns the bytes that the smallest volume of a code needs on its longest device.
pub(crate) fn least_bytes(wanted: &Wanted<'_>) -> Result<u64, FormatError> {
    let geometry = Geometry::new(wanted.numbers(1, 1))?;
    let slots = (0..geometry.slots() as u32).map(Slot);
    Ok(slots.map(|slot| geometry.device_blocks(slot)).max().unwrap_or(0) * BLOCK as u64)
}

fn element_blocks(code: &Code, user_blocks: u64) -> u32 {
    let most = CHUNK_BYTES_MAX / BLOCK as u64 / code.rows_max() as u64;
    let mut element = if most == 0 { 1 } else { 1u64 << most.ilog2() };
    while element > 1 && user_blocks / (code.data().len() as u64 * element) < STRIPES_WANTED {
        element /= 2;
    }
    element as u32
}

/// Returns the numbers of a new volume with these elements and stripes: its log, its journal and
/// its spare places.
pub fn numbers(
    (code, placement): (&Code, Placement),
    volume: VolumeId,
    element_blocks: u32,
    stripes: u64,
) -> NewVolume {
    let chunk = code.rows_max() as u64 * u64::from(element_blocks);
    let row_data = match code.rows_max() {
        1 => code.data().len(),
        _ => code.columns() - code.claim().tolerance,
    };
    // The log has a tenth of the data, as the design says, limited by memory.
    let log_blocks_max = LOG_BLOCKS_MAX.min(LOG_BLOCKS_BY_DEVICES_MAX / code.columns().max(1) as u64);
    let log_rows_max = (log_blocks_max / row_data.max(1) as u64).max(LOG_ROWS_MIN);
    let log_rows = (stripes.saturating_mul(chunk) / 10).clamp(LOG_ROWS_MIN, log_rows_max);
    let user_blocks = stripes.saturating_mul(code.data().len() as u64 * u64::from(element_blocks));
    let stripe_bytes = code.data().len() as u64 * u64::from(element_blocks) * BLOCK as u64;
    let spare = (SPARE_BYTES_MIN / stripe_bytes.max(1)).min(stripes / 8).max(stripes / 32);
    NewVolume {
        volume,
        code: code.clone(),
        placement,
        element_blocks,
        logical_stripes: stripes.try_into().unwrap_or(u32::MAX),
        spare_stripes: spare.clamp(16, 4096) as u32,
        log_rows: log_rows as u32,
        // A record takes at most a quarter of the journal: 256 KiB for small volumes, 1 MiB for
        // others.
        journal_blocks: if user_blocks < 1 << 16 { 256 } else { 1024 },
    }
}

/// Reasons why this program has no geometry for a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    Code(CodeError),
    /// The code of the spec has other equations in this program.
    Equations,
    Format(FormatError),
    /// No volume that this program makes has these numbers.
    Numbers,
}

/// Returns the geometry of a superblock; `area` is the definition area of its device.
pub(crate) fn of(superblock: &Superblock, area: &[u8]) -> Result<Geometry, Misfit> {
    let record = superblock.code(area).map_err(Misfit::Format)?;
    let code = match &record.definition {
        Some(text) => Code::from_text(text),
        None => Code::parse(&record.spec),
    };
    let code = code.map_err(Misfit::Code)?;
    if code.fingerprint() != record.fingerprint {
        return Err(Misfit::Equations);
    }
    let shape = &superblock.shape;
    let number = |n: u64| u32::try_from(n).map_err(|_| Misfit::Numbers);
    let geometry = Geometry::new(NewVolume {
        volume: superblock.volume,
        code,
        placement: superblock.placement,
        element_blocks: shape.element_blocks,
        logical_stripes: number(shape.logical_stripes)?,
        spare_stripes: number(shape.physical_stripes.saturating_sub(shape.logical_stripes))?,
        log_rows: shape.log_rows,
        journal_blocks: shape.journal_blocks,
    });
    let geometry = geometry.map_err(Misfit::Format)?;
    let fits =
        (superblock.slot.0 as usize) < geometry.slots() && geometry.zones(superblock.slot).shape() == shape;
    if fits { Ok(geometry) } else { Err(Misfit::Numbers) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_format::volume::LOG_ROWS_MAX;

    const ID: VolumeId = VolumeId([3; 16]);

    #[test]
    fn a_size_is_reached_and_devices_are_filled() {
        for spec in ["raid6:6", "mirror:2", "dcode:7", "raidp:4", "raid0:1", "raidq:60+4"] {
            let Ok(code) = Code::parse(spec) else { continue };
            let sizes = [1, 1 << 20, 64 << 20, 1 << 30, 16 << 40];
            for user_bytes in sizes {
                let placement = Placement::spread(&code);
                let wanted = Wanted { code: &code, placement, volume: ID, epoch_bytes: 0 };
                let geometry = for_user_bytes(&wanted, user_bytes).expect("a volume");
                let have = geometry.user_blocks() * BLOCK as u64;
                assert!(have >= user_bytes, "{spec}: {user_bytes}");
                let slots = 0..geometry.slots() as u32;
                let len: Vec<u64> =
                    slots.map(|slot| geometry.device_blocks(Slot(slot)) * BLOCK as u64).collect();
                let again = for_devices(&wanted, &len).expect("it fits");
                assert!(again.user_blocks() * 100 >= geometry.user_blocks() * 95, "{spec}: {user_bytes}");
            }
            let placement = Placement::spread(&code);
            let wanted = Wanted { code: &code, placement, volume: ID, epoch_bytes: 0 };
            let least = least_bytes(&wanted).expect("a volume");
            let devices = vec![least - 1; code.columns()];
            assert!(for_devices(&wanted, &devices).is_none(), "{spec}");
        }
    }

    #[test]
    fn no_volume_has_more_rows_of_log_than_the_format_allows() {
        assert!(LOG_BLOCKS_MAX.max(LOG_ROWS_MIN) <= LOG_ROWS_MAX.into(), "a row holds a block or more");
        for spec in ["mirror:2", "raid0:1", "raid5:3", "dcode:7", "raid6:60"] {
            let code = Code::parse(spec).expect("a code");
            for (element, stripes) in [(1, 1), (64, 1 << 20), (64, u32::MAX.into()), (1, u64::MAX)] {
                let rows = numbers((&code, Placement::spread(&code)), ID, element, stripes).log_rows;
                assert!(rows <= LOG_ROWS_MAX, "{spec}: {rows}");
            }
        }
        let code = Code::parse("mirror:2").expect("a code");
        let of = |log_rows| {
            let new = numbers((&code, Placement::spread(&code)), ID, 1, 8);
            Geometry::new(NewVolume { log_rows, ..new }).is_ok()
        };
        assert!(of(LOG_ROWS_MAX) && !of(LOG_ROWS_MAX + 1));
    }

    #[test]
    fn epochs_have_places_and_a_record_that_names_them() {
        let code = Code::parse("raid6:6").expect("a code");
        let placement = Placement::ROTATED;
        let of = |epoch_bytes| Wanted { code: &code, placement, volume: ID, epoch_bytes };
        let spares = |geometry: &Geometry| geometry.physical_stripes() - geometry.logical_stripes();
        for (user_bytes, epoch_bytes) in [(64u64 << 20, 8u64 << 20), (1 << 40, 64 << 30), (1 << 40, 1)] {
            let usual = for_user_bytes(&of(0), user_bytes).expect("a volume");
            let wanted = for_user_bytes(&of(epoch_bytes), user_bytes).expect("a volume");
            let more = u64::from(spares(&wanted) - spares(&usual));
            let stripe = wanted.stripe_blocks() * BLOCK as u64;
            assert!(more * stripe >= epoch_bytes + stripe, "{user_bytes} {epoch_bytes}");
            let record = u64::from(wanted.journal_blocks() / 4 - 2) * BLOCK as u64;
            assert!(record / switch_bytes(&code) >= more, "{user_bytes} {epoch_bytes}");
            assert!(epoch_bytes <= of(epoch_bytes).most_epoch_bytes(wanted.element_blocks()));
        }
        let most = of(0).most_epoch_bytes(64);
        let geometry = for_user_bytes(&of(most), 1 << 42).expect("a volume");
        assert_eq!(geometry.journal_blocks() / 4, RECORD_BLOCKS_MAX);
    }
}
