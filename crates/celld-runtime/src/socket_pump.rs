//! Carries messages from a hibernatable socket to its cell, answering auto-responses on the way.
