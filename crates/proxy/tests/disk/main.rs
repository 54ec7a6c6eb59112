//! The second tier of the cache, on disk: what it keeps, how much of it, and what a process that is
//! killed leaves behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod killed;

use std::{fs, path::Path};

use bytes::Bytes;
use loadline_proxy::cache::disk::{Disk, OpenError, Options, Recovered, Refused};

#[tokio::test]
async fn what_was_written_is_there_after_a_restart_and_what_was_removed_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, found) = open(folder.path(), 4 << 20);
    assert_eq!(found, Recovered::default());
    for number in 0..100 {
        write(&disk, &key(number), &value(number, 1_000)).await;
    }
    write(&disk, &key(7), b"another").await;
    disk.remove(&key(8));
    assert_eq!(disk.read(&key(8)).await, None);
    drop(disk);
    let (disk, found) = open(folder.path(), 4 << 20);
    assert_eq!((found.values, found.torn), (99, 0));
    assert_eq!(disk.read(&key(7)).await.as_deref(), Some(&b"another"[..]));
    assert_eq!(disk.read(&key(8)).await, None);
    for number in (0..7).chain(9..100) {
        assert_eq!(disk.read(&key(number)).await, Some(value(number, 1_000)), "{number}");
    }
    assert_eq!((disk.counts().read, disk.counts().corrupt), (99, 0));
}

#[tokio::test]
async fn a_value_that_is_removed_while_it_waits_to_be_written_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = open(folder.path(), 4 << 20);
    let mut receivers = Vec::new();
    for number in 0..50 {
        receivers.push(disk.put(&key(number), vec![value(number, 10_000)]).unwrap());
        disk.remove(&key(number));
        assert_eq!(disk.read(&key(number)).await, None);
    }
    drop(disk);
    let (disk, found) = open(folder.path(), 4 << 20);
    assert_eq!((found.values, disk.is_empty()), (0, true));
}

#[tokio::test]
async fn the_files_stay_within_their_bytes_and_what_is_read_stays() {
    let folder = tempfile::tempdir().unwrap();
    let size = 2 << 20;
    let (disk, _) = open(folder.path(), size);
    for number in 0..2_000 {
        write(&disk, &key(number), &value(number, 4_000)).await;
        if number % 20 == 0 {
            assert!(disk.read(&key(0)).await.is_some(), "after {number}");
        }
        assert!(disk.bytes() <= size && bytes_of(folder.path()) <= size, "after {number}");
    }
    assert!(disk.len() > 350, "{} of 500 that would fit", disk.len());
    assert_eq!(disk.read(&key(1)).await, None);
    assert_eq!(disk.read(&key(1_999)).await, Some(value(1_999, 4_000)));
}

#[tokio::test]
async fn a_record_that_the_disk_got_wrong_is_never_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = open(folder.path(), 4 << 20);
    for number in 0..20 {
        write(&disk, &key(number), &value(number, 500)).await;
    }
    drop(disk);
    let file = segment_of(folder.path());
    let whole = fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(97) {
        let mut wrong = whole.clone();
        wrong[at] ^= 0x40;
        fs::write(&file, wrong).unwrap();
        let (disk, _) = open(folder.path(), 4 << 20);
        let mut given = 0;
        for number in 0..20 {
            if let Some(found) = disk.read(&key(number)).await {
                assert_eq!(found, value(number, 500), "byte {at}, value {number}");
                given += 1;
            }
        }
        assert!(given < 20, "byte {at} makes no difference");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_anywhere_gives_what_is_whole_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = open(folder.path(), 4 << 20);
    for number in 0..10 {
        write(&disk, &key(number), &value(number, 100)).await;
    }
    drop(disk);
    let file = segment_of(folder.path());
    let whole = fs::read(&file).unwrap();
    let record = whole.len() / 10;
    for length in 0..whole.len() {
        fs::write(&file, &whole[..length]).unwrap();
        let (disk, found) = open(folder.path(), 4 << 20);
        assert_eq!(found.values as usize, length / record, "{length} bytes");
        assert_eq!(found.torn, u64::from(length % record != 0), "{length} bytes");
        drop(disk);
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = open(folder.path(), 1 << 20);
    write(&disk, b"key", b"value").await;
    let large = disk.put(b"key", vec![value(1, 40_000)]);
    assert!(matches!(large, Err(Refused::TooLarge { max: 32_768, .. })), "{large:?}");
    assert_eq!(disk.read(b"key").await, None, "what it had is no longer true");
    let same = Disk::open(Options { path: folder.path().into(), size: 1 << 20 });
    assert!(matches!(same, Err(OpenError::InUse { .. })), "{same:?}");
    let small = Disk::open(Options { path: folder.path().into(), size: 1_000 });
    assert!(matches!(small, Err(OpenError::TooSmall { size: 1_000 })), "{small:?}");
    let file = folder.path().join("lock");
    let no_folder = Disk::open(Options { path: file.clone(), size: 1 << 20 }).unwrap_err();
    assert_eq!(no_folder.to_string(), format!("cannot create `{}`", file.display()));
    drop(disk);
    assert!(Disk::open(Options { path: folder.path().into(), size: 1 << 20 }).is_ok());
}

fn open(folder: &Path, size: u64) -> (Disk, Recovered) {
    Disk::open(Options { path: folder.into(), size }).unwrap()
}

/// Writes a value, and waits until it is written.
async fn write(disk: &Disk, key: &[u8], value: &[u8]) {
    let written = disk.put(key, vec![Bytes::copy_from_slice(value)]).unwrap();
    written.await.unwrap();
}

fn key(number: u64) -> Vec<u8> {
    format!("https://example.org/{number:06}").into_bytes()
}

/// So many bytes that follow from a number.
fn value(number: u64, length: usize) -> Bytes {
    let numbers = (number..).map(|next| next.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    numbers.flat_map(u64::to_le_bytes).take(length).collect()
}

/// The segment that has anything in it.
fn segment_of(folder: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.max_by_key(|file| file.metadata().unwrap().len()).unwrap()
}

fn bytes_of(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}
