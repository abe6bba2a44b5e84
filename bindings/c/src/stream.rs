//! Streams by descriptor, in bounded memory: shards of Pantile's own layout, and chunks as other
//! systems store them.
//!
//! A descriptor stays the caller's: it is read or written from its position on, and never closed.

use crate::answer::{Answer, Fault, PantileError, PantileStatus, answer, free, given, list, put, text};
use crate::code::{PantileCode, check_below, hand_out};
use crate::codec::PantileCodec;
use crate::stripe::check_element;
use pantile::code::foreign::Profile;
use pantile::{Check, Checked, ChunkError, Chunks, Code, Codec, ShardError};
use std::ffi::{c_char, c_int, c_uint};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// `pantile_check`.
pub type PantileCheck = c_uint;

/// The columns that a code has at most.
pub const WRONG_MOST: usize = 258;

/// `pantile_wrong_column`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PantileWrongColumn {
    pub column: usize,
    pub first: u64,
    pub bytes: u64,
}

/// `pantile_checked`.
#[repr(C)]
pub struct PantileChecked {
    pub is_complete: c_int,
    pub doubts: u64,
    pub first_doubt: u64,
    pub wrong_count: usize,
    pub wrong: [PantileWrongColumn; WRONG_MOST],
}

/// `pantile_chunks`.
pub struct PantileChunks {
    chunks: Chunks,
}

impl From<ShardError> for Fault {
    fn from(error: ShardError) -> Fault {
        let status = match error {
            ShardError::Plan(error) => return error.into(),
            ShardError::Doubt(_) => PantileStatus::NotLocated,
            ShardError::Data(_) | ShardError::Shard { .. } => PantileStatus::Io,
            _ => PantileStatus::BadArgument,
        };
        Fault::new(status, error.to_string())
    }
}

impl From<ChunkError> for Fault {
    fn from(error: ChunkError) -> Fault {
        Fault::bad_argument(error.to_string())
    }
}

/// A file behind a descriptor of the caller.
type Borrowed = ManuallyDrop<File>;

