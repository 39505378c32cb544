//! Each rule of migrating, and that keys are never given twice.

use proptest::prelude::*;

use super::*;
use crate::config::Origin;

fn step(tag: &str, new_sqlite: &[&str]) -> Migration {
    let new_sqlite_classes = new_sqlite.iter().map(|class| (*class).to_owned()).collect();
    Migration {
        tag: tag.into(),
        new_sqlite_classes,
        ..Migration::default()
    }
}

fn bound(classes: &[&str]) -> Vec<DurableBinding> {
    let binding = |class: &&str| DurableBinding {
        name: class.to_uppercase(),
        class_name: (*class).to_owned(),
        origin: Origin {
            file: "wrangler.jsonc".into(),
            ..Origin::default()
        },
    };
    classes.iter().map(binding).collect()
}

fn rename(from: &str, to: &str) -> Rename {
    Rename {
        from: from.into(),
        to: to.into(),
    }
}

fn deploy(
    current: &Registry,
    migrations: &[Migration],
    classes: &[&str],
) -> Result<MigrationPlan, ConfigErrors> {
    plan("w", current, migrations, &bound(classes), Implicit::Refuse)
}

fn dev(
    current: &Registry,
    migrations: &[Migration],
    classes: &[&str],
) -> Result<MigrationPlan, ConfigErrors> {
    plan("w", current, migrations, &bound(classes), Implicit::Allow)
}

#[track_caller]
fn key<'p>(registry: &'p Registry, class: &str) -> &'p str {
    registry.classes[class].key.as_str()
}

#[track_caller]
fn message(result: Result<MigrationPlan, ConfigErrors>) -> String {
    let errors = result.unwrap_err().errors;
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors[0].message.clone()
}

#[test]
fn a_first_deployment_creates_classes() {
    let mut v1 = step("v1", &["A"]);
    v1.new_classes = vec!["B".into()];
    let plan = deploy(&Registry::default(), &[v1], &["A", "B"]).unwrap();
    assert_eq!(
        (key(&plan.registry, "A"), key(&plan.registry, "B")),
        ("w-A", "w-B")
    );
    assert!(plan.registry.classes["A"].sqlite && !plan.registry.classes["B"].sqlite);
    assert_eq!(
        (plan.tags, plan.created.len(), plan.registry.last_tag()),
        (vec!["v1".to_owned()], 2, Some("v1"))
    );
}

#[test]
fn only_new_migrations_are_applied() {
    let steps = [step("v1", &["A"]), step("v2", &["B"])];
    let first = deploy(&Registry::default(), &steps[..1], &["A"]).unwrap();
    let second = deploy(&first.registry, &steps, &["A", "B"]).unwrap();
    assert_eq!(
        (second.tags, second.created),
        (
            vec!["v2".to_owned()],
            vec![("B".to_owned(), NamespaceKey::new("w-B").unwrap())]
        )
    );
    let third = deploy(&second.registry, &steps, &["A", "B"]).unwrap();
    assert_eq!((third.tags.len(), third.registry), (0, second.registry));
}

#[test]
fn a_rename_keeps_the_key_and_frees_the_name() {
    let mut v2 = step("v2", &["A"]);
    v2.renamed_classes = vec![rename("A", "B")];
    let plan = deploy(&Registry::default(), &[step("v1", &["A"]), v2], &["A", "B"]).unwrap();
    assert_eq!(
        (key(&plan.registry, "B"), key(&plan.registry, "A")),
        ("w-A", "w-A-2")
    );
}

#[test]
fn a_deleted_class_never_gives_its_key_away() {
    let delete = |tag: &str| Migration {
        deleted_classes: vec!["A".into()],
        ..step(tag, &[])
    };
    let steps = [
        step("v1", &["A"]),
        delete("v2"),
        step("v3", &["A"]),
        delete("v4"),
        step("v5", &["A"]),
    ];
    let plan = deploy(&Registry::default(), &steps, &["A"]).unwrap();
    assert_eq!(key(&plan.registry, "A"), "w-A-3");
    let dropped: Vec<_> = plan
        .dropped
        .iter()
        .map(|dropped| dropped.key.as_str())
        .collect();
    assert_eq!(dropped, ["w-A", "w-A-2"]);
    assert_eq!(plan.registry.retired, plan.dropped);
}

