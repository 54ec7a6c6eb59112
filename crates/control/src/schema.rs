//! The JSON Schema of the file, made of the types that read it.

use schemars::{Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::Value;

use crate::file::File;

/// The JSON Schema (draft 2020-12) of a configuration, for editors and other tools.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(unwrap_description);
    settings.into_generator().into_root_schema_for::<File>().to_value()
}

/// Comments are wrapped at the width of the source; a description is one paragraph.
fn unwrap_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get("description") {
        let paragraph = text.replace('\n', " ");
        schema.insert("description".to_owned(), paragraph.into());
    }
    transform_subschemas(&mut unwrap_description, schema);
}