/// Returns the file of a descriptor; `None` for a negative one.
///
/// # Safety
///
/// The descriptor is negative, or the caller's as long as the file is used.
unsafe fn file(descriptor: c_int) -> Option<Borrowed> {
    // SAFETY: the caller's promise, and the file is never closed here.
    (descriptor >= 0).then(|| ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Returns the file of the data.
///
/// # Safety
///
/// As [`file`].
unsafe fn data_file(descriptor: c_int) -> Result<Borrowed, Fault> {
    // SAFETY: the caller's promise.
    let file = unsafe { file(descriptor) };
    file.ok_or_else(|| {
        Fault::bad_argument(format!("the descriptor of the data is {descriptor}; pass an open one"))
    })
}

/// Returns the files of the columns of a code.
///
/// # Safety
///
/// NULL, or `count` descriptors, each as [`file`] needs it.
unsafe fn files(
    code: &Code,
    descriptors: *const c_int,
    count: usize,
) -> Result<Vec<Option<Borrowed>>, Fault> {
    let need = code.columns();
    if count != need {
        return Err(Fault::bad_argument(format!(
            "the code has {need} columns, {count} descriptors were given; give one per column, -1 where there is none"
        )));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { list(descriptors, count, "the list of descriptors")?.iter().map(|&one| file(one)).collect() })
}

fn readers(files: &mut [Option<Borrowed>]) -> Vec<Option<&mut dyn Read>> {
    files.iter_mut().map(|file| Some(&mut **file.as_mut()? as _)).collect()
}

fn some_writers(files: &mut [Option<Borrowed>]) -> Vec<Option<&mut dyn Write>> {
    files.iter_mut().map(|file| Some(&mut **file.as_mut()? as _)).collect()
}

/// Returns a writer for every column.
fn writers(files: &mut [Option<Borrowed>]) -> Result<Vec<&mut dyn Write>, Fault> {
    let all = some_writers(files).into_iter().enumerate();
    all.map(|(column, file)| {
        file.ok_or_else(|| {
            Fault::bad_argument(format!("the descriptor of column {column} is negative; pass an open one"))
        })
    })
    .collect()
}

fn check_of(check: PantileCheck) -> Result<Check, Fault> {
    match check {
        0 => Ok(Check::Certain),
        1 => Ok(Check::Probable),
        2 => Ok(Check::Off),
        other => Err(Fault::bad_argument(format!("check is {other}; give one of pantile_check, 0 to 2"))),
    }
}

/// Gives the result of a check to a caller who wants it.
///
/// # Safety
///
/// `to` is NULL or valid for a write.
unsafe fn give(to: *mut PantileChecked, checked: &Checked) -> Answer {
    if to.is_null() {
        return Ok(());
    }
    let none = PantileWrongColumn { column: 0, first: 0, bytes: 0 };
    let mut given = PantileChecked {
        is_complete: c_int::from(checked.is_complete),
        doubts: checked.doubts,
        first_doubt: checked.first_doubt.as_ref().map_or(u64::MAX, |doubt| doubt.from),
        wrong_count: checked.wrong.len(),
        wrong: [none; WRONG_MOST],
    };
    for (to, wrong) in given.wrong.iter_mut().zip(&checked.wrong) {
        *to = PantileWrongColumn { column: wrong.column, first: wrong.first, bytes: wrong.bytes };
    }
    // SAFETY: the caller's promise.
    unsafe { put(to, "checked", given) }
}

/// Gives a number to a caller who wants it.
///
/// # Safety
///
/// As [`give`].
unsafe fn give_number(to: *mut u64, number: u64) -> Answer {
    // SAFETY: the caller's promise.
    if to.is_null() { Ok(()) } else { unsafe { put(to, "data_bytes", number) } }
}

/// Returns the codec of a call, whose elements have a possible length.
///
/// # Safety
///
/// NULL, or a codec.
unsafe fn codec_for<'c>(codec: *const PantileCodec, element_bytes: usize) -> Result<&'c Codec, Fault> {
    // SAFETY: the caller's promise.
    let codec = unsafe { &given(codec, "codec")?.codec };
    check_element(codec.code(), element_bytes)?;
    Ok(codec)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_encode_stream(
    codec: *const PantileCodec,
    data: c_int,
    shards: *const c_int,
    column_count: usize,
    element_bytes: usize,
    data_bytes: *mut u64,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; `column_count` descriptors; NULL or a place for the number.
    answer(error, || unsafe {
        let codec = codec_for(codec, element_bytes)?;
        let (mut data, mut shards) = (data_file(data)?, files(codec.code(), shards, column_count)?);
        let read = codec.encode_stream(&mut *data, &mut writers(&mut shards)?, element_bytes)?;
        give_number(data_bytes, read)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_decode_stream(
    codec: *const PantileCodec,
    shards: *const c_int,
    column_count: usize,
    element_bytes: usize,
    data: c_int,
    data_bytes: u64,
    check: PantileCheck,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; `column_count` descriptors; NULL or a place for the result.
    answer(error, || unsafe {
        let (codec, check) = (codec_for(codec, element_bytes)?, check_of(check)?);
        let (mut data, mut shards) = (data_file(data)?, files(codec.code(), shards, column_count)?);
        let shards = &mut readers(&mut shards);
        give(checked, &codec.decode_stream_with(shards, &mut *data, element_bytes, data_bytes, check)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_rebuild_stream(
    codec: *const PantileCodec,
    shards: *const c_int,
    rebuilt: *const c_int,
    column_count: usize,
    element_bytes: usize,
    data_bytes: u64,
    check: PantileCheck,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; `column_count` descriptors twice; NULL or a place for the
    // result.
    answer(error, || unsafe {
        let (codec, check) = (codec_for(codec, element_bytes)?, check_of(check)?);
        let mut shards = files(codec.code(), shards, column_count)?;
        let mut rebuilt = files(codec.code(), rebuilt, column_count)?;
        let (shards, rebuilt) = (&mut readers(&mut shards), &mut some_writers(&mut rebuilt));
        give(checked, &codec.rebuild_stream(shards, rebuilt, element_bytes, data_bytes, check)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_verify_stream(
    codec: *const PantileCodec,
    shards: *const c_int,
    column_count: usize,
    element_bytes: usize,
    data_bytes: u64,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a codec; `column_count` descriptors; NULL or a place for the result.
    answer(error, || unsafe {
        let codec = codec_for(codec, element_bytes)?;
        let mut shards = files(codec.code(), shards, column_count)?;
        let shards = &mut readers(&mut shards);
        give(checked, &codec.verify_stream(shards, element_bytes, data_bytes, Check::Certain)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_new(
    profile: *const c_char,
    chunk_bytes: usize,
    chunks: *mut *mut PantileChunks,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a text that ends with a zero; a place for the handle.
        unsafe {
            hand_out(chunks, "chunks", || {
                let profile = Profile::parse(text(profile, "profile")?)?;
                let chunk = (chunk_bytes > 0).then_some(chunk_bytes);
                Ok(PantileChunks { chunks: Chunks::new(&profile, chunk)? })
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_free(chunks: *mut PantileChunks) {
    // SAFETY: the header.
    unsafe { free(chunks) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_code(
    chunks: *const PantileChunks,
    code: *mut *mut PantileCode,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; a place for the handle.
    answer(error, || unsafe {
        hand_out(code, "code", || Ok(PantileCode { code: given(chunks, "chunks")?.chunks.code().clone() }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_bytes(
    chunks: *const PantileChunks,
    column: usize,
    data_bytes: u64,
    bytes: *mut u64,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; a place for the number.
    answer(error, || unsafe {
        let chunks = &given(chunks, "chunks")?.chunks;
        check_below(column, chunks.code().columns(), "column")?;
        put(bytes, "bytes", chunks.len_of(column, data_bytes))
    })
}

/// Refuses data that are read or written at several places, and are a pipe.
fn check_is_file(chunks: &Chunks, data: &mut File) -> Answer {
    match chunks.is_one_stripe() && data.stream_position().is_err() {
        true => Err(Fault::bad_argument(
            "these chunks are pieces of the whole data, at several places of it; pass the descriptor of a file, not \
             of a pipe",
        )),
        false => Ok(()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_encode(
    chunks: *const PantileChunks,
    data: c_int,
    files: *const c_int,
    column_count: usize,
    data_bytes: *mut u64,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; `column_count` descriptors; NULL or a place for the number.
    answer(error, || unsafe {
        let chunks = &given(chunks, "chunks")?.chunks;
        let stores = chunks.code().check_stores();
        stores.map_err(|error| Fault::new(PantileStatus::StudyOnly, error.to_string()))?;
        let (mut data, mut files) = (data_file(data)?, self::files(chunks.code(), files, column_count)?);
        check_is_file(chunks, &mut data)?;
        let files = &mut writers(&mut files)?;
        let read = match chunks.is_one_stripe() {
            true => {
                let len = data.seek(SeekFrom::End(0)).map_err(ShardError::Data)?;
                chunks.encode_at(&mut *data, len, files)?;
                len
            }
            false => chunks.encode(&mut *data, files)?,
        };
        give_number(data_bytes, read)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_decode(
    chunks: *const PantileChunks,
    files: *const c_int,
    column_count: usize,
    data: c_int,
    data_bytes: u64,
    check: PantileCheck,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; `column_count` descriptors; NULL or a place for the result.
    answer(error, || unsafe {
        let chunks = given(chunks, "chunks")?.chunks.clone().with_check(check_of(check)?);
        let (mut data, mut files) = (data_file(data)?, self::files(chunks.code(), files, column_count)?);
        check_is_file(&chunks, &mut data)?;
        give(checked, &chunks.decode_at(&mut readers(&mut files), &mut *data, data_bytes)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_rebuild(
    chunks: *const PantileChunks,
    files: *const c_int,
    rebuilt: *const c_int,
    column_count: usize,
    data_bytes: u64,
    check: PantileCheck,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; `column_count` descriptors twice; NULL or a place for the result.
    answer(error, || unsafe {
        let chunks = given(chunks, "chunks")?.chunks.clone().with_check(check_of(check)?);
        let mut files = self::files(chunks.code(), files, column_count)?;
        let mut rebuilt = self::files(chunks.code(), rebuilt, column_count)?;
        give(checked, &chunks.rebuild(&mut readers(&mut files), &mut some_writers(&mut rebuilt), data_bytes)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_chunks_verify(
    chunks: *const PantileChunks,
    files: *const c_int,
    column_count: usize,
    data_bytes: u64,
    checked: *mut PantileChecked,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: chunks; `column_count` descriptors; NULL or a place for the result.
    answer(error, || unsafe {
        let chunks = &given(chunks, "chunks")?.chunks;
        let mut files = self::files(chunks.code(), files, column_count)?;
        give(checked, &chunks.verify(&mut readers(&mut files), data_bytes)?)
    })
}
