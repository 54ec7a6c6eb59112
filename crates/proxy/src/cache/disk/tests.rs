//! What is kept, how much of it, and what a process leaves behind that is killed or whose disk gets
//! something wrong.

mod full;
mod killed;
mod purged;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration as StdDuration, Instant},
};

use bytes::Bytes;
use loadline_core::{
    cache::{Metadata, Vary},
    time::Duration,
};
use proptest::prelude::*;

use super::*;
use crate::cache::{
    object::{Length, Response},
    selectors::Selectors,
    testing::fresh,
};

#[tokio::test]
async fn what_was_written_is_there_after_a_restart_and_as_old_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    let at = unix_now() - Duration::from_secs(1_000);
    for number in 0..100 {
        let mut object = object(number, &body(number, 1_000));
        (object.metadata.received, object.metadata.generated) = (at, at);
        disk.offer(&url(number), &Arc::new(object));
    }
    written(&disk, 100);
    stop(disk);
    let disk = open(folder.path());
    assert_eq!(disk.state().objects, 100);
    for number in 0..100 {
        let (metadata, found) = read(&disk, number).await.expect("it was written");
        assert_eq!(found, body(number, 1_000), "{number}");
        assert_eq!((metadata.received, metadata.generated), (at, at));
        assert!(metadata.age(unix_now()) >= Duration::from_secs(1_000));
    }
    assert!(read(&disk, 100).await.is_none());
    assert_eq!((disk.state().hits, disk.state().damaged), (100, 0));
}

#[test]
fn a_disk_that_hangs_has_nothing_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    disk.offer(&url(1), &shared(1, 1_000));
    wait_until(|| place(&disk, 1).is_some());
    assert!(disk.has(&url(1), b"web", b""));
    disk.shared.hangs_until.store(u64::MAX, Relaxed);
    assert!(!disk.has(&url(1), b"web", b"") && place(&disk, 1).is_none());
    stop(disk);
}

#[tokio::test]
async fn what_memory_holds_is_written_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    let all = (0..50).map(|number| (url(number).into(), shared(number, 20_000))).collect();
    disk.close(all);
    disk.join(PATIENCE);
    drop(disk);
    let disk = open(folder.path());
    for number in 0..50 {
        assert_eq!(read(&disk, number).await.unwrap().1, body(number, 20_000));
    }
}

#[tokio::test]
async fn the_files_stay_within_their_size_and_the_newest_stay() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    for number in 0..6_000 {
        disk.offer(&url(number), &shared(number, 4_000));
        if number % 50 == 49 {
            written(&disk, number + 1);
            assert!(bytes_of(folder.path()) <= SIZE, "after {number}");
        }
    }
    assert!(disk.state().reclaimed > 20 && disk.state().objects > 3_000, "{:?}", disk.state());
    assert!(read(&disk, 1).await.is_none());
    assert!(read(&disk, 5_999).await.is_some());
    assert_eq!(disk.state().bytes, bytes_of(folder.path()));
    stop(disk);
    let disk = open(folder.path());
    assert!(disk.state().objects > 3_000 && read(&disk, 5_999).await.is_some());
    assert!(read(&disk, 1).await.is_none());
}

/// Reads what may be on its way to another segment: where it was is gone then, and it is asked for
/// again.
async fn read_moving(disk: &Disk, number: u64) -> Vec<u8> {
    let start = Instant::now();
    loop {
        if let Some((_, found)) = read(disk, number).await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{number} is not found: {:?}", disk.state());
        wait_until(|| place(disk, number).is_some());
    }
}

#[tokio::test]
async fn what_is_read_stays_when_its_segment_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    for number in 0..12_000 {
        disk.offer(&url(number), &shared(number, 4_000));
        if number % 50 == 49 {
            wait_until(|| disk.state().queued_bytes == 0);
            assert_eq!(read_moving(&disk, 7).await, body(7, 4_000), "after {number}");
        }
    }
    assert!(disk.state().reclaimed > 90, "{:?}", disk.state());
    assert!(read(&disk, 8).await.is_none());
    wait_until(|| place(&disk, 7).is_some());
    let disk = restarted(disk, folder.path());
    assert_eq!(read(&disk, 7).await.unwrap().1, body(7, 4_000));
}

