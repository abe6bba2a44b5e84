//! Notes: events and known faults of a volume, as entries of records and of the state beside a
//! snapshot.
//!
//! Except for events, which accumulate, a note states the whole present state of something, so
//! notes are idempotent. No note says where data are stored: a reader without any notes would read
//! the same bytes and know less about them.
//!
//! Times are seconds since 1970, signed, by the clock of the host that noted them; 0: not known.

use super::entry::ENTRY_HEAD_BYTES;
use super::{LogicalStripe, Shape, Slot, UserBlock, must_be_zero};
use crate::layout::layout;
use crate::{FormatError, Part};

const KIND_DEVICE: u16 = 7;
const KIND_EVENT: u16 = 8;
const KIND_SCRUB: u16 = 9;
const KIND_RANGE: u16 = 10;
const KIND_BAD: u16 = 13;
pub(super) const DEVICE_BYTES: usize = 48;
pub(super) const EVENT_BYTES: usize = 40;
pub(super) const SCRUB_BYTES: usize = 136;
pub(super) const RANGE_BYTES: usize = 40;
pub(super) const BAD_BYTES: usize = 32;

/// In place of a slot: the event concerns no device.
const NO_SLOT: u32 = u32::MAX;

/// Number of counters of a scrub, from field `S_COUNTS` on.
const SCRUB_COUNTS: usize = 12;

layout! {
    /// Fields of a note about a device, behind the head.
    DEVICE_NOTE_LAYOUT {
        D_SLOT: "slot" @ 8 + 4, "the device";
        D_REASON: "reason" @ 12 + 2, "why it was lost the last time; 0: it never was";
        D_BAD: "all bad" @ 14 + 2, "1 if all that is on the device counts as bad, because there is no room for a list; else 0";
        D_ERRNO: "system error" @ 16 + 4, "number of the system's error that came with it; 0: none";
        D_RESERVED_2: "reserved" @ 20 + 4, "zero";
        D_SINCE: "lost at" @ 24 + 8, "when it was lost the last time";
        D_CHECKSUM: "checksum errors" @ 32 + 8, "blocks and headers with wrong content, since it is this device";
        D_MEDIA: "media errors" @ 40 + 8, "reads that failed, since it is this device";
    }
}

layout! {
    /// Something that happened, behind the head.
    EVENT_LAYOUT {
        E_WHAT: "what" @ 8 + 2, "1 device lost, 2 device back, 3 device new, 4 device whole, 5 scrub begun, 6 scrub ended, 7 data lost, 10 errors cleared by the operator, 11 copy begun, 12 copy taken, 13 copy failed, 14 copy cancelled, 15 spare taken, 16 the server before was not stopped in order, 17 copy verified, 18 device overwritten";
        E_REASON: "reason" @ 10 + 2, "of a loss or a failed copy, as above";
        E_SLOT: "slot" @ 12 + 4, "the device; 4294967295: none";
        E_ERRNO: "system error" @ 16 + 4, "as above";
        E_RESERVED: "reserved" @ 20 + 4, "zero";
        E_AT: "at" @ 24 + 8, "when";
        E_VALUE: "value" @ 32 + 8, "of lost data the first user block, of a scrub the stripes found bad, of a verified copy the parts rebuilt, else 0";
    }
}

layout! {
    /// The last scrub, behind the head.
    SCRUB_LAYOUT {
        S_STATE: "state" @ 8 + 4, "1 running, 2 paused, 3 ended, 4 stopped before its end";
        S_REPAIR: "repair" @ 12 + 4, "1 if bad blocks are rewritten, else 0";
        S_BEGUN: "begun at" @ 16 + 8, "when";
        S_ENDED: "ended at" @ 24 + 8, "when it ended or was stopped; 0 before";
        S_POSITION: "position" @ 32 + 8, "the logical stripes before it are judged";
        S_COUNTS: "counts" @ 40 + 96, "8 bytes each: stripes clean; with wrong checksums; unreadable; located; ambiguous; unlocatable; blocks of the log; with wrong checksums; unreadable; devices with bad metadata; stripes repaired; stripes that could not be";
    }
}

layout! {
    /// State of a range of the user's blocks, behind the head.
    RANGE_LAYOUT {
        R_FIRST: "first user block" @ 8 + 8, "of the range";
        R_COUNT: "count" @ 16 + 8, "how many, at least 1";
        R_KIND: "is" @ 24 + 4, "0 good, 1 lost: it cannot be read";
        R_RESERVED: "reserved" @ 28 + 4, "zero";
        R_SINCE: "since" @ 32 + 8, "when it was found to be so";
    }
}

