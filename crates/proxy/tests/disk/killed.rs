//! A process that writes is killed again and again, at another moment each time: 200 times where
//! `LOADLINE_TEST_DISK_ROUNDS=200` asks for it.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bytes::Bytes;

use super::{key, open, value};

/// What a killed process has said that it has written is there, whole; nothing else is that was
/// never put.
#[tokio::test]
async fn a_process_that_is_killed_loses_only_what_it_has_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    // The last version of each key that was acknowledged, and the last one that was put.
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut version, mut torn, mut all) = (0, 0, 0);
    let rounds = env::var("LOADLINE_TEST_DISK_ROUNDS").map_or(ROUNDS, |of| of.parse().unwrap());
    for round in 0..rounds {
        let lines =
            write_and_kill(folder.path(), version, Duration::from_micros(round * 311 % 62_200));
        for line in lines.iter().filter_map(|line| line.strip_prefix("written ")) {
            version = version.max(line.parse().unwrap());
            acknowledged.insert(version % KEYS, version);
            all += 1;
        }
        let (disk, found) = open(folder.path(), SIZE);
        torn += found.torn;
        for (number, last) in &acknowledged {
            let read = disk.read(&key(*number)).await.expect("it was acknowledged");
            let found = u64::from_le_bytes(read[..8].try_into().unwrap());
            assert!(found >= *last, "round {round}: version {found} after {last}");
            assert_eq!(read, versioned(found), "round {round}: torn");
            version = version.max(found);
        }
        assert_eq!(disk.counts().corrupt, 0, "round {round}");
    }
    assert!(all > rounds, "{all} values were written");
    println!("{all} values acknowledged, {torn} torn segments seen, {rounds} times killed");
}

/// Lets another process write versions after this one, and kills it this long after its first
/// word. Gives what it said.
fn write_and_kill(folder: &Path, after: u64, wait: Duration) -> Vec<String> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "killed::the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(AFTER, after.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    let first = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("written "));
    said.extend(first);
    thread::sleep(wait);
    child.kill().unwrap();
    child.wait().unwrap();
    // The last line may be cut off.
    let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
    rest.pop();
    said.extend(rest);
    said
}

/// Writes versions until it is killed, and says each once it is written. By itself it writes
/// nothing and has nothing to say.
#[tokio::test]
async fn the_process_that_is_killed() {
    let (Ok(folder), Ok(after)) = (env::var(FOLDER), env::var(AFTER)) else { return };
    let (disk, _) = open(Path::new(&folder), SIZE);
    let first = after.parse::<u64>().unwrap() + 1;
    for version in first..first + WRITES {
        let value = versioned(version);
        let middle = value.len() / 2;
        let parts = vec![value.slice(..middle), value.slice(middle..)];
        disk.put(&key(version % KEYS), parts).unwrap().await.unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "written {version}").unwrap();
        out.flush().unwrap();
    }
    // It has not been killed for so long that its parent must have gone.
    panic!("nobody kills it");
}

/// A value of 20 to 120 kB that begins with its version.
fn versioned(version: u64) -> Bytes {
    let length = 20_000 + (version as usize * 7_919) % 100_000;
    [&version.to_le_bytes()[..], &value(version, length)].concat().into()
}

/// Those of a run that says nothing of them.
const ROUNDS: u64 = 20;

/// Few, so that each is written again and again.
const KEYS: u64 = 20;

/// Enough that nothing that counts is given up: all keys together take 2.4 MB.
const SIZE: u64 = 64 << 20;

/// More than any round takes.
const WRITES: u64 = 5_000;

const FOLDER: &str = "LOADLINE_TEST_DISK_FOLDER";
const AFTER: &str = "LOADLINE_TEST_DISK_AFTER";