#[tokio::test]
async fn a_quarter_of_what_is_read_of_each_segment_stays_within_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    for number in 0..8_000 {
        disk.offer(&url(number), &shared(number, 4_000));
        if number % 50 == 49 {
            wait_until(|| place(&disk, number).is_some());
            for newest in number - 49..=number {
                assert!(read(&disk, newest).await.is_some(), "{newest}");
            }
            assert!(bytes_of(folder.path()) <= SIZE, "after {number}");
        }
    }
    let state = disk.state();
    assert!(state.written > 8_300 && state.writes_refused == 0, "{state:?}");
    let disk = restarted(disk, folder.path());
    let mut there = 0;
    for number in 0..8_000 {
        if let Some((_, found)) = read(&disk, number).await {
            assert_eq!(found, body(number, 4_000), "{number}");
            there += 1;
        }
    }
    let state = disk.state();
    assert!(there > 3_000 && (state.objects, state.damaged) == (there, 0), "{there}: {state:?}");
}

#[tokio::test]
async fn of_many_segments_that_leave_at_a_time_a_quarter_of_one_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    for number in 0..2_000 {
        disk.offer(&url(number), &shared(number, 4_000));
        if number % 50 == 49 {
            written(&disk, number + 1);
            for newest in number - 49..=number {
                assert!(read(&disk, newest).await.is_some(), "{newest}");
            }
        }
    }
    // Segments of 32 KiB.
    disk.resize(units(2 << 20));
    wait_until(|| disk.state().bytes <= 2 << 20);
    let state = disk.state();
    assert!(state.reclaimed > 20 && state.written <= 2_002, "{state:?}");
}

#[tokio::test]
async fn a_version_that_was_replaced_is_not_found_while_the_next_is_written_nor_instead_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    for round in 0..200 {
        let (old, new) = (shared(round, 1_000), Arc::new(object(round, &body(7, 3_000))));
        disk.offer(&url(round), &old);
        disk.forget(&url(round), &old);
        assert!(read(&disk, round).await.is_none(), "{round}");
        disk.offer(&url(round), &new);
        if let Some((_, found)) = read(&disk, round).await {
            assert_eq!(found, body(7, 3_000), "{round}");
        }
    }
    wait_until(|| disk.state().queued_bytes == 0 && disk.state().objects == 200);
    for round in 0..200 {
        assert_eq!(read(&disk, round).await.unwrap().1, body(7, 3_000), "{round}");
    }
}

#[test]
fn what_waits_to_be_written_is_found_unless_it_is_purged() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    let find = |number| match disk.find(&url(number), &b"web"[..].into(), Fields(&[])) {
        Some(Kept::Waiting(object)) => Some(object),
        _ => None,
    };
    // Without its thread nothing is written.
    disk.close(Vec::new());
    disk.join(PATIENCE);
    (1..5).for_each(|number| disk.offer(&url(number), &shared(number, 100)));
    assert_eq!(find(1).unwrap().pieces().collect::<Vec<_>>().concat(), body(1, 100));
    let tag =
        |tag: &str, soft| state::Purge { url: None, prefix: None, tag: Some(tag.to_owned()), soft };
    drop(disk.purge(|| 1, Purged::By(&tag("tag-2", false))));
    drop(disk.purge(|| 2, Purged::By(&tag("tag-3", true))));
    disk.invalidate(|| 3, &url(4));
    assert!(find(1).unwrap().metadata.is_fresh(unix_now()));
    assert!(find(2).is_none() && find(4).is_none());
    assert!(!find(3).unwrap().metadata.is_fresh(unix_now()));
}

