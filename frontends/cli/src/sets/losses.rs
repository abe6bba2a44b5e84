//! Sentences about losses: of disks, and of files that are too large for their parity.

use super::name;
use crate::describe::count;
use pantile_seal::{DiskContent, Losses, Survival};

/// Most disks that one sentence names.
const DISKS_MOST: usize = 8;

/// Returns a line on how many disks can fail, with a warning if they are fewer than the code
/// tolerates with one column per disk. Empty if the code tolerates no loss.
pub fn survival(survival: &Survival, set: (&str, &str)) -> String {
    let mut out = sentence(survival, set).map_or_else(String::new, |sentence| format!("\n{sentence}\n"));
    if survival.is_unborne {
        out.push_str("\nThe sources share all columns: one that is lost as a whole does not come back.\n");
    }
    out
}

fn sentence(survival: &Survival, (code, mode): (&str, &str)) -> Option<String> {
    let Survival { promised, survives, .. } = *survival;
    let all = survival.disks.len();
    if all > 0 && survival.gone > 0 && survives == 0 && survival.is_complete {
        return Some(format!(
            "No further disk can fail: {} of this set {} gone.",
            count(survival.gone as usize, "disk"),
            if survival.gone == 1 { "is" } else { "are" }
        ));
    }
    if all == 0 || promised == 0 {
        return None;
    }
    let more = if survival.gone > 0 { " more" } else { "" };
    let disks = |count: u64| if count == 1 { "disk" } else { "disks" };
    let Some(worst) = survival.losses.first() else {
        let what = if all == 1 { "this disk".into() } else { format!("these {all} disks") };
        let names: Vec<String> =
            survival.disks.iter().take(DISKS_MOST).map(|disk| name(&disk.path)).collect();
        let others = if all > names.len() { ", ..." } else { "" };
        return (survives > 0)
            .then(|| format!("Any {survives}{more} of {what} can fail: {}{others}.", names.join(", ")));
    };
    let are = if worst.files_lost == 1 { "is" } else { "are" };
    let lost = format!("{} of {} {are} lost", worst.files_lost, count(survival.files as usize, "file"));
    let named: Vec<&DiskContent> =
        worst.disks.iter().filter_map(|&at| survival.disks.get(at as usize)).collect();
    let labels: Vec<String> = named.iter().map(|disk| label(disk)).collect();
    let fails = if named.len() == 1 { "fails" } else { "fail" };
    if survival.is_one_source && named.iter().any(|disk| !disk.sources.is_empty()) {
        let what = "parity beside one folder repairs damage and lost files, not the loss of its disk";
        return Some(format!("If {} {fails}, {lost}: {what}.", labels.join(" and ")));
    }
    if all == 1 {
        let what = if mode == "beside" { "all sources and shards are" } else { "all shards are" };
        return Some(format!(
            "Warning: {what} on one disk: if it fails, {lost}. {code} tolerates {promised} lost {} where each \
             {} has its own.",
            disks(promised),
            if mode == "beside" { "source and shard" } else { "shard" }
        ));
    }
    let can = match survives {
        0 => format!("no{more} disk of {all} can fail"),
        survives => format!("any {survives}{more} of {all} disks can fail"),
    };
    let others = match survival.loss_count - 1 {
        0 => String::new(),
        1 => "; 1 other choice costs files, too".into(),
        others => format!("; {others} other choices cost files, too"),
    };
    let because = match survival.unsealed {
        0 => String::new(),
        1 => ", because 1 file is changed or missing since it was sealed".into(),
        files => format!(", because {files} files are changed or missing since they were sealed"),
    };
    Some(format!(
        "Warning: {can}, not {promised}, as {code} suggests{because}: if {} {fails}, {lost}{others}.",
        labels.join(" and ")
    ))
}

/// Returns a disk by its path, with its contents if there are several.
fn label(disk: &DiskContent) -> String {
    let shards = count(disk.shards.len(), "shard");
    match (disk.sources.len(), disk.shards.len()) {
        (0, 1) | (1, 0) => name(&disk.path),
        (0, _) | (1, _) => format!("{} with {shards}", name(&disk.path)),
        (sources, 0) => format!("{} with {}", name(&disk.path), count(sources, "source")),
        (sources, _) => format!("{} with {} and {shards}", name(&disk.path), count(sources, "source")),
    }
}

