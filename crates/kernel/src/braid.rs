//! XOR programs whose sums a straight-line kernel carries all at once, and finishes link by link.
//!
//! A [`crate::weave`] walks over its grid in loops. Where at most [`HELD_MOST`] sums are held and [`ROWS_MOST`] swept,
//! the whole grid is code instead: every cell has instructions of its own, so that its registers are fixed, and the
//! branch over an empty one always goes the same way. What needs other sums (the zig-zag of a double recovery) is then
//! finished in *links*, one for each held sum and for each swept sum that needs others, in an order in which each mostly
//! adds the link before it, which is still in registers.
//!
//! A braid is compiled to a *table* of machine words, so that one kernel per number of columns runs every program. Beside
//! the words, which stay, a run has a table of the same shape for the pointers of its buffers and slots, the *places*.
//! [`Layout`] says where what is, and the interpreter of the tests what it means.
//!
//! Invariants: each buffer that lies in a swept and in a held sum is read once; each target is stored once for each slice
//! of [`SLICE_BYTES`]; a slot is written before it is read; links stand in the order of the columns that they finish.

use std::collections::VecDeque;

use crate::weave::{Goal, Loom, NONE, shared_sums};

/// Bytes of a slice: two vectors of the engine that has the registers.
pub(crate) const SLICE_BYTES: usize = 128;

/// Slices of a tile. While a kernel that streams works on a tile, it fetches the next one into the second-level cache,
/// stream after stream: so memory sees runs of eight lines, where a slice has two lines of each of a hundred streams.
/// D-Code(13), chunks of 1 MiB: tiles of 2, 4, 8, 16 slices 0.97, 0.99, 0.94, 0.90 of the limit, without them 0.77.
pub(crate) const TILE_SLICES: usize = 4;

/// Held sums: with two vectors each they fill 28 of 32 registers.
const HELD_MOST: usize = 14;

/// Rows that the straight-line code has.
pub(crate) const ROWS_MOST: usize = 14;

/// The numbers of columns for which there is a kernel.
pub(crate) const WIDTHS: [usize; 10] = [4, 5, 6, 7, 8, 10, 11, 12, 13, 14];

/// Flags of a link: it adds the link before it; it has late terms; row links come before it; its goal is the last use.
pub(crate) const CARRIES: usize = 1;
pub(crate) const HAS_LATE: usize = 2;
pub(crate) const HAS_ROW_LINKS: usize = 4;
pub(crate) const IS_LAST: usize = 8;

/// Words of a row link.
const ROW_LINK: usize = 5;

/// Whether the goal of a column link is a slot.
pub(crate) const IS_SLOT: usize = 16;

/// Flags of a row: its goal is the last use; its sum is also added to the column of its number; it is there; it has plain
/// terms in the list.
pub(crate) const ROW_IS_LAST: usize = 1;
pub(crate) const IS_FORWARDED: usize = 2;
const IS_ROW: usize = 4;
pub(crate) const HAS_PLAIN: usize = 8;

/// Where what is in a table for `width` columns, in words; cells, starts, goals, slots and terms are places.
///
/// * A cell is a buffer, or null.
/// * A row is \[flags, goal, mask of the goal, where its plain terms end\]; 0 ends the rows. The place of the first word is
///   its first plain term, or null; the others are in the list.
/// * A column starts as a buffer, or as zero where the place is null.
/// * A column link is \[flags, where its row links end, where its late terms end, goal, mask\]; one more follows the last
///   column, of which the flags and the end of row links count.
/// * A row link, in its list, is \[flags, slot, where its late terms end, goal, mask\].
/// * A late term, in its list, is \[term, mask\]; a plain term is one word.
///
/// Positions in lists are in bytes from the start of the table. Masks are all ones for buffers, to which the position in
/// them is added, and zero for slots.
pub(crate) struct Layout {
    pub(crate) width: usize,
}

impl Layout {
    pub(crate) fn cell(&self, row: usize, column: usize) -> usize {
        row * self.width + column
    }

