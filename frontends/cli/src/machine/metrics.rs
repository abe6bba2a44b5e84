//! `/metrics`: the results of a look in the format of Prometheus.

use crate::machine::all::Task;
use crate::machine::look::{Looked, VolumeFound};
use crate::machine::smart::DiskSmart;
use pantile_host::{DeviceReport, DeviceWord, StatusReport, Verdict};
use std::fmt::Write;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bytes of a block of a volume.
const BLOCK: f64 = 4096.0;

/// A metric: its name, type, help, and its value for an item; `None` gives no sample.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> Option<f64>);

const OF_VOLUMES: &[Metric<StatusReport>] = &[
    ("margin_devices", "gauge", "Devices that can fail without data loss.", |r| {
        Some(r.margin.any_more.into())
    }),
    ("size_bytes", "gauge", "Length of the volume.", |r| number(r.len_bytes)),
    ("used_bytes", "gauge", "Bytes of the volume that hold data.", |r| number(r.used_bytes)),
    ("lost_bytes", "gauge", "Bytes that cannot be read.", |r| {
        number(r.ranges.iter().map(|range| range.len_bytes).sum())
    }),
    ("broken_stripes", "gauge", "Stripes of which more is bad than the code tolerates.", |r| {
        number(r.broken_stripes)
    }),
    ("suspect_stripes", "gauge", "Stripes that wait to be repaired.", |r| number(r.suspect_stripes)),
    ("unflushed_bytes", "gauge", "Bytes that are not durable yet.", |r| Some(r.dirty_blocks as f64 * BLOCK)),
    ("spare_devices", "gauge", "Devices that are kept for the next loss.", |r| number(r.spares.len() as u64)),
    ("rebuild_remaining_stripes", "gauge", "Stripes that a rebuild has still to look after.", |r| {
        number(
            r.rebuild
                .as_ref()
                .map_or(0, |rebuild| rebuild.total_stripes.saturating_sub(rebuild.done_stripes)),
        )
    }),
    ("rebuild_remaining_seconds", "gauge", "Time until a rebuild ends at its rate of now.", |r| {
        number(r.rebuild.as_ref().map_or(Some(0), |rebuild| rebuild.seconds_left)?)
    }),
    ("scrub_end_timestamp_seconds", "gauge", "When the last whole scrub ended.", |r| {
        let scrub = r.scrub.as_ref().filter(|scrub| scrub.ended_at > 0 && !scrub.stopped)?;
        Some(scrub.ended_at as f64)
    }),
    ("scrub_unrepaired_stripes", "gauge", "Stripes that the scrub found bad and could not repair.", |r| {
        number(r.scrub.as_ref()?.left)
    }),
    ("server_deaths_total", "counter", "Servers that died of a fault of their own.", |r| {
        number(r.server.as_ref()?.deaths.into())
    }),
    ("server_resident_bytes", "gauge", "Memory that the server occupies.", |r| {
        number(r.server.as_ref()?.resident_bytes)
    }),
];

const OF_DEVICES: &[Metric<DeviceReport>] = &[
    ("present", "gauge", "1 if the device holds everything, 0 if it is lost or rebuilt.", |d| {
        number((d.state == DeviceWord::Present).into())
    }),
    ("read_bytes_total", "counter", "Bytes read since the volume was opened.", |d| {
        Some(d.blocks_read as f64 * BLOCK)
    }),
    ("checksum_errors_total", "counter", "Blocks that were not what they should be.", |d| {
        number(d.checksum_errors)
    }),
    ("media_errors_total", "counter", "Reads that failed.", |d| number(d.media_errors)),
    ("bad_chunks", "gauge", "Chunks that are known to be bad.", |d| number(d.bad_chunks)),
    ("slow", "gauge", "1 if the device is far slower than the others.", |d| number(d.slow.is_some().into())),
    ("read_latency_median_seconds", "gauge", "Median of the last 16 reads.", |d| {
        micro(d.reads.as_ref()?.median_us)
    }),
    ("read_latency_worst_seconds", "gauge", "Longest of the last 16 reads.", |d| {
        micro(d.reads.as_ref()?.worst_us)
    }),
    ("write_latency_median_seconds", "gauge", "Median of the last 16 writes.", |d| {
        micro(d.writes.as_ref()?.median_us)
    }),
    ("write_latency_worst_seconds", "gauge", "Longest of the last 16 writes.", |d| {
        micro(d.writes.as_ref()?.worst_us)
    }),
];

