//! The description of the API (OpenAPI 3.1), made of the types that it reads and writes.
//!
//! `docs/openapi.json` is this, and a running administration serves it.

use loadline_core::state;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings, schema_for};
use serde_json::{Map, Value, json};

use super::{
    api::{Changes, Failure, Flows, GroupChange, Samples, ServerChange, ServiceChange},
    cache::CachedObjects,
};

/// The description of the API.
#[must_use]
pub fn openapi() -> Value {
    let mut page = Page::default();
    page.read("/api/state", "Whole state of the edge", answers::<state::State>);
    page.read("/api/services/{service}", "State of one service", answers::<state::Service>);
    let history = "/api/services/{service}/history";
    page.read(history, "Last five minutes of a service, second by second", answers::<Samples>);
    page.flows();
    page.read("/api/changes", "Changes in force until the next reload", answers::<Changes>);
    page.read(
        "/api/changes.toml",
        "These changes as lines for the file, each below its table or entry",
        |_| text(),
    );
    page.read(
        "/metrics",
        "Metrics, in the text format of Prometheus, or of OpenMetrics if preferred; 503 while too \
         many read them",
        |_| text_of(&["text/plain", "application/openmetrics-text"]),
    );
    page.read("/healthz", "Liveness: whether the process runs", |_| text());
    page.read("/readyz", "Readiness: every service can take traffic; 503 if not", |_| text());
    let service = "/api/services/{service}";
    page.change(service, "Put a service in maintenance, or end it", Some(schema::<ServiceChange>));
    let group = "/api/services/{service}/groups/{group}";
    page.change(group, "Set the scaler of a group", Some(schema::<GroupChange>));
    let server = "/api/services/{service}/groups/{group}/servers/{server}";
    page.change(server, "Set the weight or the mode of a server", Some(schema::<ServerChange>));
    page.cache();
    page.change("/api/reload", "Reload the file; forgets all changes", None);
    page.finish()
}

type Describe = fn(&mut SchemaGenerator) -> Value;

struct Page {
    generator: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Default for Page {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self { generator: settings.into_generator(), paths: Map::new() }
    }
}

impl Page {
    fn read(&mut self, path: &str, summary: &str, answer: Describe) {
        let mut responses = json!({ "200": answer(&mut self.generator) });
        if path.contains('{') {
            responses["404"] = answers::<Failure>(&mut self.generator);
        }
        if path == "/readyz" {
            responses["503"] = text();
        }
        if path == "/metrics" {
            responses["503"] = text();
            responses["503"]["headers"] =
                json!({ "Retry-After": { "schema": { "type": "integer" } } });
        }
        let operation = json!({
            "summary": summary,
            "parameters": parameters(path),
            "responses": responses,
        });
        self.paths.insert(path.to_owned(), json!({ "get": operation }));
    }

    /// The flows, which can be asked for in parts.
    fn flows(&mut self) {
        let mut responses = json!({ "200": answers::<Flows>(&mut self.generator) });
        responses["422"] = answers::<Failure>(&mut self.generator);
        let filter = schema_for!(state::FlowFilter).to_value();
        let keys = filter["properties"].as_object();
        let parameters: Value = keys.into_iter().flatten().map(asked).collect();
        let operation = json!({
            "summary": "Remembered flows and NAT connections of packet forwarding",
            "parameters": parameters,
            "responses": responses,
        });
        self.paths.insert("/api/flows".to_owned(), json!({ "get": operation }));
    }

    /// What is stored, and what is to be taken out.
    fn cache(&mut self) {
        let generator = &mut self.generator;
        let mut responses = json!({ "200": answers::<CachedObjects>(generator) });
        responses["422"] = answers::<Failure>(generator);
        let told = json!({
            "summary": "Stored responses, the most used first",
            "parameters": [asked((&"limit".to_owned(), &json!({ "type": ["integer"] })))],
            "responses": responses,
        });
        let mut responses = json!({ "200": answers::<state::Purged>(generator) });
        for status in ["401", "422", "500"] {
            responses[status] = answers::<Failure>(generator);
        }
        let content =
            json!({ "application/json": { "schema": schema::<state::Purge>(generator) } });
        let purge = json!({
            "summary": "Purge from the cache by a URL, a prefix of URLs or a tag",
            "parameters": [],
            "requestBody": { "required": true, "content": content },
            "responses": responses,
            "security": [{ "token": [] }],
        });
        self.paths.insert("/api/cache/objects".to_owned(), json!({ "get": told }));
        self.paths.insert("/api/cache/purge".to_owned(), json!({ "post": purge }));
    }

