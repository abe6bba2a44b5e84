//! Events per second of the exascale simulation on one core, by the time of this thread: `cargo run
//! --release -p pantile-lab --example exascale`.

use pantile_kernel::measure::thread_cpu_ns;
use pantile_lab::exascale::{Device, Log, Network, Placement, Run, Scheme, Stripe, simulate};

fn main() {
    println!(
        "{:8} {:4} {:>9} {:>12} {:>14} {:>12}",
        "scheme", "", "clients", "events", "million a s", "MB/s"
    );
    for device in [Device::hdd(), Device::ssd()] {
        for clients in [80_000, 500_000] {
            for scheme in Scheme::ALL {
                let mut run = Run {
                    scheme,
                    stripe: Stripe::row(511, 1),
                    servers: 512,
                    clients,
                    clients_per_app: 147,
                    reads_per_mille: 0,
                    write_bytes: 128 << 10,
                    has_plots: false,
                    has_own_regions: false,
                    unit_bytes: 1 << 20,
                    device: device.clone(),
                    network: Network::default(),
                    placement: Placement::Striped,
                    log: Log::Random,
                    move_back: false,
                    writes_each: None,
                    batch_ns: 0,
                    warm_up_batches: 2,
                    batches_most: 200,
                    events_most: 10_000_000,
                };
                run.batch_ns = (run.cycle_ns() / 2).max(200_000_000);
                let start = thread_cpu_ns();
                let outcome = simulate(&run, 1);
                let seconds = (thread_cpu_ns() - start) as f64 / 1e9;
                let bytes: u64 = outcome.batches.iter().sum();
                let span_us = outcome.batches.len().max(1) as f64 * outcome.batch_ns as f64 / 1e3;
                println!(
                    "{:8} {:4} {clients:>9} {:>12} {:>14.2} {:>12.0}",
                    scheme.name(),
                    device.name,
                    outcome.events,
                    outcome.events as f64 / seconds / 1e6,
                    bytes as f64 / span_us
                );
            }
        }
    }
}
