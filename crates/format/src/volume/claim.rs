//! The claim: the server of the volume, for other hosts that can reach the same devices.
//!
//! Each device has one block for it, which superblocks never use. It is written again every 2 s
//! without a flush. From a claim a later opening only concludes that another server may be running.
//! A torn or unreadable block is no claim.

use super::{
    BLOCK_BYTES, Session, VOLUME_VERSION, VolumeId, check_start, must_be_volume, must_be_zero, seal, unseal,
};
use crate::layout::layout;
use crate::{FormatError, Part};

const PART: Part = Part::Claim;
const MAGIC_BYTES: &[u8; 8] = b"PANTCLAM";

layout! {
    /// The claim, byte by byte.
    CLAIM_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTCLAM`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        HELD: "held" @ 12 + 4, "1 as long as the volume is served, 0 when it was stopped in order";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        CLAIMANT: "claimant" @ 32 + 16, "drawn at random by each server";
        BEAT: "beat" @ 48 + 8, "counts the writes of this claimant: as long as it grows, the volume is served";
        SESSION: "session" @ 56 + 8, "the volume's session when it was claimed; 0: not known yet";
        AT: "at" @ 64 + 8, "when, by the clock of the claimant: seconds since 1970, signed";
        BOOT: "boot" @ 72 + 16, "names this start of the claimant's system; zeros: not known";
        SPACE: "process space" @ 88 + 8, "names the space of process numbers";
        PROCESS: "process" @ 96 + 4, "the claimant's process";
        HOST_LEN: "host length" @ 100 + 4, "bytes of the host's name, at most 64";
        STARTED: "process start" @ 104 + 8, "when the process was started, in units of the system: a number is used again, both are not";
        HOST: "host" @ 112 + 64, "the host's name in UTF-8, then zeros";
        REST: "reserved" @ 176 + 3912, "zero";
        CRC: "checksum" @ 4088 + 8, "CRC-64/NVME of the 4088 bytes before";
    }
}

/// Server of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Drawn at random by each server.
    pub id: [u8; 16],
    /// Identifies the present boot of its system; zeros: not known.
    pub boot: [u8; 16],
    /// Identifies the namespace of the process number.
    pub process_space: u64,
    /// The number of its process.
    pub process: u32,
    /// When the process was started.
    pub process_start: u64,
    /// The host's name: at most 64 bytes, none of them zero.
    pub host: String,
}

/// Claim of a server on each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The volume that is claimed.
    pub volume: VolumeId,
    /// Server that claims the volume.
    pub claimant: Claimant,
    /// True while it serves; false after an orderly stop.
    pub is_held: bool,
    /// Number of writes of the claim so far.
    pub beat: u64,
    /// The session of the volume; 0: not known yet.
    pub session: Session,
    /// The time of the write.
    pub at: i64,
}

impl Claim {
    /// Returns the encoded block. A host's name is cut off at 64 bytes, between characters.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let Claimant { id, boot, process_space, process, process_start, host } = &self.claimant;
        let mut end = host.len().min(HOST.len as usize);
        while !host.is_char_boundary(end) {
            end -= 1;
        }
        let host = host[..end].split('\0').next().unwrap_or_default();
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        HELD.put_u32(&mut bytes, self.is_held.into());
        VOLUME.put(&mut bytes, &self.volume.0);
        CLAIMANT.put(&mut bytes, id);
        BEAT.put_u64(&mut bytes, self.beat);
        SESSION.put_u64(&mut bytes, self.session.0);
        AT.put(&mut bytes, &self.at.to_le_bytes());
        BOOT.put(&mut bytes, boot);
        SPACE.put_u64(&mut bytes, *process_space);
        PROCESS.put_u32(&mut bytes, *process);
        HOST_LEN.put_u32(&mut bytes, host.len() as u32);
        STARTED.put_u64(&mut bytes, *process_start);
        bytes[HOST.offset as usize..][..host.len()].copy_from_slice(host.as_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads a claim at the front of `bytes`.
    ///
    /// Errors: no magic, a newer version, cut off, a checksum that does not fit, another volume, or
    /// fields that break a rule.
    pub fn decode(bytes: &[u8], volume: VolumeId) -> Result<Claim, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: PART, field, rule };
        check_start(PART, MAGIC_BYTES, bytes, BLOCK_BYTES as u64)?;
        let bytes = &bytes[..BLOCK_BYTES];
        unseal(PART, bytes)?;
        must_be_volume(PART, VOLUME.get(bytes), volume)?;
        must_be_zero(PART, &bytes[REST.offset as usize..CRC.offset as usize])?;
        let place = &bytes[HOST.offset as usize..(HOST.offset + HOST.len) as usize];
        let len = HOST_LEN.u32(bytes) as usize;
        let (host, rest) = place.split_at_checked(len).ok_or(invalid("host", "must fit its field"))?;
        must_be_zero(PART, rest)?;
        let host = std::str::from_utf8(host).ok().filter(|host| !host.contains('\0'));
        Ok(Claim {
            volume,
            claimant: Claimant {
                id: CLAIMANT.get(bytes),
                boot: BOOT.get(bytes),
                process_space: SPACE.u64(bytes),
                process: PROCESS.u32(bytes),
                process_start: STARTED.u64(bytes),
                host: host.ok_or(invalid("host", "must be UTF-8 without zeros"))?.to_owned(),
            },
            is_held: match HELD.u32(bytes) {
                0 => false,
                1 => true,
                _ => return Err(invalid("held", "must be 0 or 1")),
            },
            beat: BEAT.u64(bytes),
            session: Session(SESSION.u64(bytes)),
            at: i64::from_le_bytes(AT.get(bytes)),
        })
    }
}
