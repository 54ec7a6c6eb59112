//! Parameters of a query, which routes compare decoded.

/// The text that a part of a query stands for.
///
/// # Errors
/// Where it is none.
pub(crate) fn decoded(text: &str) -> Result<String, String> {
    let wrong = || format!("parameters are compared decoded: `{text}` is no text that way");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (byte, others) = escaped(rest).ok_or_else(wrong)?;
                rest = others;
                byte
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// The byte of which the digits come first, and what is behind them.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.split_at_checked(2)?;
    let value = |digit: u8| char::from(digit).to_digit(16);
    let (high, low) = (value(*digits.first()?)?, value(*digits.last()?)?);
    Some((u8::try_from(high * 16 + low).ok()?, rest))
}

/// The name of a parameter, decoded, if a route may ask for it.
///
/// # Errors
/// Where it may not.
pub(crate) fn checked(name: &str) -> Result<&str, String> {
    let is_encoded = name.split('%').skip(1).any(|it| escaped(it.as_bytes()).is_some());
    if name.is_empty() || name.starts_with(['?', '&']) || name.contains('*') || is_encoded {
        return Err(format!("a route cannot ask for a parameter of the name `{name}`"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_when_decoded_is_an_error() {
        assert_eq!(decoded("a%5b%5D+%C3%A9%2B"), Ok("a[] é+".to_owned()));
        assert!(["%", "a%2", "%+1", "%FF"].iter().all(|text| decoded(text).is_err()));
    }

    #[test]
    fn a_name_that_no_parameter_has_is_an_error() {
        assert!(["a", "ids[]", "100%", "a?"].iter().all(|name| checked(name).is_ok()));
        assert!(["", "?a", "&a", "a*", "a%5B"].iter().all(|name| checked(name).is_err()));
    }
}
