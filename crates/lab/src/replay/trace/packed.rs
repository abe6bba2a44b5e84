//! Compressed traces: gzip and zstd, recognised by content and unpacked while they are read.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// Bytes unpacked at a time.
const PIECE_BYTES: usize = 1 << 18;

/// Returns the content of a file: unpacked if it is gzip or zstd, otherwise verbatim.
///
/// Errors: its beginning cannot be read. Damage further on is found during reading, and is
/// [`ErrorKind::InvalidData`].
pub fn unpacked(mut from: Box<dyn BufRead>) -> io::Result<Box<dyn BufRead>> {
    // A pipe can give less than four bytes at first.
    let mut begin = Vec::new();
    from.by_ref().take(4).read_to_end(&mut begin)?;
    let is_gzip = begin.starts_with(&[0x1f, 0x8b]);
    let is_zstd = begin == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = Cursor::new(begin).chain(from);
    Ok(match (is_gzip, is_zstd) {
        (true, _) => Box::new(buffered(Gzip(MultiGzDecoder::new(whole)))),
        (_, true) => Box::new(buffered(Zstd { from: whole, decoder: FrameDecoder::new(), is_within: false })),
        _ => Box::new(whole),
    })
}

fn buffered<R: Read>(from: R) -> BufReader<R> {
    BufReader::with_capacity(PIECE_BYTES, from)
}

fn damaged(format: &str) -> io::Error {
    let said = format!("it is damaged, or its end is missing: it cannot be unpacked as {format}");
    io::Error::new(ErrorKind::InvalidData, said)
}

struct Gzip<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => damaged("gzip"),
            _ => error,
        })
    }
}

/// Reader of consecutive frames, as parallel compressors write them.
struct Zstd<R> {
    from: R,
    decoder: FrameDecoder,
    /// True if a frame is begun and not read to its end.
    is_within: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Begins the next frame that has content; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.from.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.from) {
                Ok(()) => {
                    self.is_within = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.from.by_ref().take(length.into()), &mut io::sink())?;
                }
                // A window that is too long for the memory, for example.
                Err(error) => {
                    let said = format!("it cannot be unpacked as zstd: {error}");
                    return Err(io::Error::new(ErrorKind::InvalidData, said));
                }
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.is_within || self.begin()? {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let enough = BlockDecodingStrategy::UptoBytes(into.len().max(1));
                self.decoder.decode_blocks(&mut self.from, enough).map_err(|_| damaged("zstd"))?;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            self.is_within = false;
            let (stored, found) =
                (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if stored.is_some() && stored != found {
                return Err(damaged("zstd"));
            }
        }
        Ok(0)
    }
}