#[test]
fn one_migration_may_delete_and_create_anew() {
    let mut v2 = step("v2", &["A"]);
    v2.deleted_classes = vec!["A".into()];
    let plan = deploy(&Registry::default(), &[step("v1", &["A"]), v2], &["A"]).unwrap();
    assert_eq!(key(&plan.registry, "A"), "w-A-2");
}

#[test]
fn contradictions_are_refused() {
    let current = deploy(&Registry::default(), &[step("v1", &["A", "B"])], &[])
        .unwrap()
        .registry;
    let with = |change: fn(&mut Migration)| {
        let mut v2 = step("v2", &[]);
        change(&mut v2);
        message(deploy(&current, &[step("v1", &["A", "B"]), v2], &[]))
    };
    assert!(
        with(|m| m.new_sqlite_classes = vec!["A".into()]).contains("creates `A`, which exists")
    );
    assert!(with(|m| m.new_classes = vec!["A".into()]).contains("creates `A`, which exists"));
    assert!(
        with(|m| m.deleted_classes = vec!["C".into()])
            .contains("deletes `C`, which does not exist")
    );
    assert!(
        with(|m| m.renamed_classes = vec![rename("C", "D")])
            .contains("renames `C`, which does not exist")
    );
    assert!(with(|m| m.renamed_classes = vec![rename("A", "B")]).contains("to `B`, which exists"));
}

#[test]
fn applied_migrations_stay_in_their_order() {
    let steps = [step("v1", &["A"]), step("v2", &["B"])];
    let current = deploy(&Registry::default(), &steps, &[]).unwrap().registry;
    assert!(message(deploy(&current, &steps[..1], &[])).contains("`v2`, the last one applied"));
    let early = [step("v1", &["A"]), step("v1.5", &["C"]), step("v2", &["B"])];
    assert!(message(deploy(&current, &early, &[])).contains("`v1.5` stands before `v2`"));
    let late = [step("v2", &["B"]), step("v1", &["A"])];
    assert!(message(deploy(&current, &late, &[])).contains("`v1` was applied before `v2`"));
    // Wrangler compares the last tag only: older ones may be removed, and all of them too.
    assert!(
        deploy(&current, &steps[1..], &["A", "B"])
            .unwrap()
            .tags
            .is_empty()
    );
    assert!(deploy(&current, &[], &["A", "B"]).unwrap().tags.is_empty());
}

#[test]
fn a_bound_class_needs_a_migration_when_deployed() {
    let errors = deploy(&Registry::default(), &[], &["A", "B", "A"])
        .unwrap_err()
        .errors;
    assert_eq!(errors.len(), 2);
    assert_eq!(
        errors[0].help,
        "add: \"migrations\": [{ \"tag\": \"v1\", \"new_sqlite_classes\": [\"A\", \"B\"] }]"
    );
    let errors = deploy(&Registry::default(), &[step("v2", &["A"])], &["A", "B"])
        .unwrap_err()
        .errors;
    assert_eq!(
        errors[0].help,
        "add to the end of `migrations`: { \"tag\": \"v3\", \"new_sqlite_classes\": [\"B\"] }"
    );
    let mut toml = bound(&["A"]);
    toml[0].origin.file = "wrangler.toml".into();
    let errors = plan("w", &Registry::default(), &[], &toml, Implicit::Refuse)
        .unwrap_err()
        .errors;
    assert!(
        errors[0]
            .help
            .contains("[[migrations]]\ntag = \"v1\"\nnew_sqlite_classes = [\"A\"]")
    );
}

#[test]
fn a_bound_class_that_is_gone_says_where_it_went() {
    let mut v2 = step("v2", &[]);
    v2.deleted_classes = vec!["A".into()];
    v2.renamed_classes = vec![rename("B", "C")];
    let errors = deploy(
        &Registry::default(),
        &[step("v1", &["A", "B"]), v2],
        &["A", "B"],
    )
    .unwrap_err()
    .errors;
    assert!(errors[0].message.contains("a migration deletes it"));
    assert!(errors[1].message.contains("renames it to `C`"));
}

