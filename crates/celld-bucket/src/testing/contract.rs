//! What every bucket must keep, as one function that runs against any of them.

use std::fmt;

use bytes::Bytes;

use crate::bucket::{Bucket, BucketError, Condition, Etag, PutOutcome};
use crate::key::Key;

/// A bucket broke the contract.
#[derive(Debug, thiserror::Error)]
pub enum ContractBroken {
    /// It answered wrongly.
    #[error("the bucket breaks the contract: {rule}: {seen}")]
    Rule {
        /// The rule.
        rule: &'static str,
        /// What it answered.
        seen: String,
    },
    /// It failed.
    #[error(transparent)]
    Failed(#[from] BucketError),
}

/// Runs every check on an empty bucket and leaves it empty. The first broken rule ends it.
pub async fn bucket_contract(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    absence(bucket).await?;
    creates(bucket).await?;
    overwrites(bucket).await?;
    equal_bytes(bucket).await?;
    ranges(bucket).await?;
    names(bucket).await?;
    pages(bucket).await?;
    races(bucket).await
}

fn key(text: &str) -> Key {
    Key::new(text).expect("the contract's keys are valid")
}

fn rule(rule: &'static str, holds: bool, seen: impl fmt::Debug) -> Result<(), ContractBroken> {
    if holds {
        Ok(())
    } else {
        Err(ContractBroken::Rule {
            rule,
            seen: format!("{seen:?}"),
        })
    }
}

async fn must_put(
    bucket: &dyn Bucket,
    at: &Key,
    bytes: &[u8],
    condition: Condition,
) -> Result<Etag, ContractBroken> {
    match bucket
        .put(at, Bytes::copy_from_slice(bytes), condition.clone())
        .await?
    {
        PutOutcome::Done(etag) => Ok(etag),
        PutOutcome::Conflict => Err(ContractBroken::Rule {
            rule: "a put whose condition holds is done",
            seen: format!("{condition:?}"),
        }),
    }
}

async fn must_conflict(
    bucket: &dyn Bucket,
    at: &Key,
    condition: Condition,
    what: &'static str,
) -> Result<(), ContractBroken> {
    let before = bucket.get(at).await?;
    let outcome = bucket
        .put(at, Bytes::from_static(b"must not be seen"), condition)
        .await?;
    rule(what, outcome == PutOutcome::Conflict, outcome)?;
    let after = bucket.get(at).await?;
    rule("a conflict changes nothing", before == after, after)
}

async fn absence(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/absent");
    let read = bucket.get(&at).await?;
    rule("what was never put is absent", read.is_none(), read)?;
    let read = bucket.get_range(&at, 0..1).await?;
    rule(
        "a range of what was never put is absent",
        read.is_none(),
        read,
    )?;
    bucket.delete(&at).await?;
    let listed = bucket.list("contract/", None, 10).await?;
    rule(
        "an empty bucket lists nothing",
        listed.objects.is_empty() && !listed.truncated,
        listed,
    )
}

async fn creates(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/create/object");
    let etag = must_put(bucket, &at, b"first", Condition::IfAbsent).await?;
    let read = bucket.get(&at).await?;
    let whole = read
        .as_ref()
        .is_some_and(|object| object.bytes == "first" && object.etag == etag);
    rule("a completed put is read back with its tag", whole, read)?;
    must_conflict(
        bucket,
        &at,
        Condition::IfAbsent,
        "a create of what exists is a conflict",
    )
    .await?;
    bucket.delete(&at).await?;
    let read = bucket.get(&at).await?;
    rule("what was deleted is absent", read.is_none(), read)?;
    must_conflict(
        bucket,
        &at,
        Condition::IfMatch(etag),
        "a tag of what was deleted is a conflict",
    )
    .await?;
    must_put(bucket, &at, b"", Condition::IfAbsent).await?;
    let read = bucket.get(&at).await?;
    rule(
        "an empty object is not an absent one",
        read.as_ref().is_some_and(|o| o.bytes.is_empty()),
        read,
    )?;
    bucket.delete(&at).await?;
    Ok(())
}

async fn overwrites(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/overwrite");
    let first = must_put(bucket, &at, b"1", Condition::None).await?;
    let second = must_put(bucket, &at, b"2", Condition::IfMatch(first.clone())).await?;
    must_conflict(
        bucket,
        &at,
        Condition::IfMatch(first),
        "a stale tag is a conflict",
    )
    .await?;
    let third = must_put(bucket, &at, b"3", Condition::None).await?;
    must_conflict(
        bucket,
        &at,
        Condition::IfMatch(second),
        "an unconditional put makes tags stale",
    )
    .await?;
    must_conflict(
        bucket,
        &at,
        Condition::IfMatch(Etag::new("nonsense")),
        "an unknown tag is a conflict",
    )
    .await?;
    must_put(bucket, &at, b"4", Condition::IfMatch(third)).await?;
    bucket.delete(&at).await?;
    Ok(())
}

async fn equal_bytes(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/equal");
    let first = must_put(bucket, &at, b"same", Condition::None).await?;
    let second = must_put(bucket, &at, b"same", Condition::IfMatch(first.clone())).await?;
    rule(
        "two writes of equal bytes have different tags",
        first != second,
        &second,
    )?;
    must_conflict(
        bucket,
        &at,
        Condition::IfMatch(first),
        "a stale tag is a conflict though the bytes are equal",
    )
    .await?;
    bucket.delete(&at).await?;
    Ok(())
}

async fn ranges(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/range");
    must_put(bucket, &at, b"0123456789", Condition::None).await?;
    for (range, wanted) in [
        (0..10, "0123456789"),
        (2..5, "234"),
        (8..99, "89"),
        (10..11, ""),
        (99..u64::MAX, ""),
        (3..3, ""),
    ] {
        let read = bucket.get_range(&at, range).await?;
        rule(
            "a range is what the object has there",
            read.as_ref().is_some_and(|bytes| bytes == wanted),
            read,
        )?;
    }
    bucket.delete(&at).await?;
    Ok(())
}

async fn names(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let long = format!("contract/names/{}", "n".repeat(250));
    let deep = format!(
        "contract/names/{}z",
        format!("{}/", "d".repeat(39)).repeat(20)
    );
    let texts = [
        "contract/names/a",
        "contract/names/a/b",
        "contract/names/a.b",
        "contract/names/..c",
        &long,
        &deep,
    ];
    for text in texts {
        must_put(bucket, &key(text), text.as_bytes(), Condition::IfAbsent).await?;
    }
    for text in texts {
        let read = bucket.get(&key(text)).await?;
        rule(
            "objects of similar names do not touch",
            read.as_ref().is_some_and(|o| o.bytes == text.as_bytes()),
            read,
        )?;
        bucket.delete(&key(text)).await?;
    }
    for prefix in ["/", "a//b", "../", "a b"] {
        let listed = bucket.list(prefix, None, 1).await;
        rule(
            "a bad prefix is refused as such",
            matches!(listed, Err(BucketError::BadKey(_))),
            listed,
        )?;
    }
    Ok(())
}

async fn pages(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let mut all: Vec<Key> = ["-", ".", "0", "/x", "/x/y", "a", "A", "_", "/z", ""]
        .iter()
        .map(|tail| key(&format!("contract/list/p{tail}")))
        .collect();
    for at in &all {
        must_put(bucket, at, at.as_str().as_bytes(), Condition::IfAbsent).await?;
    }
    must_put(bucket, &key("contract/listing"), b"", Condition::IfAbsent).await?;
    all.sort();
    for limit in [1, 2, 3, 1_000] {
        let mut seen = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = bucket
                .list("contract/list/", after.as_ref().map(Key::as_str), limit)
                .await?;
            rule(
                "a page holds at most its limit",
                page.objects.len() <= limit,
                &page,
            )?;
            rule(
                "a truncated page is not empty",
                !page.truncated || !page.objects.is_empty(),
                &page,
            )?;
            let sized = page
                .objects
                .iter()
                .all(|o| o.size == o.key.as_str().len() as u64);
            rule("sizes are those of the content", sized, &page)?;
            seen.extend(page.objects.into_iter().map(|o| o.key));
            after = seen.last().cloned();
            if !page.truncated {
                break;
            }
        }
        rule(
            "pages give every key once, in byte order",
            seen == all,
            &seen,
        )?;
    }
    let part = bucket.list("contract/list/p/", None, 10).await?;
    rule(
        "a prefix selects",
        part.objects.len() == 3 && !part.truncated,
        part,
    )?;
    let part = bucket
        .list("contract/list/p/x", Some("contract/list/p/x"), 10)
        .await?;
    rule("start_after is exclusive", part.objects.len() == 1, part)?;
    all.push(key("contract/listing"));
    for at in &all {
        bucket.delete(at).await?;
    }
    Ok(())
}

/// Of concurrent conditional writes exactly one is done.
async fn races(bucket: &dyn Bucket) -> Result<(), ContractBroken> {
    let at = key("contract/race");
    let mut condition = Condition::IfAbsent;
    for _ in 0..5 {
        let tries = (0..8).map(|n| bucket.put(&at, Bytes::from(vec![n]), condition.clone()));
        let mut winners = Vec::new();
        for (n, outcome) in futures::future::try_join_all(tries)
            .await?
            .into_iter()
            .enumerate()
        {
            if let PutOutcome::Done(etag) = outcome {
                winners.push((n, etag));
            }
        }
        rule(
            "one of several conditional writes wins",
            winners.len() == 1,
            &winners,
        )?;
        let read = bucket.get(&at).await?;
        let (n, etag) = winners.remove(0);
        let won = read
            .as_ref()
            .is_some_and(|o| o.bytes[..] == [n as u8] && o.etag == etag);
        rule("the winner's bytes are there", won, read)?;
        condition = Condition::IfMatch(etag);
    }
    bucket.delete(&at).await?;
    Ok(())
}
