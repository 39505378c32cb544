//! From the namespaces that a script has, and the migrations of its project, to those it will have.
//!
//! A namespace key is given once, when a migration creates the class; the class's cells live under
//! it. A rename keeps the key, and a key that was used once is never given again, so that a new
//! class can't find the data of a deleted one.

use std::collections::{BTreeMap, BTreeSet};

use celld_core::NamespaceKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{
    Code, ConfigErrors, Diagnostic, DurableBinding, Migration, Rename, Severity, Warning,
};

mod help;

/// The Durable Object classes of a script, as its pointer records them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Class name to namespace.
    pub classes: BTreeMap<String, Namespace>,
    /// Tags of the migrations that were applied, oldest first.
    pub applied: Vec<String>,
    /// Namespaces of deleted classes. Their keys are never given again.
    pub retired: Vec<Retired>,
}

impl Registry {
    /// The tag of the last migration that was applied.
    pub fn last_tag(&self) -> Option<&str> {
        self.applied.last().map(String::as_str)
    }
}

/// The namespace of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Where the class's cells live.
    #[serde(with = "crate::manifest::key_text")]
    pub key: NamespaceKey,
    /// Created by `new_sqlite_classes`; else only the key-value API is offered.
    pub sqlite: bool,
    /// Created without a migration, by `celld dev`. A migration that creates the class takes it over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implicit: bool,
}

/// The namespace of a class that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retired {
    /// The class's name when it was deleted.
    pub class: String,
    /// Where its cells live; their data is to be dropped.
    #[serde(with = "crate::manifest::key_text")]
    pub key: NamespaceKey,
}

/// What to do about a class that is bound and that no migration creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implicit {
    /// Create it with SQLite and warn: for local development, where Wrangler does the same. Migrations
    /// may then be rewritten too; classes keep their data by their names.
    Allow,
    /// Refuse: for deployments.
    Refuse,
}

/// What migrating comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationPlan {
    /// The classes afterwards.
    pub registry: Registry,
    /// Tags that are applied by it, oldest first.
    pub tags: Vec<String>,
    /// Classes that it creates, with their keys.
    pub created: Vec<(String, NamespaceKey)>,
    /// Classes that it renames: old and new name.
    pub renamed: Vec<(String, String)>,
    /// Namespaces of classes that it deletes, whose data is to be dropped.
    pub dropped: Vec<Retired>,
    /// What the author should know.
    pub warnings: Vec<Warning>,
}

/// Computes what the classes of `script` become.
///
/// `current` are those recorded at the script's pointer, `migrations` and `bound` those of the project.
///
/// # Errors
/// Migrations that contradict what was applied or each other, and classes that are bound but that
/// no migration creates.
pub fn plan(
    script: &str,
    current: &Registry,
    migrations: &[Migration],
    bound: &[DurableBinding],
    implicit: Implicit,
) -> Result<MigrationPlan, ConfigErrors> {
    let strict = pending(current, migrations).and_then(|steps| run(script, current, steps));
    let mut plan = match (strict, implicit) {
        (Ok(plan), _) => plan,
        (Err(errors), Implicit::Refuse) => return Err(errors),
        (Err(_), Implicit::Allow) => rewritten(script, current, migrations)?,
    };
    create_bound(script, &mut plan, migrations, bound, implicit)?;
    Ok(plan)
}

/// The migrations that are not applied yet.
fn pending<'m>(
    current: &Registry,
    migrations: &'m [Migration],
) -> Result<&'m [Migration], ConfigErrors> {
    let (Some(last), Some(newest)) = (current.last_tag(), migrations.last()) else {
        return Ok(migrations);
    };
    let Some(at) = migrations
        .iter()
        .position(|migration| migration.tag == last)
    else {
        let message = format!(
            "the migration `{last}`, the last one applied to this script, is not in `migrations`"
        );
        let help = "put it back where it was: applied migrations stay in the list, new ones are added at its end";
        return Err(one(newest.origin.finding(
            Severity::Error,
            Code::Migration,
            message,
            help.into(),
        )));
    };
    let was_applied = |migration: &&Migration| current.applied.contains(&migration.tag);
    let early = migrations[..at]
        .iter()
        .filter(|migration| !was_applied(migration))
        .map(|migration| {
            let message = format!(
                "the migration `{}` stands before `{last}`, which is applied already",
                migration.tag
            );
            migration.origin.finding(
                Severity::Error,
                Code::Migration,
                message,
                "move it to the end of `migrations`".into(),
            )
        });
    let late = migrations[at + 1..].iter().filter(was_applied).map(|migration| {
        let message = format!("the migration `{}` was applied before `{last}`, but stands after it", migration.tag);
        let help = "restore the order in which they were applied, or give a new migration a tag of its own";
        migration.origin.finding(Severity::Error, Code::Migration, message, help.into())
    });
    let errors: Vec<_> = early.chain(late).collect();
    if errors.is_empty() {
        Ok(&migrations[at + 1..])
    } else {
        Err(ConfigErrors {
            errors,
            warnings: Vec::new(),
        })
    }
}

