//! The first content of a new volume's devices.

use crate::journal::definition_bytes;
use crate::stored::superblock_of;
use crate::{DeviceBlock, Geometry, Slot};
use pantile_format::volume::{DefinitionRef, Features, HistoryId, RecordNumber, Session, Superblock};
use pantile_format::{FormatError, Generation, Part};

/// Names of a new volume that its geometry does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The first history, drawn at random.
    pub history: HistoryId,
    /// A name of at most 64 bytes.
    pub name: String,
    /// The time of creation, in seconds since 1970.
    pub created: i64,
}

/// Returns the first blocks of a new volume's devices, to write and flush before it is opened.
///
/// Errors: `Invalid` with a name or a code that is too long for a superblock.
pub fn format_volume(
    geometry: &Geometry,
    birth: &Birth,
) -> Result<Vec<(Slot, DeviceBlock, Vec<u8>)>, FormatError> {
    let code = &geometry.code;
    let too_long = FormatError::Invalid {
        part: Part::Superblock,
        field: "definition length",
        rule: "must be 57344 at most",
    };
    let definition = match code.definition() {
        Some(text) => Some(DefinitionRef::of(text).ok_or(too_long)?),
        None => None,
    };
    let any = Superblock {
        volume: geometry.volume,
        history: birth.history,
        ancestors: Vec::new(),
        slot: Slot(0),
        update: 0,
        session: Session(1),
        base: Session(1),
        generation_floor: Generation(1),
        first_record: RecordNumber(1),
        created: birth.created,
        name: birth.name.clone(),
        spec: code.spec().to_owned(),
        code_version: code.version().into(),
        fingerprint: code.fingerprint(),
        definition,
        shape: *geometry.shape(),
        placement: geometry.placement,
        snapshot: None,
        lost: Vec::new(),
        features: Features::default(),
        state: None,
        copy_begun: 0,
    };
    let mut writes = Vec::new();
    for slot in (0..geometry.slots() as u32).map(Slot) {
        let (superblock, zones) = (superblock_of(slot, &[], geometry, &any), geometry.zones(slot));
        superblock.check()?;
        let bytes = superblock.encode();
        writes.push((slot, zones.superblock(superblock.update), bytes.clone()));
        writes.push((slot, zones.superblock_copy(), bytes));
        if let Some(text) = code.definition() {
            writes.push((slot, zones.definition().first, definition_bytes(text)));
        }
    }
    Ok(writes)
}
