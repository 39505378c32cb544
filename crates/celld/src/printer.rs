//! Standard output from many threads, without making any of them wait for a slow reader.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Lines that may wait for the terminal or pipe. What comes beyond that is counted and dropped:
/// a script that logs in a loop must not fill the memory.
const LINES_MAX: usize = 8 * 1024;

/// Sends lines to a thread that writes them.
#[derive(Clone)]
pub struct Printer {
    lines: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

enum Item {
    Text(String),
    End,
}

impl Printer {
    /// Starts the thread. Colours are taken out where they are not wanted. Others may write to
    /// standard output too: it is locked for each line only.
    pub fn start() -> std::io::Result<Self> {
        let (lines, queue) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = dropped.clone();
        let thread = std::thread::Builder::new()
            .name("celld-printer".into())
            .spawn(move || print(&queue, &counter, &mut anstream::stdout()))?;
        Ok(Self {
            lines,
            dropped,
            thread: Arc::new(Mutex::new(Some(thread))),
        })
    }

    /// Prints text, which should end with a newline. Never waits.
    pub fn print(&self, text: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Item::Text(text)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written.
    pub fn finish(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && self.lines.send(Item::End).is_ok()
        {
            let _ = thread.join();
        }
    }
}

fn print(queue: &Receiver<Item>, dropped: &AtomicU64, out: &mut impl Write) {
    while let Ok(Item::Text(text)) = queue.recv() {
        // A closed pipe is no reason to stop serving.
        let _ = out.write_all(text.as_bytes());
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                out,
                "[{lost} lines were dropped: the reader of this output is too slow]"
            );
        }
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted_and_said() {
        let (lines, queue) = sync_channel(2);
        let dropped = AtomicU64::new(0);
        for number in 0..5 {
            if lines.try_send(Item::Text(format!("{number}\n"))).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(lines);
        let mut out = Vec::new();
        print(&queue, &dropped, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "0\n[3 lines were dropped: the reader of this output is too slow]\n1\n"
        );
    }
}