/// Applies migrations in order.
fn run(
    script: &str,
    current: &Registry,
    steps: &[Migration],
) -> Result<MigrationPlan, ConfigErrors> {
    let mut plan = MigrationPlan {
        registry: current.clone(),
        tags: Vec::new(),
        created: Vec::new(),
        renamed: Vec::new(),
        dropped: Vec::new(),
        warnings: Vec::new(),
    };
    let mut errors = Vec::new();
    for step in steps {
        plan.apply(script, step, |message, help| {
            let message = format!("migration `{}`: {message}", step.tag);
            let help = help.to_owned();
            let code = Code::Migration;
            errors.push(step.origin.finding(Severity::Error, code, message, help));
        });
    }
    if errors.is_empty() {
        Ok(plan)
    } else {
        Err(ConfigErrors {
            errors,
            warnings: Vec::new(),
        })
    }
}

impl MigrationPlan {
    /// Applies one migration: first what it deletes, then renames, then creates. `fail` gets a
    /// message and a next step for every part that does not fit.
    fn apply(&mut self, script: &str, step: &Migration, mut fail: impl FnMut(String, &str)) {
        for class in &step.deleted_classes {
            if !self.delete(class) {
                fail(
                    format!("it deletes `{class}`, which does not exist"),
                    "remove it from `deleted_classes`",
                );
            }
        }
        for Rename { from, to } in &step.renamed_classes {
            if self.registry.classes.contains_key(to) {
                fail(
                    format!("it renames `{from}` to `{to}`, which exists already"),
                    "choose another name, or delete that class first",
                );
            } else if !self.rename(from, to) {
                fail(
                    format!("it renames `{from}`, which does not exist"),
                    "correct `from`, or create `to` by `new_sqlite_classes` instead",
                );
            }
        }
        let plain = step.new_classes.iter().map(|class| (class, false));
        let sqlite = step.new_sqlite_classes.iter().map(|class| (class, true));
        for (class, sqlite) in plain.chain(sqlite) {
            if !self.create(script, class, sqlite) {
                fail(
                    format!("it creates `{class}`, which exists already"),
                    "remove it from the migration",
                );
            }
        }
        self.registry.applied.push(step.tag.clone());
        self.tags.push(step.tag.clone());
    }

    fn create(&mut self, script: &str, class: &str, sqlite: bool) -> bool {
        if let Some(existing) = self.registry.classes.get_mut(class) {
            let adopted = existing.implicit;
            if adopted {
                (existing.implicit, existing.sqlite) = (false, sqlite);
            }
            return adopted;
        }
        let key = new_key(script, class, &self.registry);
        self.created.push((class.to_owned(), key.clone()));
        self.registry.classes.insert(
            class.to_owned(),
            Namespace {
                key,
                sqlite,
                implicit: false,
            },
        );
        true
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(mut namespace) = self.registry.classes.remove(from) else {
            return false;
        };
        namespace.implicit = false;
        self.registry.classes.insert(to.to_owned(), namespace);
        self.renamed.push((from.to_owned(), to.to_owned()));
        true
    }

    fn delete(&mut self, class: &str) -> bool {
        let Some(namespace) = self.registry.classes.remove(class) else {
            return false;
        };
        let retired = Retired {
            class: class.to_owned(),
            key: namespace.key,
        };
        self.registry.retired.push(retired.clone());
        self.dropped.push(retired);
        true
    }
}

