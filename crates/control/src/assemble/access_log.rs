//! The access log: one text, or a table of which all but `to` has a default.

use loadline_core::fleet::{AccessLog, LogField, LogFormat};
use loadline_spanned::{Key, Problems};

use super::set;
use crate::{
    file,
    value::{either::TextOr, label::LogPlace},
};

/// What the file says of it; none where it says nothing.
pub(super) fn access_log(
    given: &Key<TextOr<LogPlace, file::AccessLog>>,
    problems: &mut Problems,
) -> Option<AccessLog> {
    let given = given.at()?;
    let table = match &given.value {
        TextOr::Text(place) => return Some(AccessLog::to(place.0.clone())),
        TextOr::Table(table) => table,
    };
    let Some(to) = table.to.get() else {
        let message = "an access log without `to`".to_owned();
        let help = "say where lines go: to = \"stdout\"".to_owned();
        problems.absent(&given.span, &given.span, message, help);
        return None;
    };
    let mut log = AccessLog::to(to.0.0.clone());
    set(&table.format, |it| &it.0.0, &mut log.format);
    set(&table.successes, |it| &it.0.0, &mut log.successes);
    set(&table.query, |it| it, &mut log.query);
    log.fields = match table.fields.get() {
        Some(fields) => fields.iter().map(|field| field.0.0).collect(),
        None if log.format == LogFormat::Json => {
            LogField::ALL.into_iter().filter(|field| !field.is_made()).collect()
        }
        None => Vec::new(),
    };
    Some(log)
}