    fn change(&mut self, path: &str, summary: &str, body: Option<Describe>) {
        let generator = &mut self.generator;
        let mut responses = json!({ "200": answers::<Changes>(generator) });
        for status in ["401", "422", "503"] {
            responses[status] = answers::<Failure>(generator);
        }
        if path.contains('{') {
            responses["404"] = answers::<Failure>(generator);
        }
        let mut operation = json!({
            "summary": summary,
            "parameters": parameters(path),
            "responses": responses,
            "security": [{ "token": [] }],
        });
        if let Some(body) = body {
            let content = json!({ "application/json": { "schema": body(generator) } });
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        let known = self.paths.entry(path).or_insert_with(|| json!({}));
        known["post"] = operation;
    }

    fn finish(mut self) -> Value {
        // Whatever the path, if the administration is called by no name, or by one that is not its
        // own.
        let operations = self.paths.values_mut().filter_map(Value::as_object_mut);
        for operation in operations.flat_map(Map::values_mut) {
            for status in ["400", "421"] {
                operation["responses"][status] = answers::<Failure>(&mut self.generator);
            }
        }
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "loadline admin interface",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "State of an edge, and changes to it until the next reload.",
            },
            "paths": self.paths,
            "components": {
                "schemas": self.generator.take_definitions(true),
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
        })
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn answers<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    let name = T::schema_name();
    let content = json!({ "application/json": { "schema": schema::<T>(generator) } });
    json!({ "description": name, "content": content })
}

fn text() -> Value {
    text_of(&["text/plain"])
}

fn text_of(types: &[&str]) -> Value {
    let of_type = |it: &&str| ((*it).to_owned(), json!({ "schema": { "type": "string" } }));
    let content: Map<String, Value> = types.iter().map(of_type).collect();
    json!({ "description": "Text", "content": content })
}

/// One for each part of the path in braces.
fn parameters(path: &str) -> Value {
    let names = path.split('{').skip(1).filter_map(|part| part.split_once('}'));
    names.map(|(name, _)| parameter(name)).collect()
}

/// A key of a query, none of which is needed.
fn asked((name, schema): (&String, &Value)) -> Value {
    let is_number = schema["type"][0] == "integer";
    let schema = match is_number {
        true => json!({ "type": "integer", "minimum": 0 }),
        false => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": "query", "required": false, "schema": schema })
}

fn parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(path: &str, method: &str) -> Vec<String> {
        let responses = openapi()["paths"][path][method]["responses"].clone();
        responses.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn what_is_told_by_another_name_in_an_upgrade_and_of_a_full_disk_is_described() {
        let service = "/api/services/{service}";
        assert_eq!(statuses(service, "get"), ["200", "400", "404", "421"]);
        assert_eq!(statuses(service, "post"), ["200", "400", "401", "404", "421", "422", "503"]);
        assert_eq!(statuses("/api/reload", "post"), ["200", "400", "401", "421", "422", "503"]);
        let purge = statuses("/api/cache/purge", "post");
        assert_eq!(purge, ["200", "400", "401", "421", "422", "500"]);
        assert_eq!(statuses("/readyz", "get"), ["200", "400", "421", "503"]);
        assert_eq!(statuses("/metrics", "get"), ["200", "400", "421", "503"], "too many at once");
        assert_eq!(statuses("/api/state", "get"), ["200", "400", "421"], "400 without `Host`");
    }

    #[test]
    fn metrics_are_described_in_both_their_formats() {
        let content = &openapi()["paths"]["/metrics"]["get"]["responses"]["200"]["content"];
        for of_type in ["text/plain", "application/openmetrics-text"] {
            assert!(!content[of_type].is_null(), "{content}");
        }
    }
}