layout! {
    /// Bad chunks and log blocks of a device, behind the head.
    BAD_LAYOUT {
        B_SLOT: "slot" @ 8 + 4, "the device";
        B_IS: "is" @ 12 + 4, "0 good, 1 bad: wrong, or it cannot be read";
        B_FIRST: "first" @ 16 + 8, "the first logical stripe; a log row is its number and the number of logical stripes more";
        B_COUNT: "count" @ 24 + 8, "how many, at least 1";
    }
}

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// Known facts of a device.
    Device(DeviceNote),
    /// Something that happened.
    Event(EventNote),
    /// The last scrub.
    Scrub(ScrubNote),
    /// State of a range of the user's blocks.
    Range(RangeNote),
    /// Bad content of a device.
    Bad(BadNote),
}

/// Reason for the loss of a device. An unknown number comes from a later program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reason(pub u16);

impl Reason {
    /// It never was lost.
    pub const NONE: Reason = Reason(0);
    /// It was not there when the volume was opened.
    pub const NOT_THERE: Reason = Reason(1);
    /// It did not answer any more.
    pub const GONE: Reason = Reason(2);
    /// It failed a write or a flush.
    pub const WRITE_FAILED: Reason = Reason(3);
    /// Its operator took it out.
    pub const OPERATOR: Reason = Reason(4);
    /// It answered no request for longer than the deadline of a device.
    pub const HANGS: Reason = Reason(5);
    /// Its content was of an earlier time: it is a copy, or was restored from a backup.
    pub const OLDER: Reason = Reason(6);
    /// The device, or the system, had no space left.
    pub const NO_SPACE: Reason = Reason(7);
    /// It was slower than the others for long.
    pub const SLOW: Reason = Reason(8);
    /// It read back other bytes than were written.
    pub const DIFFERS: Reason = Reason(9);
    /// Too many of its reads failed.
    pub const READS_FAILED: Reason = Reason(10);
    /// It was overwritten with something else while it was in use.
    pub const OVERWRITTEN: Reason = Reason(11);
}

/// Known facts of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNote {
    /// The device.
    pub slot: Slot,
    /// Reason of its last loss.
    pub reason: Reason,
    /// Number of the system's error at that loss; 0: none.
    pub errno: i32,
    /// Time of its last loss.
    pub since: i64,
    /// All of its content counts as bad.
    pub all_bad: bool,
    /// Number of blocks and headers that were read with wrong content.
    pub checksum_errors: u64,
    /// Number of reads that failed.
    pub media_errors: u64,
}

/// Kind of an event. An unknown number comes from a later program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventKind(pub u16);

impl EventKind {
    /// A device was lost.
    pub const LOST: EventKind = EventKind(1);
    /// A device that was lost came back.
    pub const BACK: EventKind = EventKind(2);
    /// A new device took a slot.
    pub const NEW: EventKind = EventKind(3);
    /// A device has been rebuilt completely.
    pub const WHOLE: EventKind = EventKind(4);
    /// A scrub began.
    pub const SCRUB_BEGUN: EventKind = EventKind(5);
    /// A scrub came to its end, or was stopped.
    pub const SCRUB_ENDED: EventKind = EventKind(6);
    /// Data cannot be read any more.
    pub const DATA_LOST: EventKind = EventKind(7);
    /// The operator cleared the errors of a device.
    pub const ERRORS_CLEARED: EventKind = EventKind(10);
    /// A new device began to become a copy of one that works.
    pub const COPY_BEGUN: EventKind = EventKind(11);
    /// The copy took the place of the device.
    pub const COPY_TAKEN: EventKind = EventKind(12);
    /// The copy failed, and the old device stays.
    pub const COPY_FAILED: EventKind = EventKind(13);
    /// The copy was cancelled, and the old device stays.
    pub const COPY_CANCELLED: EventKind = EventKind(14);
    /// A spare took the slot of a lost device.
    pub const SPARE_TAKEN: EventKind = EventKind(15);
    /// The previous server was not stopped in order; found when the volume was opened again.
    pub const SERVER_KILLED: EventKind = EventKind(16);
    /// All that the copy holds was verified, and what was bad was rebuilt.
    pub const COPY_VERIFIED: EventKind = EventKind(17);
    /// A device that is in use was overwritten with something else.
    pub const OVERWRITTEN: EventKind = EventKind(18);
}

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventNote {
    /// Kind of the event.
    pub what: EventKind,
    /// Reason of the loss, if the event is a loss.
    pub reason: Reason,
    /// The device, if the event concerns one.
    pub slot: Option<Slot>,
    /// Number of the system's error; 0: none.
    pub errno: i32,
    /// Time of the event.
    pub at: i64,
    /// Value of the event, otherwise 0. It is the first user block of lost data, the number of bad
    /// stripes of a scrub, or the number of rebuilt parts of a verified copy.
    pub value: u64,
}

/// Progress of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScrubState {
    /// It is running.
    Running,
    /// It waits for the user to continue it.
    Paused,
    /// It came to its end.
    Ended,
    /// It was stopped before.
    Stopped,
}