    pub(crate) fn row(&self, row: usize) -> usize {
        ROWS_MOST * self.width + 4 * row
    }

    pub(crate) fn start(&self, column: usize) -> usize {
        self.row(ROWS_MOST) + column
    }

    pub(crate) fn link(&self, column: usize) -> usize {
        self.start(self.width) + 5 * column
    }

    /// The starts of the lists of plain terms, row links and late terms.
    pub(crate) fn lists(&self) -> usize {
        self.link(self.width + 1)
    }

    /// Whether any link carries, or is one of a row.
    pub(crate) fn is_chained(&self) -> usize {
        self.lists() + 3
    }

    /// The list of what is fetched ahead: where it starts, what of it belongs to a slice, and to a row, in bytes.
    pub(crate) fn ahead(&self) -> usize {
        self.is_chained() + 1
    }

    /// Words without the lists.
    pub(crate) fn fixed(&self) -> usize {
        self.ahead() + 3
    }
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Braid {
    pub(crate) width: usize,
    words: Vec<usize>,
    /// Places that are buffers: the word, the buffer; last those that are fetched ahead.
    buffers: Vec<(u32, u32)>,
    /// Those that are fetched ahead.
    ahead: usize,
    /// Places that are slots: the word, the slot.
    slots: Vec<(u32, u32)>,
    slot_count: usize,
    /// Buffers that may be stored past the cache.
    last: Vec<u32>,
}

/// A sum that is finished after the sweep.
struct Link {
    sum: usize,
    carries: bool,
    late: Vec<u32>,
}

impl Braid {
    /// Compiles `steps`, as [`crate::weave::Weave::new`] does; `None` if they are too many sums, or nothing meets.
    pub(crate) fn new(steps: &[(usize, Vec<usize>)]) -> Option<Braid> {
        let (buffers, sums) = shared_sums(steps);
        let mut loom = Loom::new(sums, buffers.len() as u32);
        let is_held = loom.held();
        let (held, swept): (Vec<usize>, Vec<usize>) = (0..loom.sums.len()).partition(|&sum| is_held[sum]);
        if held.is_empty() || held.len() > HELD_MOST || swept.len() > ROWS_MOST {
            return None;
        }
        let width = WIDTHS.into_iter().find(|&width| width >= held.len())?;
        let mut links = links(&mut loom, &held, &swept);
        let (swept, forwarded) = forward(&mut loom, &mut links, &is_held, swept);
        let is_read: Vec<u32> = links.iter().flat_map(|link| link.late.iter().copied()).collect();
        // What is read again is stored to the cache.
        let goal = |loom: &mut Loom, sum: usize| {
            let place = loom.result(sum);
            Goal { place, is_last: place < loom.buffers && !is_read.contains(&place) }
        };
        // Columns stand in the order in which they are finished.
        let columns: Vec<usize> = links.iter().map(|link| link.sum).filter(|&sum| is_held[sum]).collect();
        let mut meetings = loom.meetings(&columns, &swept, columns.len());
        let layout = Layout { width };
        let mut table = Table { words: vec![0; layout.fixed()], places: Vec::new() };
        let mut plain = Vec::new();
        for (i, &sum) in swept.iter().enumerate() {
            for (j, &place) in meetings.cells[i].iter().enumerate() {
                table.place(layout.cell(i, j), place);
            }
            let mut own = std::mem::take(&mut meetings.plain[i]);
            table.place(layout.row(i), own.pop().unwrap_or(NONE));
            let has_plain = !own.is_empty();
            plain.append(&mut own);
            let is_late = links.iter().any(|link| link.sum == sum);
            let to =
                if is_late { Goal { place: loom.slot(sum), is_last: false } } else { goal(&mut loom, sum) };
            let row = layout.row(i);
            table.goal(row + 1, to.place, loom.buffers);
            table.words[row] = IS_ROW
                + usize::from(to.is_last) * ROW_IS_LAST
                + usize::from(forwarded[i]) * IS_FORWARDED
                + usize::from(has_plain) * HAS_PLAIN;
            table.words[row + 3] = (layout.fixed() + plain.len()) * size_of::<usize>();
        }
        let row_links = layout.fixed() + plain.len();
        plain.into_iter().for_each(|place| table.push(place));
        let goals: Vec<Goal> = links.iter().map(|link| goal(&mut loom, link.sum)).collect();
        table.links(&layout, &mut loom, &links, &goals, &is_held, &mut meetings.rest);
        let at = layout.lists();
        let lates = row_links + ROW_LINK * links.iter().filter(|link| !is_held[link.sum]).count();
        for (word, start) in [(at, layout.fixed()), (at + 1, row_links), (at + 2, lates)] {
            table.words[word] = start * size_of::<usize>();
        }
        let is_chained = links.iter().any(|link| link.carries || !is_held[link.sum]);
        table.words[layout.is_chained()] = usize::from(is_chained);
        let is_last = |place: u32| loom.made_by[place as usize].is_some() && !is_read.contains(&place);
        let (last, fetched): (Vec<u32>, Vec<u32>) = (0..loom.buffers).partition(|&place| is_last(place));
        let near = table.places.len();
        table.ahead(&layout, swept.len(), &fetched);
        let mut braid = table.braid(&layout, &loom, &buffers, &last);
        braid.ahead = braid.buffers.len() + braid.slots.len() - near;
        Some(braid)
    }

