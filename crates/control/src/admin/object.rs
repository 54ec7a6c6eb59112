//! An object of JSON: serde reads a struct from an array, too, by the order of its fields.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// What was read from an object.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Change {
        weight: Option<u32>,
    }

    #[test]
    fn an_array_is_no_object_and_everything_else_is_as_without_it() {
        let read = |text| serde_json::from_str::<Object<Change>>(text);
        assert_eq!(read(r#"{"weight":2}"#).unwrap().0.weight, Some(2));
        assert_eq!(read("{}").unwrap().0.weight, None);
        for (text, told) in [
            ("[2]", "invalid type: sequence, expected an object"),
            ("null", "invalid type: null, expected an object"),
            (r#"{"weight":1,"weight":2}"#, "duplicate field `weight`"),
            (r#"{"wait":1}"#, "unknown field `wait`"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
