//! From a Wrangler project to a deployment in a bucket: configuration, bundling, manifest, upload.

pub mod manifest;