    /// The table.
    pub(crate) fn words(&self) -> &[usize] {
        &self.words
    }

    /// Bytes of all slots.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_count * SLICE_BYTES
    }

    /// Buffers that are written and read no more.
    pub(crate) fn last(&self) -> &[u32] {
        &self.last
    }

    /// Writes the places, as many as there are words: `buffer(i)` is where buffer i starts, `slots` the memory of the slots.
    /// What is fetched ahead is left out unless `ahead`.
    pub(crate) fn fill(
        &self,
        places: &mut [*mut u8],
        buffer: impl Fn(usize) -> *mut u8,
        slots: *mut u8,
        ahead: bool,
    ) {
        let places = &mut places[..self.words.len()];
        places[..Layout { width: self.width }.link(0)].fill(std::ptr::null_mut());
        let left_out = if ahead { 0 } else { self.ahead };
        for &(word, i) in &self.buffers[..self.buffers.len() - left_out] {
            places[word as usize] = buffer(i as usize);
        }
        for &(word, slot) in &self.slots {
            places[word as usize] = slots.wrapping_add(slot as usize * SLICE_BYTES);
        }
    }
}

/// The rows in an order in which a row whose sum a column needs, once the row is swept, has the number of that column; and
/// which rows are such. The columns need them no more.
fn forward(
    loom: &mut Loom,
    links: &mut [Link],
    is_held: &[bool],
    swept: Vec<usize>,
) -> (Vec<usize>, Vec<bool>) {
    let late: Vec<usize> = links.iter().map(|link| link.sum).collect();
    let mut rest: Vec<usize> = swept;
    let mut order: Vec<Option<usize>> = vec![None; rest.len()];
    for (place, link) in order.iter_mut().zip(links.iter_mut().filter(|link| is_held[link.sum])) {
        let found = rest.iter().enumerate().filter(|(_, sum)| !late.contains(sum)).find_map(|(i, &sum)| {
            let result = loom.result(sum);
            link.late.iter().position(|&late| late == result).map(|at| (i, at))
        });
        if let Some((i, at)) = found {
            link.late.swap_remove(at);
            *place = Some(rest.remove(i));
        }
    }
    let is_forwarded = order.iter().map(Option::is_some).collect();
    let mut rest = rest.into_iter();
    (order.into_iter().filter_map(|sum| sum.or_else(|| rest.next())).collect(), is_forwarded)
}

