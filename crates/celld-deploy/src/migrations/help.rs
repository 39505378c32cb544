//! What to write into the configuration so that a class exists.

use std::path::Path;

use super::MigrationPlan;
use crate::config::Migration;

/// Why a bound class does not exist, as well as that can be told.
pub(super) fn not_created(class: &str, plan: &MigrationPlan) -> String {
    if plan.dropped.iter().any(|dropped| dropped.class == class) {
        return format!("the class `{class}` is bound, but a migration deletes it");
    }
    match plan.renamed.iter().find(|(from, _)| from == class) {
        Some((_, to)) => {
            format!("the class `{class}` is bound, but a migration renames it to `{to}`")
        }
        None => format!("the class `{class}` is bound, but no migration creates it"),
    }
}

/// The migration to add, in the syntax of the file.
pub(super) fn add_migration(file: &Path, migrations: &[Migration], classes: &[&str]) -> String {
    let tag = free_tag(migrations);
    let list = classes
        .iter()
        .map(|class| format!("\"{class}\""))
        .collect::<Vec<_>>()
        .join(", ");
    if file
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        return format!(
            "add to the end of the file:\n\n[[migrations]]\ntag = \"{tag}\"\nnew_sqlite_classes = [{list}]\n"
        );
    }
    let entry = format!("{{ \"tag\": \"{tag}\", \"new_sqlite_classes\": [{list}] }}");
    if migrations.is_empty() {
        format!("add: \"migrations\": [{entry}]")
    } else {
        format!("add to the end of `migrations`: {entry}")
    }
}

/// `v1`, `v2`, … whichever comes after the number of migrations and is free.
fn free_tag(migrations: &[Migration]) -> String {
    let taken = |tag: &String| migrations.iter().any(|migration| migration.tag == *tag);
    let mut tags = (migrations.len() + 1..).map(|number| format!("v{number}"));
    tags.find(|tag| !taken(tag)).unwrap_or_default()
}
