//! For tests: a bucket in memory with scripted faults, and the contract of all buckets.

mod contract;
mod memory;

pub use contract::{ContractBroken, bucket_contract};
pub use memory::{Effect, Fault, MemoryBucket};
