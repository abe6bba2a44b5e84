//! The reads of `minimum` are enough, and the fewest; unwanted and absent chunks change nothing.

use crate::common::{encoded, pattern, pool};
use pantile_ceph::Shards;
use pantile_ceph::pool::{ChunkFault, Pool};

const PROFILES: [&str; 23] = [
    "plugin=shec k=6 m=4 c=3",
    "plugin=shec k=6 m=4 c=2 technique=single",
    "plugin=jerasure technique=reed_sol_van k=5 m=3",
    "plugin=jerasure technique=cauchy_good k=4 m=3 packetsize=8",
    "plugin=jerasure technique=liberation k=4 m=2 w=5 packetsize=8",
    "plugin=jerasure technique=blaum_roth k=4 m=2 w=7 packetsize=8",
    "plugin=shec k=6 m=4 c=3 w=16",
    "plugin=shec k=6 m=4 c=2 technique=single w=32",
    "plugin=jerasure technique=reed_sol_van k=5 m=3 w=16",
    "plugin=jerasure technique=reed_sol_r6_op k=4 w=32",
    "plugin=clay k=4 m=2 d=5",
    "plugin=clay k=3 m=2 d=3",
    "plugin=clay k=3 m=2 d=4 scalar_mds=isa technique=cauchy",
    "plugin=pantile code=clay:3,2,4",
    "plugin=pantile code=shec:6,4,3",
    "plugin=pantile code=lrc:6,2,2",
    "plugin=pantile k=4 m=2 l=3",
    "plugin=pantile code=xorbas:4,4,2",
    "plugin=pantile code=raidq:6+4",
    "plugin=pantile code=rdp:6",
    "plugin=pantile code=mirror:3",
    "plugin=pantile code=lch:4+2",
    "plugin=pantile equations=pantile-code 1;name other-pair;columns 5;rows 2\n\
     [0][3] = [0][0] + [0][1] + [0][2];[1][3] = [1][0] + [1][1] + [1][2]\n\
     [0][4] = [0][0] + 2*[0][1] + 4*[0][2]; [1][4] = [1][0] + 2*[1][1] + 4*[1][2] + [0][0]",
];

/// Returns every set of at most `most` of `count` shards, the empty set first.
fn sets(count: usize, most: usize) -> impl Iterator<Item = Shards> {
    (0u64..1 << count)
        .filter(move |bits| bits.count_ones() as usize <= most)
        .map(move |bits| (0..count).filter(|i| bits >> i & 1 == 1).collect())
}

fn decoded(
    pool: &Pool,
    chunks: &[Vec<u8>],
    read: Shards,
    wanted: Shards,
) -> Result<Vec<Vec<u8>>, ChunkFault> {
    let len = chunks[0].len();
    let mut made = vec![vec![0x33; len]; chunks.len()];
    let there: Vec<Option<&[u8]>> =
        chunks.iter().enumerate().map(|(shard, chunk)| read.contains(shard).then_some(&chunk[..])).collect();
    let mut to: Vec<Option<&mut [u8]>> = made
        .iter_mut()
        .enumerate()
        .map(|(shard, chunk)| wanted.contains(shard).then_some(&mut chunk[..]))
        .collect();
    pool.decode(&there, &mut to, len)?;
    Ok(made)
}

/// Returns the chunks of a stripe of two groups, so that the boundary between groups is tested.
fn stripe(pool: &Pool) -> Vec<Vec<u8>> {
    let chunk = 2 * pool.layout().chunk_multiple;
    let mut chunks = encoded(pool, &pattern(pool.data().len() * chunk - 5), chunk);
    for (i, &shard) in pool.data().iter().enumerate() {
        let mut part: Vec<u8> = pattern(pool.data().len() * chunk - 5)[i * chunk..].to_vec();
        part.resize(chunk, 0);
        chunks[shard] = part;
    }
    chunks
}