/// The sums that are finished after the sweep, so that as many as possible add the one before.
fn links(loom: &mut Loom, held: &[usize], swept: &[usize]) -> Vec<Link> {
    let mut open: VecDeque<usize> = (0..loom.sums.len())
        .filter(|sum| held.contains(sum) || swept.contains(sum) && loom.needs(*sum))
        .collect();
    let mut links: Vec<Link> = Vec::new();
    while !open.is_empty() {
        let needs = |sum: usize| -> Vec<usize> {
            loom.sums[sum].terms.iter().filter_map(|&t| loom.made_by[t as usize]).collect()
        };
        let before = links.last().map(|link| link.sum);
        let ready = |&sum: &usize| !needs(sum).iter().any(|by| open.contains(by));
        let follows = |&sum: &usize| before.is_some_and(|before| needs(sum).contains(&before));
        let next = open.iter().position(|sum| ready(sum) && follows(sum));
        let next = next
            .or_else(|| open.iter().position(ready))
            .expect("steps are in an order in which they can be done");
        let sum = open.remove(next).expect("a position in it");
        let mut needed = needs(sum);
        let carries = before.and_then(|before| needed.iter().position(|&by| by == before));
        if let Some(carried) = carries {
            needed.remove(carried);
        }
        let late = needed.into_iter().map(|by| loom.result(by)).collect();
        links.push(Link { sum, carries: carries.is_some(), late });
    }
    links
}

/// A table in the making: the words, and which of them are places.
struct Table {
    words: Vec<usize>,
    places: Vec<(u32, u32)>,
}

impl Table {
    fn place(&mut self, word: usize, place: u32) {
        if place != NONE {
            self.places.push((word as u32, place));
        }
    }

    fn push(&mut self, place: u32) {
        self.place(self.words.len(), place);
        self.words.push(0);
    }

    /// A place and its mask.
    fn goal(&mut self, word: usize, place: u32, buffers: u32) {
        self.place(word, place);
        self.words[word + 1] = if place < buffers { usize::MAX } else { 0 };
    }

    /// The links: of columns in their places, of rows in the next list, then their late terms.
    fn links(
        &mut self,
        layout: &Layout,
        loom: &mut Loom,
        links: &[Link],
        goals: &[Goal],
        is_held: &[bool],
        rest: &mut [Vec<u32>],
    ) {
        const WORD: usize = size_of::<usize>();
        let buffers = loom.buffers;
        let rows = links.iter().filter(|link| !is_held[link.sum]).count();
        let row_links = self.words.len();
        self.words.resize(row_links + ROW_LINK * rows, 0);
        let (mut column, mut row) = (0, row_links);
        let mut before = row;
        for (link, to) in links.iter().zip(goals) {
            let is_column = is_held[link.sum];
            let mut late = link.late.clone();
            if is_column {
                if let Some(first) = rest[column].pop() {
                    self.place(layout.start(column), first);
                }
                late.append(&mut rest[column]);
            }
            let mut flags = usize::from(link.carries) * CARRIES + usize::from(to.is_last) * IS_LAST;
            flags += usize::from(!late.is_empty()) * HAS_LATE;
            for place in late {
                let word = self.words.len();
                self.words.resize(word + 2, 0);
                self.goal(word, place, buffers);
            }
            let end = self.words.len() * WORD;
            let at = if is_column { layout.link(column) } else { row };
            if is_column {
                flags += usize::from(row > before) * HAS_ROW_LINKS;
                self.words[at + 1] = row * WORD;
                (column, before) = (column + 1, row);
            } else {
                let slot = loom.slot(link.sum);
                self.place(at + 1, slot);
                row += ROW_LINK;
            }
            flags += usize::from(is_column && to.place >= buffers) * IS_SLOT;
            self.words[at] = flags;
            self.words[at + 2] = end;
            self.goal(at + 3, to.place, buffers);
        }
        // The row links that are left come before the first column that no sum has, or at the end.
        let at = layout.link(column);
        self.words[at] = usize::from(row > before) * HAS_ROW_LINKS;
        self.words[at + 1] = row * WORD;
        // Columns that no sum has are stored to a slot of their own.
        let nowhere = loom.buffers + loom.slots;
        loom.slots += u32::from(column < layout.width);
        for column in column..layout.width {
            self.words[layout.link(column)] += IS_SLOT;
            self.goal(layout.link(column) + 3, nowhere, buffers);
        }
    }

