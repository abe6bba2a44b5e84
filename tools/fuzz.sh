#!/usr/bin/env bash
# Feeds every parser of bytes with what nobody would write, for as long as is wanted: tools/fuzz.sh
# [MINUTES [FIRST_SEED]]
#
#   tools/fuzz.sh          ten minutes
#   tools/fuzz.sh 600      ten hours
#
# Needs no special compiler: seeded changes under checksums that fit, in builds that check every sum
# for overflow. A seed that fails is named with its test; FUZZ_FIRST=SEED FUZZ_SEEDS=1 and the
# test's command have it back.
set -euo pipefail
cd "$(dirname "$0")/.."
end=$((SECONDS + ${1:-10} * 60))
first=${2:-$(date +%s)000}
while [ $SECONDS -lt $end ]; do
    export FUZZ_FIRST=$first
    echo "seeds from $first"
    # Superblocks, records, snapshots and chunk headers, through the engine.
    FUZZ_SEEDS=20000 cargo test --quiet --package pantile-sim --test sim metadata_that_lies_never_panics
    # Headers and manifests of sealed sets, through verify, unseal and heal.
    FUZZ_SEEDS=5000 cargo test --quiet --package pantile-seal --test seal sets_that_lie_never_panic
    # Orders over the control socket.
    FUZZ_SEEDS=5000 cargo test --quiet --package pantile-host --test host a_folder_is_a_volume::whatever_is_said
    # The parsers alone, and code files and specs, with new seeds each time.
    PROPTEST_CASES=20000 cargo test --quiet --package pantile-format -- random_
    PROPTEST_CASES=20000 cargo test --quiet --package pantile-code -- never_panic mutated_
    first=$((first + 20000))
done
echo "nothing was found up to seed $first"
