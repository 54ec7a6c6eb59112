//! Routes that listeners share: lists with a name, and the key of a listener that may name one.

use std::{borrow::Cow, fmt, sync::Arc};

use loadline_spanned::{At, NAME_PATTERN, Textual as _, read_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use super::Route;
use crate::value::label::Name;

/// A list of routes that several listeners may hold.
#[derive(Clone, Debug)]
pub(crate) struct RouteList(pub(crate) Arc<[At<Route>]>);

impl RouteList {
    /// Its routes, to be changed; none once listeners share it.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = &mut At<Route>> {
        Arc::get_mut(&mut self.0).into_iter().flatten()
    }
}

impl<'de> Deserialize<'de> for RouteList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|list| Self(list.into()))
    }
}

impl JsonSchema for RouteList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RouteList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let route = generator.subschema_for::<Route>();
        let title = "a route, as in `[[listener.routes]]`";
        json_schema!({ "type": "array", "items": { "title": title, "allOf": [route] } })
    }
}

/// The routes of a listener: its own, or those with a name.
#[derive(Clone, Debug)]
pub(crate) enum ListenerRoutes {
    List(RouteList),
    Named(Name),
}

impl ListenerRoutes {
    /// The routes; none while they are a name.
    pub(crate) fn list(&self) -> &[At<Route>] {
        match self {
            Self::List(list) => &list.0,
            Self::Named(_) => &[],
        }
    }
}

impl<'de> Deserialize<'de> for ListenerRoutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RoutesVisitor)
    }
}

struct RoutesVisitor;

impl<'de> Visitor<'de> for RoutesVisitor {
    type Value = ListenerRoutes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of routes, or {}", Name::expected())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        read_text(text).map(ListenerRoutes::Named)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        RouteList::deserialize(SeqAccessDeserializer::new(seq)).map(ListenerRoutes::List)
    }
}

impl JsonSchema for ListenerRoutes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ListenerRoutes".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["array", "string"],
            "title": "a list of tables, or a name of `[routes]`",
            "pattern": NAME_PATTERN,
            "items": generator.subschema_for::<Route>(),
        })
    }
}
