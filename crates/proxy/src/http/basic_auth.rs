//! Basic authentication (RFC 7617): the user and the password that a request shows.

use base64::engine::{Engine as _, general_purpose::STANDARD_PAD_INDIFFERENT};
use loadline_core::rules::BasicAuth;

use crate::http::{passwords::Shown, reply::Reply};

/// A password to be checked before anything is done, and the response where it is wrong.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) shown: Shown,
    pub(crate) refusal: Reply,
}

/// What has to be checked for `auth` of the values of `Authorization` of a request; none where they
/// show nothing that could be right.
pub(crate) fn shown<'a>(
    auth: &BasicAuth,
    mut values: impl Iterator<Item = &'a [u8]>,
) -> Option<Shown> {
    // Of two a server might believe the other one.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(at);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    // Clients do not agree on the padding.
    let text = STANDARD_PAD_INDIFFERENT.decode(rest.trim_ascii()).ok()?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (user, password) = (&text[..colon], &text[colon + 1..]);
    if text.iter().any(u8::is_ascii_control) {
        return None;
    }
    let check = auth.check(std::str::from_utf8(user).ok()?, password)?;
    Some(Shown { check, user: user.to_vec(), password: password.to_vec() })
}

#[cfg(test)]
mod tests {
    use loadline_core::rules::PasswordHash;

    use super::*;

    #[test]
    fn a_user_and_a_password_are_read_of_one_value_and_of_nothing_else() {
        let hash = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        let users = [("Aladdin".to_owned(), PasswordHash::parse(hash).unwrap())].into();
        let auth = BasicAuth { realm: "x".to_owned(), users, pass_authorization: false };
        let read = |values: &[&str]| {
            let shown = shown(&auth, values.iter().map(|value| value.as_bytes()))?;
            let text = |bytes| String::from_utf8(bytes).unwrap();
            Some((text(shown.user), text(shown.password), shown.check.is_known))
        };
        let aladdin = || Some(("Aladdin".to_owned(), "open sesame".to_owned(), true));
        assert_eq!(read(&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]), aladdin());
        assert_eq!(read(&["bASIC   QWxhZGRpbjpvcGVuIHNlc2FtZQ"]), aladdin());
        assert_eq!(read(&["Basic eDp5Onp6"]), Some(("x".into(), "y:zz".into(), false)));
        let long = STANDARD_PAD_INDIFFERENT.encode(format!("Aladdin:{}", "x".repeat(513)));
        let long = format!("Basic {long}");
        for values in [
            &[][..],
            &[long.as_str()],
            &["Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="],
            &["Basic"],
            &["Basic "],
            &["Basic QWxh*"],
            // `Aladdin` alone, a new line in the password, a name that is not UTF-8.
            &["Basic QWxhZGRpbg=="],
            &["Basic QTpiCmM="],
            &["Basic //86eA=="],
            &["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="],
        ] {
            assert_eq!(read(values), None, "{values:?}");
        }
    }
}
