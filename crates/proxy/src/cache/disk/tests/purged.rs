//! Purges of what is on disk: over a restart, whatever happens to segments, and whoever is asked.

use super::*;
use loadline_core::state::Purge;

/// All of it is `number` of 20, each with a tag of its number modulo ten.
async fn there(disk: &Disk) -> Vec<u64> {
    let mut found = Vec::new();
    for number in 0..20 {
        if let Some((metadata, bytes)) = read(disk, number).await {
            assert_eq!(bytes, body(number, 500));
            assert!(metadata.is_fresh(unix_now()));
            found.push(number);
        }
    }
    found
}

fn filled(folder: &Path) -> Disk {
    let disk = open(folder);
    (0..20).for_each(|number| disk.offer(&url(number), &shared(number, 500)));
    written(&disk, 20);
    disk
}

fn by(kind: &str, name: &str, soft: bool) -> Purge {
    let name_if = |is: &str| (kind == is).then(|| name.to_owned());
    Purge { url: name_if("url"), prefix: name_if("prefix"), tag: name_if("tag"), soft }
}

fn purge(disk: &Disk, number: u64, purge: &Purge) {
    disk.purge(|| number, Purged::By(purge)).wait().unwrap();
}

#[tokio::test]
async fn what_is_purged_is_gone_at_once_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = filled(folder.path());
    purge(&disk, 1, &by("url", "http://example.org/00000003", false));
    purge(&disk, 2, &by("prefix", "http://example.org/0000001", false));
    purge(&disk, 3, &by("tag", "tag-5", false));
    let left = [0, 1, 2, 4, 6, 7, 8, 9];
    for _ in 0..3 {
        assert_eq!(there(&disk).await, left);
        disk = restarted(disk, folder.path());
    }
    // What was asked for since is not purged.
    let mut newer = object(5, &body(5, 500));
    newer.epoch = 0;
    disk.offer(&url(5), &Arc::new(newer));
    written(&disk, 1);
    assert_eq!(there(&disk).await, [0, 1, 2, 4, 5, 6, 7, 8, 9]);
}

#[tokio::test]
async fn a_soft_purge_makes_stale_since_then() {
    let folder = tempfile::tempdir().unwrap();
    let disk = filled(folder.path());
    purge(&disk, 1, &by("tag", "tag-2", true));
    let disk = restarted(disk, folder.path());
    for number in 0..20 {
        let (metadata, bytes) = read(&disk, number).await.unwrap();
        assert_eq!(bytes, body(number, 500));
        assert_eq!(metadata.is_fresh(unix_now()), number % 10 != 2, "{number}");
    }
}

#[tokio::test]
async fn what_was_asked_for_before_a_purge_and_is_written_after_it_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    purge(&disk, 1, &by("tag", "tag-2", false));
    purge(&disk, 2, &by("prefix", "http://example.org/0000001", false));
    for number in 0..20 {
        let mut object = object(number, &body(number, 500));
        object.epoch = number % 3;
        disk.offer(&url(number), &Arc::new(object));
    }
    wait_until(|| disk.state().queued_bytes == 0 && disk.state().written >= 11);
    let left = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 17];
    assert_eq!(there(&disk).await, left);
    let disk = restarted(disk, folder.path());
    assert_eq!(there(&disk).await, left);
}

#[tokio::test]
async fn no_purge_is_undone_by_a_damaged_segment() {
    let folder = tempfile::tempdir().unwrap();
    let disk = filled(folder.path());
    purge(&disk, 1, &by("tag", "tag-5", false));
    (20..40).for_each(|number| disk.offer(&url(number), &shared(number, 500)));
    // Two were asked for before the purge.
    written(&disk, 38);
    stop(disk);
    let file = segment_of(folder.path());
    let whole = fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x10;
        fs::write(&file, &wrong).unwrap();
        let disk = open(folder.path());
        let found = there(&disk).await;
        assert!(!found.contains(&5) && !found.contains(&15), "byte {at}: {found:?}");
        stop(disk);
        fs::write(&file, &whole).unwrap();
    }
}

