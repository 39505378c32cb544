//! Whole projects, made in a temporary directory, through [`super::bundle`].

mod additional;
mod errors;
mod modules;
mod resolution;
mod support;
mod watching;
