//! Labels that stand beside their curves without covering each other.

/// Moves the wanted places apart until neighbours are at least `gap` from each other and all lie
/// within `low..=high` (as far as there is room); keeps their order. Answers in the order asked.
pub(crate) fn spread(wanted: &[i32], gap: i32, low: i32, high: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|index| wanted[*index]);
    let mut placed = wanted.to_vec();
    let mut floor = low;
    for &index in &order {
        placed[index] = placed[index].max(floor);
        floor = placed[index] + gap;
    }
    // Pushed over the lower edge, they move back up from there.
    let mut ceiling = high;
    for &index in order.iter().rev() {
        placed[index] = placed[index].min(ceiling);
        ceiling = placed[index] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn labels_with_room_stay_where_they_are() {
        assert_eq!(spread(&[100, 10, 50], 15, 0, 200), [100, 10, 50]);
    }

    #[test]
    fn labels_on_each_other_move_apart_and_keep_their_order() {
        assert_eq!(spread(&[50, 52, 51], 15, 0, 200), [50, 80, 65]);
    }

    #[test]
    fn labels_at_the_edge_move_inwards() {
        assert_eq!(spread(&[195, 198], 15, 0, 200), [185, 200]);
    }
}