const OF_DISKS: &[Metric<DiskSmart>] = &[
    ("healthy", "gauge", "1 if the firmware expects no failure, 0 if it does.", |d| {
        number(d.smart.passed?.into())
    }),
    ("temperature_celsius", "gauge", "Temperature at the last answer.", |d| {
        Some(d.smart.temperature_celsius? as f64)
    }),
    ("asleep", "gauge", "1 if the disk slept and was not asked.", |d| number(d.smart.asleep.into())),
    ("pending_sectors", "gauge", "Sectors that cannot be read and wait to be written.", |d| {
        number(d.smart.pending_sectors?)
    }),
    ("uncorrectable_sectors", "gauge", "Sectors that a test of the disk could not read.", |d| {
        number(d.smart.uncorrectable_sectors?)
    }),
    ("reallocated_sectors", "gauge", "Sectors that were replaced by spare ones.", |d| {
        number(d.smart.reallocated_sectors?)
    }),
    ("media_errors_total", "counter", "Errors of the medium of an NVMe disk.", |d| {
        number(d.smart.media_errors?)
    }),
    ("used_ratio", "gauge", "Share of its rated writes that an NVMe disk has used.", |d| {
        Some(d.smart.used_percent? as f64 / 100.0)
    }),
];

fn number(value: u64) -> Option<f64> {
    Some(value as f64)
}

fn micro(value: u32) -> Option<f64> {
    Some(f64::from(value) / 1e6)
}

/// Returns the text of a look. `pending` is the number of messages that no channel has accepted
/// yet.
pub fn text(looked: &Looked, pending: usize) -> String {
    let mut page = String::new();
    let at = looked.at as f64;
    family(
        &mut page,
        "pantile_build_info",
        "gauge",
        "1, with the version of the program.",
        [(labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1.0)],
    );
    family(
        &mut page,
        "pantile_look_timestamp_seconds",
        "gauge",
        "When the monitor looked last.",
        [(String::new(), at)],
    );
    family(
        &mut page,
        "pantile_pending_messages",
        "gauge",
        "Messages that could not be delivered yet.",
        [(String::new(), pending as f64)],
    );
    let folder = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let served = looked.volumes.iter().map(|volume| {
        let served = matches!(volume.found, VolumeFound::Served(_));
        (labels(&[("volume", &folder(&volume.folder))]), f64::from(u8::from(served)))
    });
    family(&mut page, "pantile_volume_served", "gauge", "1 if a server of the volume answers.", served);
    let reports: Vec<(String, &StatusReport)> = looked
        .volumes
        .iter()
        .filter_map(|volume| match &volume.found {
            VolumeFound::Served(report) => Some((folder(&volume.folder), &**report)),
            _ => None,
        })
        .collect();
    let verdicts = reports.iter().flat_map(|(volume, report)| {
        let all = [
            ("clean", Verdict::Clean),
            ("warned", Verdict::Warned),
            ("degraded", Verdict::Degraded),
            ("failed", Verdict::Failed),
        ];
        all.map(|(word, verdict)| {
            (labels(&[("volume", volume), ("verdict", word)]), f64::from(u8::from(report.verdict == verdict)))
        })
    });
    family(&mut page, "pantile_volume_verdict", "gauge", "1 for the verdict of the volume.", verdicts);
    for (name, kind, help, value) in OF_VOLUMES {
        let samples = reports
            .iter()
            .filter_map(|(volume, report)| Some((labels(&[("volume", volume)]), value(report)?)));
        family(&mut page, &format!("pantile_volume_{name}"), kind, help, samples);
    }
    for (name, kind, help, value) in OF_DEVICES {
        let samples = reports.iter().flat_map(|(volume, report)| {
            report.devices.iter().filter_map(move |device| {
                let path = device.path.as_deref().map(folder).unwrap_or_default();
                let slot = device.device.to_string();
                Some((labels(&[("volume", volume), ("device", &slot), ("path", &path)]), value(device)?))
            })
        });
        family(&mut page, &format!("pantile_device_{name}"), kind, help, samples);
    }
    for (name, kind, help, value) in OF_DISKS {
        let samples = looked.volumes.iter().flat_map(|volume| {
            volume.smart.iter().filter_map(move |disk| {
                let (volume, name) = (folder(&volume.folder), disk.disk.as_str());
                Some((labels(&[("volume", &volume), ("disk", name)]), value(disk)?))
            })
        });
        family(&mut page, &format!("pantile_disk_{name}"), kind, help, samples);
    }
    for (task, did) in [(Task::Seal, "sealed"), (Task::Verify, "verified")] {
        let of = |value: fn(&crate::machine::all::LastRun) -> f64| {
            looked.sets.iter().filter_map(move |set| {
                let (_, last) = set.runs.iter().find(|(of, _)| *of == task)?;
                Some((labels(&[("set", &set.name)]), value(last.as_ref()?)))
            })
        };
        let word = task.word();
        family(
            &mut page,
            &format!("pantile_set_{word}_end_timestamp_seconds"),
            "gauge",
            &format!("When the set was {did} last."),
            of(|last| last.ended_at as f64),
        );
        family(
            &mut page,
            &format!("pantile_set_{word}_status"),
            "gauge",
            &format!("Exit status of the command by which the set was {did} last."),
            of(|last| last.status.into()),
        );
    }
    page
}

