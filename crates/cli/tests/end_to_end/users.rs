//! Users of basic authentication in a file that somebody else writes.

use std::fs;

use crate::process::{Process, file, logging, run, until_logged};

/// Of `Hello world!`, as `openssl passwd` writes it with `-5` and with `-6`.
const HASHES: [&str; 2] = [
    "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
    "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFd\
     cbYEdFCoEOfaS35inz1",
];

#[test]
fn a_user_who_leaves_the_file_is_out_after_a_reload_and_a_new_one_is_in() {
    let worker = Process::fixed();
    let users = file("htpasswd", &format!("alice:{}\n", HASHES[0]));
    let text = format!(
        "[[listener]]\nbind = \"127.0.0.1:0\"\nservice = \"web\"\n\
         basic_auth = {{ users_file = \"{}\" }}\n\
         [[service.web.group]]\nservers = [\"{}\"]\n",
        users.display(),
        worker.address
    );
    let path = file("users.toml", &text);
    let (proxy, log) = logging(&["serve", path.to_str().unwrap()]);
    let status = |user: &str| {
        let user = format!("{user}:Hello world!");
        let args = ["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", &user, &proxy.url("/")];
        String::from_utf8(run("curl", &args).stdout).unwrap()
    };
    assert_eq!([status("alice"), status("bob")], ["200", "401"]);
    fs::write(&users, format!("bob:{}\n", HASHES[1])).unwrap();
    proxy.signal("HUP");
    assert!((0..2_000).any(|_| status("bob") == "200"), "the reload came into force");
    assert_eq!(status("alice"), "401");
    // A file that cannot be read changes nothing.
    fs::write(&users, "bob:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n").unwrap();
    proxy.signal("HUP");
    // The text is wrapped, where depends on the path.
    until_logged(&log, "line 1:");
    assert_eq!(status("bob"), "200");
    proxy.terminate();
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("quick") && !told.contains("HqJZimcK"), "{told}");
    for path in [users, path, log] {
        fs::remove_file(path).unwrap();
    }
}