    /// The list of what is fetched ahead: what is read, as evenly over the rows of a tile as it goes.
    fn ahead(&mut self, layout: &Layout, rows: usize, sources: &[u32]) {
        const WORD: usize = size_of::<usize>();
        let of_row = sources.len().div_ceil(TILE_SLICES * rows);
        let at = layout.ahead();
        self.words[at] = self.words.len() * WORD;
        self.words[at + 1] = rows * of_row * WORD;
        self.words[at + 2] = of_row * WORD;
        // What is left of the list names the last source again.
        (0..TILE_SLICES * rows * of_row).for_each(|i| self.push(sources[i.min(sources.len() - 1)]));
    }

    fn braid(self, layout: &Layout, loom: &Loom, buffers: &[usize], last: &[u32]) -> Braid {
        let (of_buffers, of_slots): (Vec<_>, Vec<_>) =
            self.places.into_iter().partition(|&(_, place)| place < loom.buffers);
        Braid {
            width: layout.width,
            words: self.words,
            buffers: of_buffers
                .into_iter()
                .map(|(word, place)| (word, buffers[place as usize] as u32))
                .collect(),
            ahead: 0,
            slots: of_slots.into_iter().map(|(word, place)| (word, place - loom.buffers)).collect(),
            slot_count: loom.slots as usize,
            last: last.iter().map(|&place| buffers[place as usize] as u32).collect(),
        }
    }
}

/// What a kernel does for byte `at` of every buffer, and of every slot.
///
/// # Safety
///
/// The places were filled for buffers of more than `at` bytes, apart from one another, and for slots.
#[cfg(test)]
unsafe fn braid_byte(braid: &Braid, places: &[*mut u8], at: usize) {
    let (width, layout) = (braid.width, Layout { width: braid.width });
    let word = |i: usize| braid.words[i];
    let place = |i: usize| places[i].wrapping_add(at & word(i + 1));
    // SAFETY: the places were filled with what is valid for the byte.
    let read = |place: *mut u8| unsafe { place.read() };
    // SAFETY: as above.
    let write = |place: *mut u8, sum: u8| unsafe { place.write(sum) };
    let [mut plain, mut row_link, mut late] =
        [0, 1, 2].map(|list| word(layout.lists() + list) / size_of::<usize>());
    let mut held: Vec<u8> = (0..width)
        .map(|j| places[layout.start(j)])
        .map(|start| if start.is_null() { 0 } else { read(start.wrapping_add(at)) })
        .collect();
    for i in (0..ROWS_MOST).take_while(|&i| word(layout.row(i)) != 0) {
        let first = places[layout.row(i)];
        let mut sum = if first.is_null() { 0 } else { read(first.wrapping_add(at)) };
        while plain < word(layout.row(i) + 3) / size_of::<usize>() {
            assert!(word(layout.row(i)) & HAS_PLAIN != 0);
            sum ^= read(places[plain].wrapping_add(at));
            plain += 1;
        }
        for j in 0..width {
            let cell = places[layout.cell(i, j)];
            if !cell.is_null() {
                let x = read(cell.wrapping_add(at));
                sum ^= x;
                held[j] ^= x;
            }
        }
        write(place(layout.row(i) + 1), sum);
        if word(layout.row(i)) & IS_FORWARDED != 0 {
            held[i] ^= sum;
        }
    }
    let mut before = 0;
    let mut finish = |link: usize, mut sum: u8| {
        if word(link) & CARRIES != 0 {
            sum ^= before;
        }
        while late < word(link + 2) / size_of::<usize>() {
            assert!(word(link) & HAS_LATE != 0);
            sum ^= read(place(late));
            late += 2;
        }
        write(place(link + 3), sum);
        before = sum;
    };
    for j in 0..=width {
        let link = layout.link(j);
        while row_link < word(link + 1) / size_of::<usize>() {
            assert!(word(link) & HAS_ROW_LINKS != 0);
            finish(row_link, read(places[row_link + 1]));
            row_link += ROW_LINK;
        }
        if j < width {
            assert_eq!(word(link) & IS_SLOT == 0, word(link + 4) == usize::MAX);
            finish(link, held[j]);
        }
    }
}