#[tokio::test]
async fn responses_of_one_url_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    let language = Vary::Fields([b"accept-language".to_vec()].into());
    let asks = |value: &'static [u8]| [loadline_core::cache::Field::new(b"Accept-Language", value)];
    for (number, value) in [(1, &b"de"[..]), (2, b"en")] {
        let mut object = object(number, &body(number, 500));
        let response = Response {
            selectors: Selectors {
                vary: language.clone(),
                secondary: language.secondary_key(Fields(&asks(value))).map(Into::into),
                ..Selectors::none()
            }
            .into(),
            ..response()
        };
        object.response = Arc::new(response);
        disk.offer(b"http://h/", &Arc::new(object));
    }
    let mut other = object(3, &body(3, 500));
    other.response = Arc::new(Response { variant: b"other"[..].into(), ..response() });
    disk.offer(b"http://h/", &Arc::new(other));
    written(&disk, 3);
    let disk = restarted(disk, folder.path());
    let find = |variant: &[u8], value| match disk.find(
        b"http://h/",
        &variant.into(),
        Fields(&asks(value)),
    )? {
        Kept::There(place) => Some(place),
        Kept::Waiting(_) => None,
    };
    for (variant, value, expected) in
        [(&b"web"[..], &b"de"[..], Some(1)), (b"web", b"en", Some(2)), (b"web", b"fr", None)]
    {
        let place = find(variant, value);
        assert_eq!(place.is_some(), expected.is_some());
        if let (Some(place), Some(number)) = (place, expected) {
            let mut opened = disk.open(&place).await.unwrap();
            assert_eq!(opened.body.after(0).await.unwrap(), body(number, 500));
        }
    }
    assert!(find(b"other", b"fr").is_some() && find(b"third", b"de").is_none());
}

#[tokio::test]
async fn a_long_body_is_read_a_block_at_a_time_and_not_beyond_one_that_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open_with(folder.path(), 256 << 20);
    let length = 2_500_000;
    disk.offer(&url(1), &shared(1, length));
    written(&disk, 1);
    let whole = body(1, length);
    let mut opened = disk.open(&place(&disk, 1).unwrap()).await.unwrap();
    assert_eq!(opened.body.length, length as u64);
    for at in [0, 262_143, 262_144, 1_000_000, 2_499_999] {
        let piece = opened.body.after(at as u64).await.unwrap();
        assert!(!piece.is_empty() && whole[at..].starts_with(&piece), "{at}");
        assert!(piece.len() as u64 <= record::BLOCK);
    }
    assert!(opened.body.after(length as u64).await.unwrap().is_empty());
    let file = segment_of(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    bytes[1_000_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let mut opened = disk.open(&place(&disk, 1).unwrap()).await.unwrap();
    assert!(opened.body.after(0).await.is_ok() && opened.body.after(2_000_000).await.is_ok());
    assert!(opened.body.after(1_000_000).await.is_err());
    assert!(place(&disk, 1).is_none(), "it is not looked at again");
    assert_eq!(disk.state().damaged, 1);
}

#[tokio::test]
async fn the_directory_is_for_its_owner_and_for_one_process_at_a_time() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/cache");
    let disk = open(&path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    disk.offer(&url(1), &shared(1, 100));
    written(&disk, 1);
    for file in fs::read_dir(&path).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let next = start(&path, SIZE);
    thread::sleep(StdDuration::from_millis(300));
    assert!(!next.state().up && place(&next, 1).is_none());
    next.offer(&url(2), &shared(2, 100));
    stop(disk);
    wait_until(|| next.state().up);
    assert_eq!(read(&next, 1).await.unwrap().1, body(1, 100));
    assert!(read(&next, 2).await.is_none(), "it was not open");
}

#[tokio::test]
async fn what_has_no_use_or_no_room_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    let mut stale = object(1, b"stale");
    stale.metadata.lifetime = Duration::ZERO;
    disk.offer(&url(1), &Arc::new(stale));
    disk.offer(&url(2), &shared(2, SIZE as usize / 64));
    let mut unkeyed = object(3, b"varies by everything");
    let selectors = Selectors { secondary: None, ..Selectors::none() }.into();
    unkeyed.response = Arc::new(Response { selectors, ..response() });
    disk.offer(&url(3), &Arc::new(unkeyed));
    let mut there = object(4, b"on disk already");
    there.is_on_disk = true;
    disk.offer(&url(4), &Arc::new(there));
    written(&disk, 1);
    let state = disk.state();
    assert_eq!((state.objects, state.written, state.writes_refused), (1, 1, 1), "{state:?}");
    let there = disk.open(&place(&disk, 4).unwrap()).await.unwrap();
    let mut again = object(4, b"on disk already");
    (again.is_on_disk, again.metadata) = (true, there.metadata);
    disk.offer(&url(4), &Arc::new(again));
    disk.offer(&url(5), &shared(5, 10));
    written(&disk, 2);
}