#[test]
fn for_every_set_of_losses_within_the_claim() {
    for profile in PROFILES {
        let pool = pool(profile);
        let chunks = stripe(&pool);
        let all = Shards::first(pool.chunks());
        let claim = pool.layout().code.claim().tolerance;
        for lost in sets(pool.chunks(), claim + 1) {
            let read = match pool.minimum(lost, all.without(lost), None) {
                Ok(read) => read,
                Err(error) => {
                    assert!(lost.len() > claim, "{profile} without {lost:?}: {error}");
                    continue;
                }
            };
            assert!(read.without(all.without(lost)).is_empty(), "{profile}: {read:?} of what is left");
            let made = decoded(&pool, &chunks, read, lost).unwrap();
            for shard in lost.iter() {
                assert_eq!(made[shard], chunks[shard], "{profile} without {lost:?}: chunk {shard}");
            }
        }
    }
}

#[test]
fn shecs_reads_are_the_papers() {
    // Miyamae et al., table 2: 0.50 and 0.74 of the object for (6,4,3); 202/270 is 0.748.
    // Long words change the coefficients, and not which chunks are read.
    let all = Shards::first(10);
    for (w, losses, reads) in [(8, 1, 30), (8, 2, 202), (16, 1, 30), (16, 2, 202), (32, 2, 202)] {
        let pool = pool(&format!("plugin=shec k=6 m=4 c=2 technique=single w={w}"));
        let of = |lost: Shards| pool.minimum(lost, all.without(lost), None).unwrap().len();
        let sum: usize = sets(10, losses).filter(|lost| lost.len() == losses).map(of).sum();
        assert_eq!(sum, reads, "w={w}, {losses} lost");
    }
}

/// One lost chunk of clay is repaired from the number of sub-chunks that the code states, and each
/// of the shards that are read has the same sub-chunk numbers.
#[test]
fn of_one_lost_chunk_parts_are_read() {
    for (profile, reads) in [
        ("plugin=clay k=4 m=2 d=5", 20),
        ("plugin=clay k=3 m=3 d=5", 15),
        ("plugin=clay k=5 m=2 d=6", 48),
        ("plugin=clay k=6 m=4 d=8", 216),
        ("plugin=pantile code=clay:6,3,8", 72),
    ] {
        let pool = pool(profile);
        let chunks = stripe(&pool);
        let all = Shards::first(pool.chunks());
        let sub_chunk = chunks[0].len() / pool.sub_chunks();
        for shard in all.iter() {
            let lost: Shards = [shard].into_iter().collect();
            let parts = pool.parts(lost, all.without(lost)).unwrap();
            assert_eq!(parts.shards.len() * parts.rows.len(), reads, "{profile} without {shard}");
            assert_eq!(pool.parts(lost, parts.shards).as_ref(), Some(&parts), "{profile} without {shard}");
            let part = |chunk: &[u8]| -> Vec<u8> {
                parts.rows.iter().flat_map(|row| chunk[row * sub_chunk..][..sub_chunk].to_vec()).collect()
            };
            let read: Vec<Option<Vec<u8>>> = (0..chunks.len())
                .map(|other| parts.shards.contains(other).then(|| part(&chunks[other])))
                .collect();
            let mut given: Vec<Option<&[u8]>> = read.iter().map(Option::as_deref).collect();
            let mut made = vec![0x33; chunks[0].len()];
            pool.repair(shard, &given, &mut made).unwrap();
            assert_eq!(made, chunks[shard], "{profile}: chunk {shard}");
            let first = parts.shards.iter().next().unwrap();
            given[first] = given[first].map(|part| &part[1..]);
            assert_eq!(pool.repair(shard, &given, &mut made), Err(ChunkFault::NotTheParts { shard }));
            assert_eq!(made, chunks[shard], "nothing is written");
        }
        let two: Shards = [0, 1].into_iter().collect();
        assert_eq!(pool.parts(two, all.without(two)), None, "{profile}: two lost");
        assert_eq!(pool.parts(two, all), None, "{profile}: none lost");
    }
    let one: Shards = [0].into_iter().collect();
    for whole in ["plugin=pantile code=rs:4+2", "plugin=pantile code=rdp:4", "plugin=clay k=4 m=2 d=4"] {
        let pool = pool(whole);
        assert_eq!(pool.parts(one, Shards::first(pool.chunks()).without(one)), None, "{whole}");
    }
}