#[cfg(test)]
mod tests {
    //! The table itself, carried out a byte at a time, so that every machine and Miri can test it.

    use super::*;
    use crate::weave::tests::{contents, steps};

    /// A zig-zag of some links: row and column sums of a square, each with the sum before, from the other side.
    fn zig_zag(n: usize, links: usize) -> Vec<(usize, Vec<usize>)> {
        let of = |i: usize| -> Vec<usize> {
            if i.is_multiple_of(2) {
                (0..n).map(|c| i / 2 * n + c).collect()
            } else {
                (0..n).map(|r| r * n + i / 2).collect()
            }
        };
        (0..links)
            .map(|i| (n * n + i, of(i).into_iter().chain((i > 0).then(|| n * n + i - 1)).collect()))
            .collect()
    }

    fn check(steps: &[(usize, Vec<usize>)]) -> Braid {
        let braid = Braid::new(steps).expect("few enough sums");
        let (mut have, wanted) = contents(steps);
        let mut slots = vec![0u8; braid.slot_bytes()];
        let mut places = vec![std::ptr::null_mut(); braid.words.len()];
        let cells = have.as_mut_ptr();
        braid.fill(&mut places, |i| cells.wrapping_add(i).cast(), slots.as_mut_ptr(), false);
        for at in 0..3 {
            // SAFETY: the places were filled for buffers of 3 bytes.
            unsafe { braid_byte(&braid, &places, at) };
        }
        assert_eq!(have, wanted);
        braid
    }

    #[test]
    fn every_table_gives_the_sums() {
        for (rows, columns) in [(2, 2), (3, 4), (4, 7), (9, 9), (5, 14), (14, 13)] {
            check(&steps(rows, columns, false));
            check(&steps(rows, columns, true));
        }
        for n in 2..=13 {
            check(&zig_zag(n, 2 * n));
            check(&zig_zag(n, 2 * n - 1));
        }
    }

    #[test]
    fn a_zig_zag_carries_every_link_but_the_first() {
        let braid = check(&zig_zag(5, 10));
        let layout = Layout { width: braid.width };
        let columns = (0..5).map(|j| braid.words[layout.link(j)]);
        let first = braid.words[layout.lists() + 1] / size_of::<usize>();
        let rows = (0..4).map(|i| braid.words[first + ROW_LINK * i]);
        let carried = columns.chain(rows).filter(|flags| flags & CARRIES != 0).count();
        // The first row is finished by the sweep, and added to the first column then.
        assert_eq!(carried, 2 * 5 - 2);
    }

    #[test]
    fn a_row_that_one_column_needs_is_added_as_soon_as_it_is_swept() {
        let braid = check(&steps(7, 7, false));
        let layout = Layout { width: braid.width };
        let forwarded = (0..7).filter(|&i| braid.words[layout.row(i)] & IS_FORWARDED != 0).count();
        let late = (0..7).filter(|&j| braid.words[layout.link(j)] & HAS_LATE != 0).count();
        assert_eq!((forwarded, late), (7, 0));
    }

    #[test]
    fn too_many_sums_are_refused() {
        assert!(Braid::new(&steps(15, 14, false)).is_none());
        assert!(Braid::new(&steps(16, 16, false)).is_none());
        assert!(Braid::new(&[(2, vec![0]), (3, vec![1])]).is_none());
    }
}