#[tokio::test]
async fn files_of_another_version_and_files_of_others_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path());
    (0..20).for_each(|number| disk.offer(&url(number), &shared(number, 3_000)));
    written(&disk, 20);
    stop(disk);
    let file = segment_of(folder.path());
    let mut bytes = fs::read(&file).unwrap();
    bytes[4] = 9;
    fs::write(&file, bytes).unwrap();
    let (foreign, near) = (folder.path().join("notes.txt"), folder.path().join("1.segment"));
    fs::write(&foreign, "not ours").unwrap();
    fs::write(&near, "not ours").unwrap();
    let disk = open(folder.path());
    assert!(!file.exists() && foreign.exists() && near.exists());
    disk.offer(&url(21), &shared(21, 10));
    written(&disk, 1);
    assert!(read(&disk, 21).await.is_some());
}

#[test]
fn starting_with_many_objects_reads_lists_and_not_bodies() {
    let folder = tempfile::tempdir().unwrap();
    // A million by LOADLINE_TEST_DISK_OBJECTS=1000000.
    let objects = std::env::var("LOADLINE_TEST_DISK_OBJECTS");
    let objects: u64 = objects.map_or(5_000, |text| text.parse().unwrap());
    let size = (objects * 4_000).max(64 << 20);
    let disk = open_with(folder.path(), size);
    let text = Bytes::from(vec![7; 1_000]);
    for number in 0..objects {
        let pieces = [text.clone()];
        let object = Object::new(Arc::new(response()), fresh(), pieces, 0);
        disk.offer(&url(number), &Arc::new(object));
        if number % 10_000 == 0 {
            wait_until(|| disk.state().queued_bytes < QUEUE_BYTES / 2);
        }
    }
    written(&disk, objects);
    stop(disk);
    let begun = Instant::now();
    let disk = open_with(folder.path(), size);
    let (took, state) = (begun.elapsed(), disk.state());
    assert_eq!(state.objects, objects);
    let each = state.index_bytes as f64 / objects as f64;
    println!("{objects} objects found in {took:?}, index {each:.0} bytes each");
    assert!(each < 100.0, "{each}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every kind of place is hit: head of a segment, of a record, key, body, list, end.
    #[test]
    fn whatever_is_cut_or_flipped_what_is_given_out_is_what_was_written(
        cut in any::<bool>(), places in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        sealed in any::<bool>(), bit in 0..8u32,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let disk = open(folder.path());
        (0..12).for_each(|number| disk.offer(&url(number), &shared(number, 700)));
        written(&disk, 12);
        let copy = tempfile::tempdir().unwrap();
        if !sealed {
            // As a process leaves it that is killed.
            copy_all(folder.path(), copy.path());
        }
        stop(disk);
        if sealed {
            copy_all(folder.path(), copy.path());
        }
        let file = segment_of(copy.path());
        let mut bytes = fs::read(&file).unwrap();
        for place in places {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= 1 << bit,
            }
        }
        fs::write(&file, bytes).unwrap();
        let disk = open(copy.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for number in 0..12 {
                if let Some((_, found)) = read(&disk, number).await {
                    assert_eq!(found, body(number, 700), "{number}");
                }
            }
        });
        // It goes on from there.
        disk.offer(&url(99), &shared(99, 700));
        wait_until(|| place(&disk, 99).is_some());
        stop(disk);
        let disk = open(copy.path());
        prop_assert!(place(&disk, 99).is_some());
    }
}

