//! celld-node.
