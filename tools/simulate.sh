#!/usr/bin/env bash
# Drives the volume's engine through a world that fails on purpose: tools/simulate.sh [SEEDS
# [FIRST]]
#
#   tools/simulate.sh             20,000 seeds, some minutes on two cores
#   tools/simulate.sh 1000000     a million
#   tools/simulate.sh 1 4711      seed 4711 again, the same run down to the last step
#
# SIM_PROFILE=test runs what `cargo test --workspace` has built, with the checks left on: a third
# slower, and nothing to build.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${SIM_PROFILE:-release} in
    test) chosen=(--workspace) ;;
    *) chosen=(--release --package pantile-sim) ;;
esac
SIM_SEEDS=${1:-20000} SIM_FIRST=${2:-0} SIM_THREADS=${SIM_THREADS:-$(nproc)} \
    cargo test --quiet "${chosen[@]}" --test sim -- \
    --nocapture the_volume_loses_nothing::flushed_blocks_are_not_lost