/// The last scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScrubNote {
    /// Progress.
    pub state: ScrubState,
    /// True if the scrub repairs bad blocks.
    pub repair: bool,
    /// When it began.
    pub begun_at: i64,
    /// When it ended or was stopped; 0 before.
    pub ended_at: i64,
    /// Every logical stripe before this one has been verified.
    pub position: LogicalStripe,
    /// Counters, in the order of the table.
    pub counts: [u64; SCRUB_COUNTS],
}

/// State of a range of the user's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeNote {
    /// Its first block.
    pub first: UserBlock,
    /// Number of them, at least 1.
    pub count: u64,
    /// True if the range cannot be read.
    pub is_lost: bool,
    /// Time at which this was found.
    pub since: i64,
}

/// A run of chunks of stripes, or of blocks of log rows, on a device, which are bad or good again.
/// A bad one was wrong or unreadable when it was last read, and was not written since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BadNote {
    /// The device.
    pub slot: Slot,
    /// The first logical stripe. A log row has its number plus the number of logical stripes.
    pub first: u64,
    /// Number of them, at least 1.
    pub count: u64,
    /// True if they are bad, false if they are good again.
    pub is_bad: bool,
}

impl Note {
    /// True for the kinds of entries that are notes.
    pub(super) fn is_kind(kind: u16) -> bool {
        matches!(kind, KIND_DEVICE..=KIND_RANGE | KIND_BAD)
    }

    pub(super) fn kind(&self) -> u16 {
        match self {
            Note::Device(_) => KIND_DEVICE,
            Note::Event(_) => KIND_EVENT,
            Note::Scrub(_) => KIND_SCRUB,
            Note::Range(_) => KIND_RANGE,
            Note::Bad(_) => KIND_BAD,
        }
    }

    pub(super) fn len_of(kind: u16) -> usize {
        match kind {
            KIND_DEVICE => DEVICE_BYTES,
            KIND_EVENT => EVENT_BYTES,
            KIND_SCRUB => SCRUB_BYTES,
            KIND_BAD => BAD_BYTES,
            _ => RANGE_BYTES,
        }
    }

    /// Returns the length of the encoded note.
    pub fn len_bytes(&self) -> usize {
        Note::len_of(self.kind())
    }

