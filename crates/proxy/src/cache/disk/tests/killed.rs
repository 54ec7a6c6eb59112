//! A process that writes is killed again and again, at another moment each time: 200 times, or as
//! many as `LOADLINE_TEST_DISK_KILLS` says.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use super::*;

/// What a killed process has said that it has written is there, whole, and nothing that is newer
/// than what it began to write; what it has purged is not.
#[tokio::test]
async fn a_process_that_is_killed_loses_only_what_it_has_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let rounds = env::var("LOADLINE_TEST_DISK_KILLS").map_or(ROUNDS, |of| of.parse().unwrap());
    // The last version of each key that was acknowledged; none where its purge was.
    let mut acknowledged: BTreeMap<u64, Option<u64>> = BTreeMap::new();
    let (mut last, mut all) = (0, 0);
    for round in 0..rounds {
        let wait = StdDuration::from_micros(round * 311 % 62_200);
        for line in write_and_kill(folder.path(), last, wait) {
            let (what, number) = line.split_once(' ').unwrap();
            let version: u64 = number.parse().unwrap();
            last = last.max(version);
            let state = (what == "written").then_some(version);
            acknowledged.insert(version % KEYS, state);
            all += 1;
        }
        let disk = open_with(folder.path(), KILLED_SIZE);
        for (key, version) in &mut acknowledged {
            let found = read(&disk, *key).await.map(|(_, bytes)| {
                let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == versioned(version), "round {round}: torn");
                version
            });
            match (*version, found) {
                // Its purge may have been recorded, without its word.
                (Some(_), None)
                    if (last + 1..=last + 2).any(|it| it % 7 == 0 && it % KEYS == *key) => {}
                (Some(version), None) => panic!("round {round}: {version} is lost"),
                (Some(version), Some(found)) => assert!(found >= version, "round {round}"),
                // It may have been written again, without its word.
                (None, Some(found)) => assert!(found > last, "round {round}: purged, yet there"),
                (None, None) => {}
            }
            // Said or not, what was found once stays.
            *version = found;
        }
        assert_eq!(disk.state().damaged, 0, "round {round}");
        stop(disk);
        last += MOST_UNSAID;
    }
    assert!(all > rounds, "{all} were acknowledged");
    println!("{all} acknowledged by {rounds} processes that were killed");
}

/// Lets another process write versions after this one, and kills it this long after its first word.
/// Gives what it said.
fn write_and_kill(folder: &Path, after: u64, wait: StdDuration) -> Vec<String> {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", CHILD, "--nocapture"])
        .env(FOLDER, folder)
        .env(AFTER, after.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_said = |line: &String| line.starts_with("written ") || line.starts_with("purged ");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said: Vec<_> = lines.by_ref().map(Result::unwrap).find(is_said).into_iter().collect();
    thread::sleep(wait);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
    // It may be cut off.
    rest.pop();
    said.extend(rest);
    said
}

/// Writes versions until it is killed, and says each once it is written; purges every seventh, and
/// says that. By itself it has nothing to do.
#[test]
fn the_process_that_is_killed() {
    let (Ok(folder), Ok(after)) = (env::var(FOLDER), env::var(AFTER)) else { return };
    let disk = open_with(Path::new(&folder), KILLED_SIZE);
    let first = after.parse::<u64>().unwrap() + 1;
    let mut purges = 0;
    for version in first..first + MOST_UNSAID {
        let key = version % KEYS;
        let other = url(1_000 + version % 3);
        disk.offer(&other, &shared(1_000 + version % 3, 500));
        if version % 7 == 0 {
            let mut next = || {
                purges += 1;
                purges
            };
            let purged = String::from_utf8(url(key)).unwrap();
            let purge = state::Purge { url: Some(purged), prefix: None, tag: None, soft: false };
            disk.purge(&mut next, Purged::By(&purge)).wait().unwrap();
            say("purged", version);
            continue;
        }
        let mut object = object(key, &versioned(version));
        object.epoch = purges;
        disk.offer(&url(key), &Arc::new(object));
        wait_until(|| place(&disk, key).is_some());
        // Nobody waits until this is recorded, while more is written.
        disk.invalidate(
            || {
                purges += 1;
                purges
            },
            &other,
        );
        say("written", version);
    }
    // It has not been killed for so long that its parent must have gone.
    panic!("nobody kills it");
}

fn say(what: &str, version: u64) {
    let mut out = io::stdout().lock();
    writeln!(out, "{what} {version}").unwrap();
    out.flush().unwrap();
}

/// A value of 2 to 300 kB that begins with its version.
fn versioned(version: u64) -> Vec<u8> {
    let length = 2_000 + (version as usize * 7_919) % 300_000;
    [&version.to_le_bytes()[..], &body(version, length)].concat()
}

/// Those of a run that says nothing of them.
const ROUNDS: u64 = 200;

/// Few, so that each is written again and again.
const KEYS: u64 = 20;

/// Enough that nothing leaves before it is written anew, and segments are sealed.
const KILLED_SIZE: u64 = 64 << 20;

/// More than any round takes.
const MOST_UNSAID: u64 = 5_000;

const CHILD: &str = "cache::disk::tests::killed::the_process_that_is_killed";
const FOLDER: &str = "LOADLINE_TEST_DISK_FOLDER";
const AFTER: &str = "LOADLINE_TEST_DISK_AFTER";