/// Writes a metric and its samples; nothing if it has no samples.
fn family(
    page: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, f64)>,
) {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_some() {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
    for (labels, value) in samples {
        let _ = writeln!(page, "{name}{labels} {value}");
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::look::VolumeLook;
    use crate::machine::smart::Smart;

    #[test]
    fn a_volume_has_its_margin_and_no_label_ends_early() {
        let mut report = StatusReport { len_bytes: 1 << 40, ..StatusReport::default() };
        report.margin.any_more = 2;
        let found = VolumeFound::Served(Box::new(report));
        let folder = "/srv/a \"b\\\n".into();
        let smart = Smart { temperature_celsius: Some(36), passed: Some(true), ..Smart::default() };
        let smart = vec![DiskSmart { disk: "sda".into(), devices: vec![0], smart }];
        let volumes = vec![VolumeLook { folder, found, smart }];
        let page = text(&Looked { at: 7, all: "--all".into(), volumes, sets: Vec::new() }, 3);
        for line in [
            "pantile_look_timestamp_seconds 7",
            "pantile_pending_messages 3",
            r#"pantile_volume_margin_devices{volume="/srv/a \"b\\\n"} 2"#,
            r#"pantile_disk_temperature_celsius{volume="/srv/a \"b\\\n",disk="sda"} 36"#,
            r#"pantile_disk_healthy{volume="/srv/a \"b\\\n",disk="sda"} 1"#,
            r#"pantile_volume_size_bytes{volume="/srv/a \"b\\\n"} 1099511627776"#,
            r#"pantile_volume_verdict{volume="/srv/a \"b\\\n",verdict="failed"} 1"#,
        ] {
            assert!(page.lines().any(|is| is == line), "{line} is missing:\n{page}");
        }
    }

    #[test]
    fn every_metric_of_alerts_and_dashboard_exists() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
        let source = include_str!("metrics.rs");
        for file in ["pantile.rules.yml", "pantile.test.yml", "grafana.json"] {
            let text = std::fs::read_to_string(folder.join(file)).expect(file);
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> = words.filter(|word| word.starts_with("pantile_")).collect();
            assert!(names.len() > 3, "{file}: {names:?}");
            for name in names {
                let of_kind = ["pantile_volume_", "pantile_device_", "pantile_disk_"]
                    .iter()
                    .find_map(|kind| name.strip_prefix(kind));
                let of_set = name.strip_prefix("pantile_set_").and_then(|rest| rest.split_once('_'));
                let known = match (of_kind, of_set) {
                    (Some(rest), _) => {
                        source.contains(&format!("\"{rest}\"")) || source.contains(&format!("\"{name}\""))
                    }
                    (_, Some((task, rest))) => {
                        ["seal", "verify"].contains(&task)
                            && source.contains(&format!("pantile_set_{{word}}_{rest}\""))
                    }
                    _ => source.contains(&format!("\"{name}\"")),
                };
                assert!(known, "{file} names {name}");
            }
        }
    }
}