    pub(super) fn check(&self, part: Part, shape: &Shape) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        let known = |slot: Slot| slot.0 < shape.devices;
        match self {
            Note::Device(note) => rule(known(note.slot), "slot", "must be below the number of devices"),
            Note::Event(note) => {
                let fits = note.slot.is_none_or(known);
                rule(fits, "slot", "must be below the number of devices")
            }
            Note::Scrub(note) => {
                let fits = note.position.0 <= shape.logical_stripes;
                rule(fits, "position", "must be within the volume")
            }
            Note::Range(note) => {
                let end = note.first.0.checked_add(note.count);
                let fits = note.count >= 1 && end.is_some_and(|end| end <= shape.user_blocks());
                rule(fits, "first user block", "must begin a range of the volume's")
            }
            Note::Bad(note) => {
                rule(known(note.slot), "slot", "must be below the number of devices")?;
                let all = shape.logical_stripes + u64::from(shape.log_rows);
                let end = note.first.checked_add(note.count);
                let fits = note.count >= 1 && end.is_some_and(|end| end <= all);
                rule(fits, "first", "must begin a range of the volume's stripes and log rows")
            }
        }
    }

    /// Encodes the note into an entry whose head is already encoded.
    pub(super) fn encode(&self, out: &mut [u8]) {
        match self {
            Note::Device(note) => {
                D_SLOT.put_u32(out, note.slot.0);
                D_REASON.put(out, &note.reason.0.to_le_bytes());
                D_BAD.put(out, &u16::from(note.all_bad).to_le_bytes());
                D_ERRNO.put(out, &note.errno.to_le_bytes());
                D_SINCE.put(out, &note.since.to_le_bytes());
                D_CHECKSUM.put_u64(out, note.checksum_errors);
                D_MEDIA.put_u64(out, note.media_errors);
            }
            Note::Event(note) => {
                E_WHAT.put(out, &note.what.0.to_le_bytes());
                E_REASON.put(out, &note.reason.0.to_le_bytes());
                E_SLOT.put_u32(out, note.slot.map_or(NO_SLOT, |slot| slot.0));
                E_ERRNO.put(out, &note.errno.to_le_bytes());
                E_AT.put(out, &note.at.to_le_bytes());
                E_VALUE.put_u64(out, note.value);
            }
            Note::Scrub(note) => {
                let state = match note.state {
                    ScrubState::Running => 1,
                    ScrubState::Paused => 2,
                    ScrubState::Ended => 3,
                    ScrubState::Stopped => 4,
                };
                S_STATE.put_u32(out, state);
                S_REPAIR.put_u32(out, note.repair.into());
                S_BEGUN.put(out, &note.begun_at.to_le_bytes());
                S_ENDED.put(out, &note.ended_at.to_le_bytes());
                S_POSITION.put_u64(out, note.position.0);
                let counts = &mut out[S_COUNTS.offset as usize..];
                for (place, count) in counts.chunks_exact_mut(8).zip(&note.counts) {
                    place.copy_from_slice(&count.to_le_bytes());
                }
            }
            Note::Range(note) => {
                R_FIRST.put_u64(out, note.first.0);
                R_COUNT.put_u64(out, note.count);
                R_KIND.put_u32(out, note.is_lost.into());
                R_SINCE.put(out, &note.since.to_le_bytes());
            }
            Note::Bad(note) => {
                B_SLOT.put_u32(out, note.slot.0);
                B_IS.put_u32(out, note.is_bad.into());
                B_FIRST.put_u64(out, note.first);
                B_COUNT.put_u64(out, note.count);
            }
        }
    }

    /// Decodes an entry of a kind for which [`Note::is_kind`] is true. Its length must be exact.
    pub(super) fn decode(part: Part, kind: u16, bytes: &[u8]) -> Result<Note, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        debug_assert!(bytes.len() >= ENTRY_HEAD_BYTES);
        Ok(match kind {
            KIND_DEVICE => {
                must_be_zero(part, &D_RESERVED_2.get::<4>(bytes))?;
                Note::Device(DeviceNote {
                    slot: Slot(D_SLOT.u32(bytes)),
                    reason: Reason(u16::from_le_bytes(D_REASON.get(bytes))),
                    errno: i32::from_le_bytes(D_ERRNO.get(bytes)),
                    since: i64::from_le_bytes(D_SINCE.get(bytes)),
                    all_bad: match u16::from_le_bytes(D_BAD.get(bytes)) {
                        0 => false,
                        1 => true,
                        _ => return Err(invalid("all bad", "must be 0 or 1")),
                    },
                    checksum_errors: D_CHECKSUM.u64(bytes),
                    media_errors: D_MEDIA.u64(bytes),
                })
            }
            KIND_EVENT => {
                must_be_zero(part, &E_RESERVED.get::<4>(bytes))?;
                Note::Event(EventNote {
                    what: EventKind(u16::from_le_bytes(E_WHAT.get(bytes))),
                    reason: Reason(u16::from_le_bytes(E_REASON.get(bytes))),
                    slot: Some(E_SLOT.u32(bytes)).filter(|&slot| slot != NO_SLOT).map(Slot),
                    errno: i32::from_le_bytes(E_ERRNO.get(bytes)),
                    at: i64::from_le_bytes(E_AT.get(bytes)),
                    value: E_VALUE.u64(bytes),
                })
            }
            KIND_SCRUB => {
                let counts = bytes[S_COUNTS.offset as usize..].chunks_exact(8);
                let mut counts = counts.map(|count| u64::from_le_bytes(count.try_into().expect("8 bytes")));
                Note::Scrub(ScrubNote {
                    state: match S_STATE.u32(bytes) {
                        1 => ScrubState::Running,
                        2 => ScrubState::Paused,
                        3 => ScrubState::Ended,
                        4 => ScrubState::Stopped,
                        _ => return Err(invalid("state", "must be 1 to 4")),
                    },
                    repair: match S_REPAIR.u32(bytes) {
                        0 => false,
                        1 => true,
                        _ => return Err(invalid("repair", "must be 0 or 1")),
                    },
                    begun_at: i64::from_le_bytes(S_BEGUN.get(bytes)),
                    ended_at: i64::from_le_bytes(S_ENDED.get(bytes)),
                    position: LogicalStripe(S_POSITION.u64(bytes)),
                    counts: std::array::from_fn(|_| counts.next().unwrap_or(0)),
                })
            }
            KIND_BAD => Note::Bad(BadNote {
                slot: Slot(B_SLOT.u32(bytes)),
                first: B_FIRST.u64(bytes),
                count: B_COUNT.u64(bytes),
                is_bad: match B_IS.u32(bytes) {
                    0 => false,
                    1 => true,
                    _ => return Err(invalid("is", "must be 0 or 1")),
                },
            }),
            _ => {
                must_be_zero(part, &R_RESERVED.get::<4>(bytes))?;
                Note::Range(RangeNote {
                    first: UserBlock(R_FIRST.u64(bytes)),
                    count: R_COUNT.u64(bytes),
                    is_lost: match R_KIND.u32(bytes) {
                        0 => false,
                        1 => true,
                        _ => return Err(invalid("is", "must be 0 or 1")),
                    },
                    since: i64::from_le_bytes(R_SINCE.get(bytes)),
                })
            }
        })
    }
}