#[test]
fn development_creates_bound_classes_and_a_later_migration_adopts_them() {
    let first = dev(&Registry::default(), &[], &["A"]).unwrap();
    assert!(first.registry.classes["A"].implicit && first.registry.classes["A"].sqlite);
    assert!(
        first.warnings[0]
            .0
            .message
            .contains("no migration creates the class `A`")
    );
    let again = dev(&first.registry, &[], &["A"]).unwrap();
    assert!(again.warnings.is_empty() && again.registry == first.registry);
    let adopted = dev(&first.registry, &[step("v1", &["A"])], &["A"]).unwrap();
    assert!(!adopted.registry.classes["A"].implicit && adopted.created.is_empty());
    assert_eq!(key(&adopted.registry, "A"), "w-A");
}

#[test]
fn development_survives_rewritten_migrations_without_losing_data() {
    let mut v2 = step("v2", &[]);
    v2.renamed_classes = vec![rename("A", "B")];
    let before = dev(&Registry::default(), &[step("v1", &["A", "X"])], &["A"])
        .unwrap()
        .registry;
    let rewritten = [step("first", &["A", "N"]), v2];
    let after = dev(&before, &rewritten, &["B"]).unwrap();
    assert_eq!(
        (key(&after.registry, "B"), key(&after.registry, "N")),
        ("w-A", "w-N")
    );
    assert_eq!(
        (key(&after.registry, "X"), after.registry.applied.len()),
        ("w-X", 2)
    );
    assert!(after.registry.classes["X"].implicit && !after.registry.classes["B"].implicit);
    assert!(after.dropped.is_empty() && after.warnings[0].0.message.contains("do not continue"));
    let back = dev(&after.registry, &[step("v1", &["A", "X"])], &["A"]).unwrap();
    assert_eq!(
        (key(&back.registry, "A"), key(&back.registry, "X")),
        ("w-A", "w-X")
    );
    let inconsistent = [step("v1", &["A"]), step("v2", &["A"])];
    assert!(message(dev(&before, &inconsistent, &[])).contains("exists already"));
}

#[test]
fn keys_fit_whatever_the_names_are() {
    let empty = Registry::default();
    assert_eq!(
        new_key("w", "A$b", &empty).as_str().split('.').next(),
        Some("w-A_b")
    );
    assert_ne!(new_key("w", "A$b", &empty), new_key("w", "A_b", &empty));
    let (long, other) = ("a".repeat(200), format!("{}b", "a".repeat(199)));
    assert_ne!(new_key("w", &long, &empty), new_key("w", &other, &empty));
}

#[test]
fn a_registry_survives_json() {
    let registry = dev(&Registry::default(), &[step("v1", &["A"])], &["A", "B"])
        .unwrap()
        .registry;
    let json = serde_json::to_string(&registry).unwrap();
    assert_eq!(serde_json::from_str::<Registry>(&json).unwrap(), registry);
    assert!(serde_json::from_str::<Registry>(&json.replace("w-A", "../x")).is_err());
}

proptest! {
    /// Whatever happens to classes, live and retired keys stay distinct.
    #[test]
    fn keys_are_never_shared(steps in proptest::collection::vec((0..3u8, 0..4usize, 0..4usize), 0..30)) {
        const CLASSES: [&str; 4] = ["A", "B", "A$", "Ünï"];
        let mut registry = Registry::default();
        let mut migrations = Vec::new();
        for (index, (action, a, b)) in steps.into_iter().enumerate() {
            let (a, b) = (CLASSES[a].to_owned(), CLASSES[b].to_owned());
            let mut next = step(&format!("t{index}"), &[]);
            match action {
                0 => next.new_sqlite_classes.push(a),
                1 => next.deleted_classes.push(a),
                _ => next.renamed_classes.push(Rename { from: a, to: b }),
            }
            migrations.push(next);
            match deploy(&registry, &migrations, &[]) {
                Ok(plan) => registry = plan.registry,
                Err(_) => { migrations.pop(); }
            }
            let live = registry.classes.values().map(|namespace| namespace.key.clone());
            let keys: Vec<_> = live.chain(registry.retired.iter().map(|retired| retired.key.clone())).collect();
            let distinct: BTreeSet<_> = keys.iter().collect();
            prop_assert_eq!(distinct.len(), keys.len());
        }
    }
}
