//! That ids depend on content alone, and that only whole manifests of this version are read.

use proptest::prelude::*;

use super::*;

fn sample() -> Deployment {
    let module = |specifier: &str, kind, text: &str| ModuleEntry {
        specifier: specifier.into(),
        kind,
        sha256: BlobHash::of(text.as_bytes()),
        bytes: text.len() as u64,
        source_map: None,
    };
    let key = NamespaceKey::new("w-A").unwrap();
    Deployment {
        format: FORMAT.into(),
        script: "w".into(),
        main_module: "index.js".into(),
        modules: vec![
            module("index.js", ModuleKind::EsModule, "x"),
            module("a/b.wasm", ModuleKind::CompiledWasm, "y"),
        ],
        compatibility_date: "2026-01-01".into(),
        compatibility_flags: vec!["nodejs_compat".into()],
        bindings: BTreeMap::from([
            (
                "A".into(),
                Binding::DurableObject {
                    class_name: "A".into(),
                    namespace: key.clone(),
                },
            ),
            (
                "J".into(),
                Binding::Json {
                    value: serde_json::json!({"z": 1, "a": [null]}),
                },
            ),
            (
                "S".into(),
                Binding::Service {
                    entrypoint: None,
                    props: None,
                },
            ),
            (
                "T".into(),
                Binding::Text {
                    text: "top secret".into(),
                },
            ),
        ]),
        classes: BTreeMap::from([(
            "A".into(),
            ClassEntry {
                namespace: key,
                sqlite: true,
            },
        )]),
        limits: Limits { cpu_ms: Some(50) },
        crons: vec!["* * * * *".into()],
        assets: None,
    }
}

#[test]
fn a_manifest_comes_back_with_the_same_id() {
    let deployment = sample();
    let json = deployment.to_json();
    let back = Deployment::from_json(&json).unwrap();
    assert_eq!((back.to_json(), back.id()), (json.clone(), deployment.id()));
    assert_eq!(back, deployment);
    assert_eq!(
        deployment.id().to_string(),
        hex::encode(Sha256::digest(&json))[..32]
    );
    assert_eq!(deployment.id().to_string().parse(), Ok(deployment.id()));
}

/// A change of this text changes the ids of all deployments: raise the format's version with it.
#[test]
fn the_canonical_text_is_stable() {
    let text = String::from_utf8(sample().to_json()).unwrap();
    let expected = concat!(
        r#"{"format":"celld.deployment.v1","script":"w","main_module":"index.js","modules":[{"specifier":"index.js","kind":"esm","#,
        r#""sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","bytes":1},{"specifier":"a/b.wasm","kind":"wasm","#,
        r#""sha256":"a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa","bytes":1}],"compatibility_date":"2026-01-01","#,
        r#""compatibility_flags":["nodejs_compat"],"bindings":{"A":{"type":"durable_object","class_name":"A","namespace":"w-A"},"#,
        r#""J":{"type":"json","value":{"z":1,"a":[null]}},"S":{"type":"service"},"T":{"type":"text","text":"top secret"}},"#,
        r#""classes":{"A":{"namespace":"w-A","sqlite":true}},"limits":{"cpu_ms":50},"crons":["* * * * *"]}"#,
    );
    assert_eq!(text, expected);
}

#[test]
fn every_part_counts_for_the_id() {
    let id = sample().id();
    let changes: [fn(&mut Deployment); 6] = [
        |it| it.modules[0].sha256 = BlobHash::of(b"other"),
        |it| it.modules[0].source_map = Some(BlobRef::of(b"map")),
        |it| it.compatibility_flags.clear(),
        |it| it.limits.cpu_ms = None,
        |it| it.crons.clear(),
        |it| drop(it.bindings.remove("T")),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut changed = sample();
        change(&mut changed);
        assert_ne!(changed.id(), id, "change {index}");
    }
}

#[test]
fn other_formats_are_refused_by_name() {
    let text = br#"{"format": "celld.deployment.v2", "what": "ever"}"#;
    let error = Deployment::from_json(text).unwrap_err();
    assert_eq!(error, ManifestError::Format("celld.deployment.v2".into()));
    assert!(error.to_string().contains("celld.deployment.v2"));
    assert!(matches!(
        Deployment::from_json(b"{}"),
        Err(ManifestError::Json(_))
    ));
    assert!(matches!(
        Deployment::from_json(b"<xml>"),
        Err(ManifestError::Json(_))
    ));
    let json = String::from_utf8(sample().to_json()).unwrap();
    for field in [
        "\"crons\"",
        "\"kind\"",
        "\"text\"",
        "\"sqlite\"",
        "\"cpu_ms\"",
    ] {
        let unknown = json.replacen(field, &format!("\"extra\":1,{field}"), 1);
        assert!(
            matches!(
                Deployment::from_json(unknown.as_bytes()),
                Err(ManifestError::Json(_))
            ),
            "{field}"
        );
    }
}

#[test]
fn contradictions_are_refused() {
    let changes: [fn(&mut Deployment); 8] = [
        |it| it.main_module = "none.js".into(),
        |it| it.main_module = "a/b.wasm".into(),
        |it| it.modules[1].specifier = "index.js".into(),
        |it| it.modules[1].specifier = "../b.wasm".into(),
        |it| it.modules[1].specifier = "/b.wasm".into(),
        |it| it.modules[1].bytes = u64::MAX,
        |it| it.classes.clear(),
        |it| it.modules.clear(),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut changed = sample();
        change(&mut changed);
        let result = Deployment::from_json(&changed.to_json());
        assert!(
            matches!(result, Err(ManifestError::Inconsistent(_))),
            "change {index}: {result:?}"
        );
    }
}

#[test]
fn variables_are_not_shown() {
    assert!(!format!("{:?}", sample()).contains("secret"));
}

#[test]
fn hex_has_one_spelling() {
    let id = sample().id().to_string();
    assert!(
        id.to_uppercase().parse::<DeploymentId>().is_err()
            || id.bytes().all(|b| b.is_ascii_digit())
    );
    assert!(id[1..].parse::<DeploymentId>().is_err());
    assert!("zz".repeat(16).parse::<DeploymentId>().is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Deployment::from_json(&bytes);
    }

    #[test]
    fn no_damaged_manifest_is_read_as_another(at in 0usize..900, byte in any::<u8>()) {
        let original = sample().to_json();
        let mut damaged = original.clone();
        let at = at % damaged.len();
        damaged[at] = byte;
        if let Ok(read) = Deployment::from_json(&damaged) {
            // White space and escapes aside, what is read is what is written.
            prop_assert!(damaged == original || read.id() != sample().id() || read == sample());
        }
    }
}
