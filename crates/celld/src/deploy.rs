//! `celld deploy`: builds a project and makes it the current deployment in a bucket.

use std::fmt::Write;
use std::sync::Arc;

use celld_bucket::{Bucket, BucketUrl};
use celld_deploy::bundle::Bundle;
use celld_deploy::migrations::{Implicit, Registry};
use celld_deploy::upload::{self, Draft, UploadOptions, UploadReport};
use serde_json::json;

use crate::cli::DeployArgs;
use crate::errors::{self, Failure};
use crate::excerpt::Sources;
use crate::output::Output;
use crate::table::{DIM, GOOD, HEAD, paint};
use crate::{adopt, check, project, report};

/// Runs the command.
pub async fn deploy(arguments: DeployArgs, output: &Output) -> Result<(), Failure> {
    let url = arguments.bucket.as_deref().map(bucket_url).transpose()?;
    let loaded = project::load(&arguments.project, arguments.env.as_deref(), false)?;
    report::config_warnings(output, &loaded.warnings);
    loaded
        .project
        .check_deploy()
        .map_err(|errors| report::config_failure(&errors))?;
    let bundle = project::build(&loaded.project, false)
        .await
        .map_err(|errors| report::build_failure(&errors))?;
    report::bundle_warnings(output, &bundle.warnings);
    let assets = project::assets(&loaded.project).await?;
    if let Some(assets) = &assets {
        report::config_warnings(output, &assets.warnings);
    }
    let draft = project::draft(&loaded.project, &bundle, assets.as_ref());

    // A dry run leaves no trace, so a directory that does not exist stays away.
    let absent = |url: &BucketUrl| url.directory().is_some_and(|directory| !directory.exists());
    let bucket = match url {
        Some(url) if arguments.dry_run && absent(&url) => None,
        Some(url) => Some(open(url).await?),
        None => None,
    };
    check_start(&draft, &bundle, bucket.as_deref()).await?;
    match bucket {
        Some(bucket) if !arguments.dry_run => {
            let options = UploadOptions {
                implicit: Implicit::Refuse,
            };
            let done = upload::upload(&*bucket, &draft, options)
                .await
                .map_err(report::upload_failure)?;
            report::config_warnings(output, done.warnings());
            print(&done, &arguments, output);
        }
        bucket => {
            let preview = upload::plan(bucket.as_deref(), &draft, Implicit::Refuse)
                .await
                .map_err(report::upload_failure)?;
            report::config_warnings(output, &preview.warnings);
            let text = format!(
                "{preview}\n{}\n",
                paint(DIM, "A dry run: nothing was changed.")
            );
            let value = json!({ "event": "dry_run", "plan": serde_json::to_value(&preview).unwrap_or_default() });
            output.result(&text, &value);
        }
    }
    Ok(())
}

/// Parses a bucket's URL.
pub fn bucket_url(url: &str) -> Result<BucketUrl, Failure> {
    BucketUrl::parse(url).map_err(|error| Failure::new(errors::BUCKET_URL, error.to_string()))
}

async fn open(url: BucketUrl) -> Result<Arc<dyn Bucket>, Failure> {
    let opened = tokio::task::spawn_blocking(move || url.open()).await;
    match opened {
        Ok(Ok(bucket)) => Ok(bucket),
        Ok(Err(error)) => Err(Failure::new(errors::BUCKET_URL, error.to_string())),
        Err(error) => Err(Failure::new(errors::BUCKET_URL, error.to_string())),
    }
}

/// Starts the program as the bucket would have it.
async fn check_start(
    draft: &Draft,
    bundle: &Bundle,
    bucket: Option<&dyn Bucket>,
) -> Result<(), Failure> {
    let current = match bucket {
        Some(bucket) => upload::read_pointer(bucket, draft.script())
            .await
            .map_err(|error| report::fetch_failure(&error))?,
        None => None,
    };
    let registry = current.map_or_else(Registry::default, |(pointer, _)| pointer.registry);
    let (deployment, _) = draft
        .settle(&registry, Implicit::Refuse)
        .map_err(report::upload_failure)?;
    let code = adopt::code_of(deployment.id(), &deployment, draft.modules());
    if let Err(mut failure) = check::starts(code).await {
        failure.rendered = Sources::of(&bundle.modules).excerpt(&failure.message);
        return Err(failure);
    }
    Ok(())
}

fn print(done: &UploadReport, arguments: &DeployArgs, output: &Output) {
    let mut text = String::new();
    let script = &done.deployment.script;
    let _ = if done.moved {
        writeln!(
            text,
            "{} {} {}",
            paint(GOOD, "Deployed"),
            paint(HEAD, script),
            done.id
        )
    } else {
        writeln!(
            text,
            "{} {} is the current deployment already",
            paint(HEAD, script),
            done.id
        )
    };
    let new = match done.blobs_new {
        0 => "nothing new".to_owned(),
        count => format!("{count} new ({})", bytes(done.bytes_new)),
    };
    let _ = writeln!(
        text,
        "  modules     {new}, {} there already",
        done.blobs_reused
    );
    for (class, namespace) in &done.migration.created {
        let _ = writeln!(
            text,
            "  class       {class} created, in the namespace {namespace}"
        );
    }
    for (from, to) in &done.migration.renamed {
        let _ = writeln!(text, "  class       {from} is {to} from here on");
    }
    for dropped in done.dropped() {
        let _ = writeln!(text, "  class       {} deleted", dropped.class);
    }
    if let Some(previous) = done.previous.filter(|_| done.moved) {
        let _ = writeln!(text, "  replaces    {previous}");
    }
    let bucket = arguments.bucket.as_deref().unwrap_or_default();
    let _ = writeln!(text, "  serve it    celld run --bucket {bucket}");
    let value = json!({
        "event": "deployed",
        "worker": script,
        "version": done.id,
        "previous": done.previous,
        "moved": done.moved,
        "modules_new": done.blobs_new,
        "bytes_new": done.bytes_new,
        "modules_reused": done.blobs_reused,
        "migrations": done.migration.tags,
        "classes_created": done.migration.created.iter().map(|(class, _)| class).collect::<Vec<_>>(),
    });
    output.result(&text, &value);
}

/// A size for people.
pub fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(2_048), "2.0 KiB");
        assert_eq!(bytes(3 << 20), "3.0 MiB");
    }

    #[test]
    fn a_bucket_that_this_version_lacks_is_refused_by_name() {
        let failure = bucket_url("ftp://x/y").unwrap_err();
        assert_eq!(failure.kind.code, "CD0301");
        assert!(failure.message.contains("ftp"));
    }
}