#[tokio::test]
async fn where_nobody_knows_what_was_purged_nothing_is_used() {
    for kind in ["cut", "flipped", "gone", "older"] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("purges");
        let disk = filled(folder.path());
        let before = fs::read(&log).unwrap();
        purge(&disk, 1, &by("tag", "tag-5", false));
        let mut newer = object(5, &body(5, 500));
        newer.epoch = 1;
        let disk = restarted(disk, folder.path());
        disk.offer(&url(5), &Arc::new(newer));
        written(&disk, 1);
        stop(disk);
        let mut bytes = fs::read(&log).unwrap();
        match kind {
            "cut" => bytes.truncate(20),
            "flipped" => *bytes.last_mut().unwrap() ^= 1,
            "older" => bytes = before,
            _ => bytes.clear(),
        }
        match bytes.is_empty() {
            true => fs::remove_file(&log).unwrap(),
            false => fs::write(&log, bytes).unwrap(),
        }
        let disk = open(folder.path());
        assert!(there(&disk).await.is_empty(), "{kind}");
        assert_eq!((disk.state().objects, disk.state().damaged), (0, 1), "{kind}");
        disk.offer(&url(7), &shared(7, 500));
        written(&disk, 1);
        assert_eq!(there(&disk).await, [7], "{kind}");
    }
}

#[tokio::test]
async fn a_purge_that_comes_while_another_process_has_the_directory_counts_once_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let disk = filled(folder.path());
    let next = start(folder.path(), SIZE);
    let waits = next.purge(|| 1, Purged::By(&by("tag", "tag-5", false)));
    next.invalidate(|| 2, b"http://example.org/00000001");
    stop(disk);
    waits.wait().unwrap();
    wait_until(|| next.state().up);
    let left = (0..20).filter(|number| number % 10 != 5 && *number != 1).collect::<Vec<_>>();
    assert_eq!(there(&next).await, left);
    let next = restarted(next, folder.path());
    assert_eq!(there(&next).await, left);
}

#[tokio::test]
async fn a_url_that_is_not_on_disk_costs_no_record_and_one_that_is_does() {
    let folder = tempfile::tempdir().unwrap();
    let disk = filled(folder.path());
    let number = std::cell::Cell::new(0);
    let next = || {
        number.set(number.get() + 1);
        number.get()
    };
    for _ in 0..3 {
        disk.invalidate(next, b"http://example.org/other");
        disk.invalidate(next, b"http://example.org/00000003");
    }
    assert_eq!(number.get(), 1);
    // What is only queued counts as well, and what was forgotten since.
    let object = shared(7, 500);
    disk.forget(&url(7), &object);
    disk.invalidate(next, b"http://example.org/00000007");
    assert_eq!(number.get(), 2);
    let disk = restarted(disk, folder.path());
    let left = (0..20).filter(|number| *number != 3 && *number != 7).collect::<Vec<_>>();
    assert_eq!(there(&disk).await, left);
}

#[tokio::test]
async fn purges_take_a_bounded_part_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = filled(folder.path());
    let name = "x".repeat(2_000);
    for number in 1..=400 {
        let purge = by("tag", &format!("{name}-{number}"), false);
        drop(disk.purge(|| number, Purged::By(&purge)));
    }
    purge(&disk, 401, &by("tag", "tag-5", false));
    wait_until(|| disk.state().purges < 200);
    // The file is written anew after they are forgotten.
    let length = || fs::metadata(folder.path().join("purges")).map_or(u64::MAX, |it| it.len());
    wait_until(|| length() <= 2 * SIZE / 64);
    let found = there(&disk).await;
    assert!(!found.contains(&5) && !found.contains(&15), "{found:?}");
    let disk = restarted(disk, folder.path());
    assert_eq!(there(&disk).await, found);
}
