//! A bucket in memory whose faults a test scripts.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{
    Answer, Bucket, BucketError, Condition, Etag, ListedObject, Listing, Object, Operation,
    PutOutcome,
};
use crate::key::{Key, check_prefix};

/// What a fault does to the request that it hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Applied, but the answer is lost: an ambiguous failure.
    LoseReply,
    /// Not applied: a definite failure.
    FailBefore,
    /// Not applied, but the caller can't know: an ambiguous failure.
    LoseRequest,
    /// Answered after this time.
    Delay(Duration),
    /// Lists show the keys as they were when the fault was scripted.
    StaleList,
    /// Puts and their conditions: the put is applied whatever its condition says.
    IgnoreCondition,
}

/// A scripted fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operation that it hits.
    pub operation: Operation,
    /// Only keys (or list prefixes) that begin with this.
    pub key_prefix: String,
    /// How many requests it hits; `u32::MAX` for all.
    pub times: u32,
    /// What it does.
    pub effect: Effect,
}

impl Fault {
    /// Hits the next request of this kind.
    pub fn once(operation: Operation, key_prefix: &str, effect: Effect) -> Self {
        Self {
            operation,
            key_prefix: key_prefix.to_owned(),
            times: 1,
            effect,
        }
    }

    /// Hits all requests of this kind.
    pub fn always(operation: Operation, key_prefix: &str, effect: Effect) -> Self {
        Self {
            operation,
            key_prefix: key_prefix.to_owned(),
            times: u32::MAX,
            effect,
        }
    }
}

/// A bucket in memory. Clones share their content and faults.
#[derive(Clone, Debug, Default)]
pub struct MemoryBucket {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Object>,
    writes: u64,
    faults: Vec<Scripted>,
}

#[derive(Debug)]
struct Scripted {
    fault: Fault,
    /// Keys and sizes at the time of scripting; for stale lists.
    seen: Vec<ListedObject>,
}

/// A scripted failure.
#[derive(Debug, thiserror::Error)]
#[error("scripted fault: {0:?}")]
struct ScriptedFailure(Effect);

impl MemoryBucket {
    /// An empty bucket without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault. Where several fit a request, the one scripted first hits.
    pub fn script(&self, fault: Fault) {
        let mut state = self.state();
        let seen = state.listed();
        state.faults.push(Scripted { fault, seen });
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// All keys, in order, past any fault.
    pub fn keys(&self) -> Vec<Key> {
        self.state().objects.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `apply` under the fault that hits this request, if one does.
    async fn run<T>(
        &self,
        operation: Operation,
        key: &str,
        apply: impl FnOnce(&mut State, Option<&Scripted>) -> Result<T, BucketError>,
    ) -> Result<T, BucketError> {
        let hit = self.state().take_fault(operation, key);
        let effect = hit.as_ref().map(|scripted| scripted.fault.effect.clone());
        let cause = || {
            Box::new(ScriptedFailure(
                effect.clone().unwrap_or(Effect::FailBefore),
            ))
        };
        let key = key.to_owned();
        match &effect {
            Some(Effect::FailBefore) => {
                return Err(BucketError::Definite {
                    operation,
                    key,
                    cause: cause(),
                });
            }
            Some(Effect::LoseRequest) => {
                return Err(BucketError::Ambiguous {
                    operation,
                    key,
                    cause: cause(),
                });
            }
            Some(Effect::Delay(time)) => tokio::time::sleep(*time).await,
            _ => {}
        }
        let result = apply(&mut self.state(), hit.as_ref())?;
        if effect == Some(Effect::LoseReply) {
            return Err(BucketError::Ambiguous {
                operation,
                key,
                cause: cause(),
            });
        }
        Ok(result)
    }
}

impl State {
    fn take_fault(&mut self, operation: Operation, key: &str) -> Option<Scripted> {
        let at = self
            .faults
            .iter()
            .position(|s| s.fault.operation == operation && key.starts_with(&s.fault.key_prefix))?;
        let times = &mut self.faults[at].fault.times;
        if *times == u32::MAX {
            let Scripted { fault, seen } = &self.faults[at];
            return Some(Scripted {
                fault: fault.clone(),
                seen: seen.clone(),
            });
        }
        *times = times.saturating_sub(1);
        if *times == 0 {
            return Some(self.faults.remove(at));
        }
        let Scripted { fault, seen } = &self.faults[at];
        Some(Scripted {
            fault: fault.clone(),
            seen: seen.clone(),
        })
    }

    fn listed(&self) -> Vec<ListedObject> {
        let listed = |(key, object): (&Key, &Object)| ListedObject {
            key: key.clone(),
            size: object.bytes.len() as u64,
        };
        self.objects.iter().map(listed).collect()
    }

    fn put(&mut self, key: &Key, bytes: Bytes, condition: &Condition) -> PutOutcome {
        let current = self.objects.get(key).map(|object| &object.etag);
        let holds = match condition {
            Condition::None => true,
            Condition::IfAbsent => current.is_none(),
            Condition::IfMatch(wanted) => current == Some(wanted),
        };
        if !holds {
            return PutOutcome::Conflict;
        }
        self.writes += 1;
        let etag = Etag::new(format!("w{}", self.writes));
        self.objects.insert(
            key.clone(),
            Object {
                bytes,
                etag: etag.clone(),
            },
        );
        PutOutcome::Done(etag)
    }
}

impl Bucket for MemoryBucket {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>> {
        Box::pin(self.run(Operation::Get, key.as_str(), |state, _| {
            Ok(state.objects.get(key).cloned())
        }))
    }

    fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Answer<'a, Option<Bytes>> {
        Box::pin(
            self.run(Operation::GetRange, key.as_str(), move |state, _| {
                Ok(state.objects.get(key).map(|object| {
                    let end = range.end.min(object.bytes.len() as u64);
                    let start = range.start.min(end);
                    object.bytes.slice(start as usize..end as usize)
                }))
            }),
        )
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome> {
        Box::pin(self.run(Operation::Put, key.as_str(), move |state, hit| {
            let ignore =
                hit.is_some_and(|scripted| scripted.fault.effect == Effect::IgnoreCondition);
            Ok(state.put(
                key,
                bytes,
                if ignore { &Condition::None } else { &condition },
            ))
        }))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()> {
        Box::pin(self.run(Operation::Delete, key.as_str(), move |state, _| {
            state.objects.remove(key);
            Ok(())
        }))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing> {
        Box::pin(self.run(Operation::List, prefix, move |state, hit| {
            check_prefix(prefix)?;
            start_after.map_or(Ok(()), check_prefix)?;
            let all = match hit {
                Some(scripted) if scripted.fault.effect == Effect::StaleList => {
                    scripted.seen.clone()
                }
                _ => state.listed(),
            };
            let limit = limit.min(crate::LIST_MAX);
            let wanted = |o: &ListedObject| {
                o.key.as_str().starts_with(prefix)
                    && start_after.is_none_or(|after| o.key.as_str() > after)
            };
            let mut objects: Vec<_> = all.into_iter().filter(wanted).take(limit + 1).collect();
            let truncated = objects.len() > limit;
            objects.truncate(limit);
            Ok(Listing { objects, truncated })
        }))
    }
}
