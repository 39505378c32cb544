//! celld-deploy.
