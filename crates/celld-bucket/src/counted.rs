//! Counting and timing of bucket requests.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::bucket::{
    Answer, Bucket, BucketError, Condition, Listing, Object, Operation, PutOutcome,
};
use crate::key::{Key, class_of};

/// The class of keys that belong to none of the named ones.
const OTHER: &str = "other";

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was answered: with an object, a page, or that it is done.
    Done,
    /// There is no such object.
    Absent,
    /// The condition of a put did not hold.
    Conflict,
    /// It failed for certain.
    Failed,
    /// It failed and may have been applied; or its caller stopped waiting.
    Ambiguous,
}

impl Outcome {
    /// Every outcome, in the order of the enum.
    pub const ALL: [Outcome; 5] = [
        Self::Done,
        Self::Absent,
        Self::Conflict,
        Self::Failed,
        Self::Ambiguous,
    ];

    /// Lower-case name, as metrics use it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Absent => "absent",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// Counts what is asked of a bucket, by operation, class of key (its first segment) and outcome.
#[derive(Debug)]
pub struct Counted<B> {
    inner: B,
    classes: Vec<&'static str>,
    cells: Box<[Cell]>,
}

#[derive(Debug, Default)]
struct Cell {
    requests: AtomicU64,
    nanos: AtomicU64,
}

/// One line of a [`Counted::snapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What was asked.
    pub operation: Operation,
    /// First segment of the keys, or `other`.
    pub class: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How many requests.
    pub requests: u64,
    /// Their time, summed.
    pub total: Duration,
}

impl<B: Bucket> Counted<B> {
    /// Wraps a bucket. Keys whose first segment is not among `classes` count as `other`.
    pub fn new(inner: B, classes: &[&'static str]) -> Self {
        let mut classes = classes.to_vec();
        classes.push(OTHER);
        let cells = classes.len() * Operation::ALL.len() * Outcome::ALL.len();
        Self {
            inner,
            classes,
            cells: std::iter::repeat_with(Cell::default).take(cells).collect(),
        }
    }

    /// The wrapped bucket.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// All counts so far that are not zero.
    pub fn snapshot(&self) -> Vec<Count> {
        let mut out = Vec::new();
        for (class_index, &class) in self.classes.iter().enumerate() {
            for operation in Operation::ALL {
                for outcome in Outcome::ALL {
                    let cell = &self.cells[index(class_index, operation, outcome)];
                    let requests = cell.requests.load(Ordering::Relaxed);
                    if requests > 0 {
                        let total = Duration::from_nanos(cell.nanos.load(Ordering::Relaxed));
                        out.push(Count {
                            operation,
                            class,
                            outcome,
                            requests,
                            total,
                        });
                    }
                }
            }
        }
        out
    }

    /// All requests so far.
    pub fn requests(&self) -> u64 {
        self.cells
            .iter()
            .map(|cell| cell.requests.load(Ordering::Relaxed))
            .sum()
    }

    async fn count<T>(
        &self,
        operation: Operation,
        key: &str,
        answer: Answer<'_, T>,
        judge: impl Fn(&T) -> Outcome,
    ) -> Result<T, BucketError> {
        let class = class_of(key);
        let class_index = self
            .classes
            .iter()
            .position(|known| *known == class)
            .unwrap_or(self.classes.len() - 1);
        let mut running = Running {
            counted: self,
            class_index,
            operation,
            outcome: Outcome::Ambiguous,
            begun: Instant::now(),
        };
        let result = answer.await;
        running.outcome = match &result {
            Ok(value) => judge(value),
            Err(error) if error.is_ambiguous() => Outcome::Ambiguous,
            Err(_) => Outcome::Failed,
        };
        result
    }
}

/// Counts when dropped, so that a request whose caller stopped waiting is counted too.
struct Running<'a, B> {
    counted: &'a Counted<B>,
    class_index: usize,
    operation: Operation,
    outcome: Outcome,
    begun: Instant,
}

impl<B> Drop for Running<'_, B> {
    fn drop(&mut self) {
        let cell = &self.counted.cells[index(self.class_index, self.operation, self.outcome)];
        cell.requests.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        cell.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

fn index(class_index: usize, operation: Operation, outcome: Outcome) -> usize {
    (class_index * Operation::ALL.len() + operation as usize) * Outcome::ALL.len()
        + outcome as usize
}

fn presence<T>(value: &Option<T>) -> Outcome {
    if value.is_some() {
        Outcome::Done
    } else {
        Outcome::Absent
    }
}

impl<B: Bucket> Bucket for Counted<B> {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Object>> {
        Box::pin(self.count(Operation::Get, key.as_str(), self.inner.get(key), presence))
    }

    fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Answer<'a, Option<Bytes>> {
        Box::pin(self.count(
            Operation::GetRange,
            key.as_str(),
            self.inner.get_range(key, range),
            presence,
        ))
    }

    fn put<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        condition: Condition,
    ) -> Answer<'a, PutOutcome> {
        let answer = self.inner.put(key, bytes, condition);
        Box::pin(self.count(
            Operation::Put,
            key.as_str(),
            answer,
            |outcome| match outcome {
                PutOutcome::Done(_) => Outcome::Done,
                PutOutcome::Conflict => Outcome::Conflict,
            },
        ))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Answer<'a, ()> {
        Box::pin(self.count(
            Operation::Delete,
            key.as_str(),
            self.inner.delete(key),
            |()| Outcome::Done,
        ))
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        start_after: Option<&'a str>,
        limit: usize,
    ) -> Answer<'a, Listing> {
        let answer = self.inner.list(prefix, start_after, limit);
        Box::pin(self.count(Operation::List, prefix, answer, |_| Outcome::Done))
    }
}
