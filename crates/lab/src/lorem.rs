//! A page of about the size and substance of the published one.

/// An HTML page of exactly [`SIZE`] bytes.
pub(crate) fn page() -> Vec<u8> {
    let text = SENTENCES.iter().cycle().flat_map(|sentence| sentence.bytes());
    let length = SIZE - OPENING.len() - CLOSING.len();
    let middle = text.take(length);
    OPENING.bytes().chain(middle).chain(CLOSING.bytes()).collect()
}

const SIZE: usize = 50_000;

const OPENING: &str = "<!DOCTYPE html>\n<html lang=\"la\">\n<head><meta charset=\"utf-8\">\
<title>Lorem ipsum</title></head>\n<body>\n<p>";
const CLOSING: &str = "</p>\n</body>\n</html>\n";

const SENTENCES: [&str; 4] = [
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt \
ut labore et dolore magna aliqua.\n",
    "Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea \
commodo consequat.\n",
    "Duis aute irure dolor in reprehenderit in voluptate velit esse cillum dolore eu fugiat \
nulla pariatur.\n",
    "Excepteur sint occaecat cupidatat non proident, sunt in culpa qui officia deserunt mollit \
anim id est laborum.\n",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_50_kb() {
        let page = String::from_utf8(page()).unwrap();
        assert_eq!(page.len(), 50_000);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(page.contains("Lorem ipsum dolor sit amet"));
    }
}