#[test]
fn present_wanted_chunks_are_read_and_costs_count() {
    let pool = pool("plugin=jerasure technique=reed_sol_van k=4 m=2");
    let shards = |list: &[usize]| list.iter().copied().collect::<Shards>();
    let there = shards(&[1, 2, 3, 4, 5]);
    assert_eq!(pool.minimum(shards(&[2, 5]), there, None), Ok(shards(&[2, 5])));
    assert_eq!(pool.minimum(shards(&[0]), there, Some(&[1, 9, 1, 1, 1, 1])), Ok(shards(&[2, 3, 4, 5])));
    assert_eq!(pool.minimum(shards(&[0]), there, Some(&[1, 1, 9, 1, 1, 1])), Ok(shards(&[1, 3, 4, 5])));
    assert!(pool.minimum(shards(&[0]), shards(&[1, 2, 3]), None).is_err());
    assert!(pool.minimum(shards(&[6]), there, None).is_err(), "there is no shard 6");
    assert!(pool.minimum(shards(&[0]), shards(&[1, 2, 3, 100]), None).is_err(), "nor a shard 100");
}

/// Absent data are zeros, a parity that is not given is left out, and deltas give the same chunks
/// as encoding again.
#[test]
fn deltas_and_absent_data() {
    for profile in PROFILES {
        let pool = pool(profile);
        let chunks = stripe(&pool);
        let len = chunks[0].len();
        let parities: Vec<usize> = (0..pool.chunks()).filter(|shard| !pool.data().contains(shard)).collect();
        for left_out in [None, parities.first().copied()] {
            // Begins with zeros everywhere, and adds one chunk of data at a time.
            let mut made = vec![vec![0; len]; pool.chunks()];
            for &shard in pool.data() {
                let mut to: Vec<Option<&mut [u8]>> = made
                    .iter_mut()
                    .enumerate()
                    .map(|(i, chunk)| {
                        (parities.contains(&i) && left_out != Some(i)).then_some(&mut chunk[..])
                    })
                    .collect();
                pool.add_delta(shard, &chunks[shard], &mut to, len).unwrap();
            }
            for &shard in parities.iter().filter(|&&shard| left_out != Some(shard)) {
                assert_eq!(made[shard], chunks[shard], "{profile}: chunk {shard}");
            }
        }
        let mut zeros = vec![vec![0x5a; len]; pool.chunks()];
        let mut to: Vec<Option<&mut [u8]>> = zeros.iter_mut().map(|chunk| Some(&mut chunk[..])).collect();
        pool.encode(&vec![None; pool.chunks()], &mut to, len).unwrap();
        assert!(parities.iter().all(|&shard| zeros[shard].iter().all(|&byte| byte == 0)), "{profile}");
        let parity = parities[0];
        let refused = pool.add_delta(parity, &chunks[parity], &mut [], len);
        assert_eq!(refused, Err(ChunkFault::NotData { shard: parity }));
    }
}

#[test]
fn chunks_that_are_no_whole_groups_are_refused() {
    let pool = pool("plugin=pantile code=rdp:6 packetsize=64");
    let group = 64 * pool.layout().code.rows_max();
    let chunks = vec![vec![0; group + 1]; pool.chunks()];
    let refused = decoded(&pool, &chunks, Shards::first(5), [5].into_iter().collect());
    assert_eq!(refused, Err(ChunkFault::Length { have: group + 1, multiple_of: group }));
    let said = refused.unwrap_err().to_string();
    assert!(said.contains(&format!("no multiple of {group} bytes")), "{said}");
}
