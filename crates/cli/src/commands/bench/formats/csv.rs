//! One line for each moment of the run, after a line of names. Names carry their units.

use std::fmt::Write as _;

use loadline_measure::record::LoadRecord;

/// The lines, with their ends.
pub(super) fn write(record: &LoadRecord) -> String {
    let classes = record.outcomes.classes().map(|(name, _)| name.replace(' ', "_")).join(",");
    let mut text =
        format!("at_s,planned,{classes},in_flight,bytes_read,mean_ms,p50_ms,p99_ms,max_ms\n");
    for moment in &record.moments {
        let counts = moment.outcomes.classes().map(|(_, count)| count.to_string()).join(",");
        let times = [moment.mean, moment.p50, moment.p99, moment.max]
            .map(|time| format!("{:.3}", time.as_millis_f64()))
            .join(",");
        let at = moment.at.as_secs_f64();
        let (planned, in_flight, bytes) = (moment.planned, moment.in_flight, moment.bytes_read);
        writeln!(text, "{at:.3},{planned},{counts},{in_flight},{bytes},{times}")
            .expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadline_core::time::Duration;
    use loadline_measure::record::{Moment, Outcomes};

    #[test]
    fn each_moment_is_a_line_under_its_names() {
        let moment = Moment {
            at: Duration::from_millis(1_000),
            planned: 10,
            outcomes: Outcomes { ok: 8, connect_refused: 1, ..Outcomes::default() },
            in_flight: 1,
            most_in_flight: Some(2),
            bytes_read: 800,
            mean: Duration::from_micros(1_500),
            p50: Duration::from_millis(1),
            p99: Duration::from_millis(9),
            max: Duration::from_millis(10),
            late: None,
        };
        let record = LoadRecord { moments: vec![moment], ..LoadRecord::default() };
        assert_eq!(
            write(&record),
            "at_s,planned,ok,4xx,5xx,connect_refused,connect_timeout,timeout,reset,bad_answer,\
             dropped,cut_off,in_flight,bytes_read,mean_ms,p50_ms,p99_ms,max_ms\n\
             1.000,10,8,0,0,1,0,0,0,0,0,0,1,800,1.500,1.000,9.000,10.000\n"
        );
    }
}
