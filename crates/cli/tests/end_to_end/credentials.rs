//! Credentials that a cloud gives to its machines and containers, from a metadata service that says
//! what the real ones say.

use crate::{
    ports::reserved,
    process::file,
    stores::{PATIENCE, Scripted, body, curl, object, started, status},
};

/// What such a service answers with.
fn json(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

fn plain(text: &str) -> String {
    json(text).replace("application/json", "text/plain")
}

/// Credentials until then.
fn keys(token: &str, until: &str) -> String {
    format!(
        "{{\"Code\": \"Success\", \"Type\": \"AWS-HMAC\", \"AccessKeyId\": \"AKIAROLE\", \
         \"SecretAccessKey\": \"secret\", \"Token\": \"{token}\", \
         \"LastUpdated\": \"2026-01-01T00:00:00Z\", \"Expiration\": \"{until}\"}}"
    )
}

/// A store that wants requests of the role with this token.
fn store(token: &'static str) -> Scripted {
    Scripted::new(move |head| {
        let signed = head.to_ascii_lowercase().contains("credential=akiarole/");
        match signed && head.contains(&format!("x-amz-security-token: {token}")) {
            true => object(head, "found"),
            false => crate::stores::error(head, "403 Forbidden", "InvalidAccessKeyId", ""),
        }
    })
}

fn bucket(port: u16) -> String {
    format!("{{ url = \"s3://site\", endpoint = \"http://127.0.0.1:{port}\" }}")
}

#[test]
fn a_machine_has_the_credentials_of_its_role_by_a_session_of_its_metadata_service() {
    let metadata = Scripted::new(|head| {
        let has_session = head.to_ascii_lowercase().contains("x-aws-ec2-metadata-token: session");
        match head.split(' ').nth(1).unwrap_or_default() {
            "/latest/api/token" if head.starts_with("PUT ") => plain("session"),
            "/latest/meta-data/iam/security-credentials/" if has_session => plain("web"),
            "/latest/meta-data/iam/security-credentials/web" if has_session => {
                json(&keys("of-the-machine", FAR))
            }
            _ => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
        }
    });
    let store = store("of-the-machine");
    let endpoint = format!("http://127.0.0.1:{}", metadata.port);
    let environment =
        [("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*endpoint)];
    let proxy = started("", &bucket(store.port), &environment);
    for _ in 0..3 {
        let response = curl(&proxy, "/a", &[]);
        assert_eq!((status(&response), body(&response)), (200, "found"), "{response}");
    }
    assert_eq!(metadata.heads().len(), 3, "once for all requests: {:?}", metadata.heads());
    let ended = proxy.terminate();
    assert!(!ended.log.contains("of-the-machine"), "{}", ended.log);
}

#[test]
fn a_container_has_the_credentials_of_its_task_and_new_ones_before_they_end() {
    let metadata = Scripted::new({
        let asked = std::sync::atomic::AtomicUsize::new(0);
        move |head| {
            assert!(head.to_ascii_lowercase().contains("authorization: pass"), "{head}");
            match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                // These have ended long ago, as if the service had been late.
                0 => json(&keys("old", "2020-01-01T00:00:00Z")),
                _ => json(&keys("new", FAR)),
            }
        }
    });
    let store = store("new");
    let uri = format!("http://127.0.0.1:{}/v2/credentials/task", metadata.port);
    let environment = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*uri),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pass"),
    ];
    let proxy = started("", &bucket(store.port), &environment);
    let start = std::time::Instant::now();
    loop {
        let response = curl(&proxy, "/a", &[]);
        if status(&response) == 200 {
            assert_eq!(body(&response), "found");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{response}");
    }
}

#[test]
fn a_metadata_service_that_fails_leaves_requests_with_a_502_that_the_log_explains() {
    let metadata =
        Scripted::new(|_| "HTTP/1.1 500 Internal\r\nContent-Length: 0\r\n\r\n".to_owned());
    let store = store("never");
    let endpoint = format!("http://127.0.0.1:{}", metadata.port);
    let environment =
        [("AWS_EC2_METADATA_DISABLED", "false"), ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*endpoint)];
    let proxy = started("", &bucket(store.port), &environment);
    let response = curl(&proxy, "/a", &[]);
    assert_eq!(status(&response), 502, "{response}");
    let ended = proxy.terminate();
    assert!(ended.log.contains("credentials for stores"), "{}", ended.log);
    assert_eq!(ended.endings().get("store-refused"), Some(&1), "{}", ended.log);
    assert_eq!(store.heads().len(), 0, "nothing is asked unsigned");
}

#[test]
fn the_log_names_the_source_of_credentials_that_is_configured_and_what_is_wrong_with_it() {
    let fails = Scripted::new(|_| "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned());
    let fails = format!("http://127.0.0.1:{}/x", fails.port);
    let refuses = format!("http://127.0.0.1:{}/x", reserved().port());
    let shared = |text: &str| file("shared", text).display().to_string();
    let good = shared("[default]\naws_access_key_id = a\naws_secret_access_key = b\n");
    let (broken, half) = (shared("[default\n"), shared("[default]\naws_access_key_id = a\n"));
    let no_half = format!("[default] in {half} has aws_access_key_id without");
    let store = store("never");
    let files = "AWS_SHARED_CREDENTIALS_FILE";
    for (profile, environment, words) in [
        (", profile = \"nope\"", &[(files, &*good)][..], "there is no profile `nope`"),
        ("", &[(files, &*broken)][..], "shared files: failed to parse credentials file: "),
        ("", &[(files, &*half)][..], &*no_half),
        ("", &[("AWS_ACCESS_KEY_ID", "a")][..], "is set without AWS_SECRET_ACCESS_KEY"),
        (
            "",
            &[("AWS_ROLE_ARN", "arn"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token")][..],
            "/nonexistent/token: No such file",
        ),
        ("", &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*refuses)][..], "Connection refused"),
        ("", &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*fails)][..], "http_status: 500"),
    ] {
        let bucket = format!(
            "{{ url = \"s3://site\", endpoint = \"http://127.0.0.1:{}\"{profile} }}",
            store.port
        );
        let proxy = started("", &bucket, environment);
        assert_eq!(status(&curl(&proxy, "/a", &[])), 502, "{words}");
        let ended = proxy.terminate();
        assert!(ended.log.contains("no credentials for stores: "), "{words}: {}", ended.log);
        assert!(ended.log.contains(words), "{words}: {}", ended.log);
    }
}

const FAR: &str = "2099-01-01T00:00:00Z";