/// For development: the project's migrations were changed after they had been applied. Runs them
/// afresh, and lets classes keep their data by name. Nothing is dropped: a class that is gone may
/// come back with the next edit.
fn rewritten(
    script: &str,
    current: &Registry,
    migrations: &[Migration],
) -> Result<MigrationPlan, ConfigErrors> {
    let fresh = run(script, &Registry::default(), migrations)?;
    let mut registry = Registry {
        applied: fresh.registry.applied.clone(),
        ..current.clone()
    };
    for namespace in registry.classes.values_mut() {
        namespace.implicit = true;
    }
    let mut created = Vec::new();
    for (class, wanted) in &fresh.registry.classes {
        if !registry.classes.contains_key(class) {
            // A class that was renamed has the key of its first name.
            let earlier = registry.classes.iter().find(|(name, namespace)| {
                namespace.key == wanted.key && !fresh.registry.classes.contains_key(*name)
            });
            let key = match earlier
                .map(|(name, _)| name.clone())
                .and_then(|name| registry.classes.remove(&name))
            {
                Some(namespace) => namespace.key,
                None => {
                    let key = new_key(script, class, &registry);
                    created.push((class.clone(), key.clone()));
                    key
                }
            };
            registry.classes.insert(
                class.clone(),
                Namespace {
                    key,
                    ..wanted.clone()
                },
            );
        } else if let Some(namespace) = registry.classes.get_mut(class) {
            (namespace.implicit, namespace.sqlite) = (false, wanted.sqlite);
        }
    }
    let message =
        "`migrations` do not continue those applied before: classes keep their data by their names"
            .to_owned();
    let help = "a deployment refuses this; there, applied migrations stay as they are and new ones are added at the end".to_owned();
    let origin = migrations
        .last()
        .map(|migration| migration.origin.clone())
        .unwrap_or_default();
    let warnings = vec![Warning(origin.finding(
        Severity::Warning,
        Code::Migration,
        message,
        help,
    ))];
    Ok(MigrationPlan {
        registry,
        tags: fresh.tags,
        created,
        renamed: Vec::new(),
        dropped: Vec::new(),
        warnings,
    })
}

/// Sees to classes that are bound but that no migration creates.
fn create_bound(
    script: &str,
    plan: &mut MigrationPlan,
    migrations: &[Migration],
    bound: &[DurableBinding],
    implicit: Implicit,
) -> Result<(), ConfigErrors> {
    let mut seen = BTreeSet::new();
    let missing: Vec<&DurableBinding> = bound
        .iter()
        .filter(|binding| {
            !plan.registry.classes.contains_key(&binding.class_name)
                && seen.insert(&binding.class_name)
        })
        .collect();
    let names: Vec<&str> = missing
        .iter()
        .map(|binding| binding.class_name.as_str())
        .collect();
    let mut errors = Vec::new();
    for binding in &missing {
        let finding = |severity, message| {
            binding.origin.finding(
                severity,
                Code::Migration,
                message,
                help::add_migration(&binding.origin.file, migrations, &names),
            )
        };
        let class = &binding.class_name;
        match implicit {
            Implicit::Refuse => {
                errors.push(finding(Severity::Error, help::not_created(class, plan)))
            }
            Implicit::Allow => {
                let message = format!(
                    "no migration creates the class `{class}`: it is created with SQLite for local development"
                );
                plan.warnings
                    .push(Warning(finding(Severity::Warning, message)));
                let key = new_key(script, class, &plan.registry);
                plan.created.push((class.clone(), key.clone()));
                plan.registry.classes.insert(
                    class.clone(),
                    Namespace {
                        key,
                        sqlite: true,
                        implicit: true,
                    },
                );
            }
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ConfigErrors {
            errors,
            warnings: Vec::new(),
        })
    }
}

/// A key that no class of the script has or had: `<script>-<class>`, then `<script>-<class>-2` and
/// so on. Two scripts never share one, as a class name has no `-` and does not begin with a digit.
fn new_key(script: &str, class: &str, registry: &Registry) -> NamespaceKey {
    /// Leaves room for a number within the 128 bytes of a key.
    const BASE_MAX_BYTES: usize = 112;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut base: String = format!("{script}-{class}");
    if base.len() > BASE_MAX_BYTES || !base.chars().all(plain) {
        // Distinct names must not meet in one key because they were cut or spelled in ASCII.
        let digest = hex::encode(Sha256::digest(base.as_bytes()));
        base = base
            .chars()
            .map(|c| if plain(c) { c } else { '_' })
            .take(BASE_MAX_BYTES - 13)
            .collect();
        base = format!("{base}.{}", &digest[..12]);
    }
    let live = registry.classes.values().map(|namespace| &namespace.key);
    let used: BTreeSet<&NamespaceKey> = live
        .chain(registry.retired.iter().map(|retired| &retired.key))
        .collect();
    let numbered = (2u64..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone())
        .chain(numbered)
        .map(|text| {
            NamespaceKey::new(&text).expect("the characters and the length fit by construction")
        })
        .find(|key| !used.contains(key))
        .expect("the registry holds fewer keys than there are numbers")
}

fn one(error: Diagnostic) -> ConfigErrors {
    ConfigErrors {
        errors: vec![error],
        warnings: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
