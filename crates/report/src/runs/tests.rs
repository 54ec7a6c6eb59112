//! What a page of records must contain, and must not.

#[test]
fn todo_later() {}