fn start(folder: &Path, size: u64) -> Disk {
    let options = DiskCache { path: folder.display().to_string(), size: units(size) };
    Disk::start(&options, 0, (Clock::start(), Pinned::default())).unwrap()
}

const fn units(size: u64) -> loadline_core::units::Bytes {
    loadline_core::units::Bytes::new(size)
}

fn open(folder: &Path) -> Disk {
    open_with(folder, SIZE)
}

fn open_with(folder: &Path, size: u64) -> Disk {
    let disk = start(folder, size);
    wait_until(|| disk.state().up);
    disk
}

fn stop(disk: Disk) {
    disk.close(Vec::new());
    disk.join(PATIENCE);
    drop(disk);
}

fn restarted(disk: Disk, folder: &Path) -> Disk {
    stop(disk);
    open(folder)
}

/// Waits until so many have been written.
#[track_caller]
fn written(disk: &Disk, count: u64) {
    wait_until(|| disk.state().written >= count);
    assert_eq!(disk.state().written, count, "{:?}", disk.state());
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain");
        thread::sleep(StdDuration::from_millis(1));
    }
}

fn url(number: u64) -> Vec<u8> {
    format!("http://example.org/{number:08}").into_bytes()
}

/// So many bytes that follow from a number.
fn body(number: u64, length: usize) -> Vec<u8> {
    let numbers = (number..).map(|next| next.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    numbers.flat_map(u64::to_le_bytes).take(length).collect()
}

fn response() -> Response {
    Response {
        status: 200,
        text: b"HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 12:00:00 GMT\r\n"[..].into(),
        length: Length::Unknown,
        variant: b"web"[..].into(),
        selectors: Selectors::none().into(),
    }
}

/// A response whose tag is its number modulo ten.
fn object(number: u64, body: &[u8]) -> Object {
    let tag = format!("tag-{}", number % 10).into_bytes().into();
    let selectors = Selectors { tags: Box::new([tag]), ..Selectors::none() }.into();
    let response = Response { selectors, ..response() };
    let middle = body.len() / 2;
    let pieces = [Bytes::copy_from_slice(&body[..middle]), Bytes::copy_from_slice(&body[middle..])];
    Object::new(Arc::new(response), fresh(), pieces, 0)
}

fn shared(number: u64, length: usize) -> Arc<Object> {
    Arc::new(object(number, &body(number, length)))
}

fn place(disk: &Disk, number: u64) -> Option<Place> {
    match disk.find(&url(number), &b"web"[..].into(), Fields(&[]))? {
        Kept::There(place) => Some(place),
        Kept::Waiting(_) => None,
    }
}

async fn read(disk: &Disk, number: u64) -> Option<(Metadata, Vec<u8>)> {
    let mut opened = disk.open(&place(disk, number)?).await?;
    let mut whole = Vec::new();
    while (whole.len() as u64) < opened.body.length {
        whole.extend_from_slice(&opened.body.after(whole.len() as u64).await.ok()?);
    }
    Some((opened.metadata, whole))
}

/// The segment that has most in it.
fn segment_of(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let segments = files.filter(|file| file.extension().is_some_and(|it| it == "segment"));
    segments.max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

fn bytes_of(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn copy_all(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Segments of 256 KiB.
const SIZE: u64 = 16 << 20;

/// Longer than anything takes that goes right.
const PATIENCE: StdDuration = StdDuration::from_secs(60);
