//! From a Wrangler project to a deployment in a bucket.
//!
//! [`config::Project::load`] reads the configuration, [`dotenv::apply`] adds what only local
//! development has, [`bundle::bundle`] makes modules of the sources, [`upload::Draft`] puts both
//! together, and [`upload::upload`] makes the result current in a bucket. A node reads it back with
//! [`upload::read_pointer`] and [`upload::fetch_deployment`]. Nothing here runs code.

pub mod assets;
pub mod bundle;
pub mod config;
pub mod dotenv;
pub mod manifest;
pub mod migrations;
pub mod upload;