/// Returns a sentence on the files that parity alone cannot restore; empty if there are none.
pub fn exposed(files: &[String], all: u64) -> String {
    const FILES_MOST: usize = 3;
    if all == 0 {
        return String::new();
    }
    let names: Vec<String> = files.iter().take(FILES_MOST).map(|file| name(file)).collect();
    let more = if all > names.len() as u64 { ", ..." } else { "" };
    format!(
        "\n{} too large for this parity: damage in it is repaired, but if it is lost as a whole it does not come back \
         ({}{more}).\n",
        match all {
            1 => "1 file is".to_string(),
            all => format!("{all} files are each"),
        },
        names.join(", ")
    )
}

/// Returns the losses that cannot be repaired, and the columns that would help.
pub fn losses(losses: Option<&Losses>) -> String {
    losses.map_or_else(
        || "damaged, and some of it cannot be repaired with certainty".to_string(),
        |losses| name(losses.to_string().trim_end_matches('.')),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_seal::DiskLoss;

    fn disk(path: &str, sources: usize, shards: u64) -> DiskContent {
        let sources = (0..sources).map(|_| path.to_string()).collect();
        DiskContent { path: path.into(), sources, shards: (0..shards).collect() }
    }

    fn of(disks: Vec<DiskContent>, survives: u64, losses: &[(&[u64], u64)]) -> Survival {
        let losses: Vec<DiskLoss> = losses
            .iter()
            .map(|(disks, files_lost)| DiskLoss { disks: disks.to_vec(), files_lost: *files_lost })
            .collect();
        let loss_count = losses.len() as u64;
        Survival { disks, promised: 2, survives, files: 6, losses, loss_count, ..Survival::default() }
    }

    #[test]
    fn losses_of_disks_are_one_sentence() {
        let said = |lying: &Survival| survival(lying, ("raid6:3", "beside")).trim().to_string();
        let apart = vec![disk("/d1", 1, 0), disk("/d2", 1, 0), disk("/p", 0, 1), disk("/q", 0, 1)];
        let kept = of(apart.clone(), 2, &[]);
        assert_eq!(said(&kept), "Any 2 of these 4 disks can fail: /d1, /d2, /p, /q.");
        let missing = Survival { gone: 1, promised: 1, survives: 1, ..kept.clone() };
        assert_eq!(said(&missing), "Any 1 more of these 4 disks can fail: /d1, /d2, /p, /q.");
        let spent = Survival { gone: 2, promised: 0, survives: 0, is_complete: true, ..kept.clone() };
        assert_eq!(said(&spent), "No further disk can fail: 2 disks of this set are gone.");
        let together = vec![disk("/d1", 1, 0), disk("/d2", 1, 0), disk("/p", 0, 2)];
        assert_eq!(
            said(&of(together, 1, &[(&[1, 2], 3), (&[0, 2], 2)])),
            "Warning: any 1 of 3 disks can fail, not 2, as raid6:3 suggests: if /d2 and /p with 2 shards fail, \
             3 of 6 files are lost; 1 other choice costs files, too."
        );
        assert_eq!(
            said(&of(vec![disk("/d1", 2, 2)], 0, &[(&[0], 6)])),
            "Warning: all sources and shards are on one disk: if it fails, 6 of 6 files are lost. raid6:3 tolerates \
             2 lost disks where each source and shard has its own."
        );
        let one = Survival {
            is_one_source: true,
            ..of(vec![disk("/d1", 1, 0), disk("/p", 0, 2)], 0, &[(&[0], 6)])
        };
        assert_eq!(
            said(&one),
            "If /d1 fails, 6 of 6 files are lost: parity beside one folder repairs damage and lost files, not the \
             loss of its disk."
        );
        let unknown = Survival { survives: 0, is_complete: false, ..of(apart, 0, &[]) };
        assert_eq!((said(&unknown), said(&Survival::default())), (String::new(), String::new()));
    }
}
