//! The two mailboxes of an RPC session.
//!
//! A session lies between the event that made a call and the event that it is made to. Each end
//! puts frames into the other's mailbox; an isolate that has many ends learns from one queue which
//! of them have news. Nothing but bytes passes through, so an end may as well belong to a link to
//! another node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::exchange::EventError;

/// Most bytes that wait in a mailbox: three messages of the largest size, and their frames.
pub const MAILBOX_MAX_BYTES: usize = 100 << 20;
/// Most frames that wait in a mailbox.
pub const MAILBOX_MAX_FRAMES: usize = 65_536;

/// Ends of one isolate that have news.
#[derive(Debug, Default)]
pub struct Ready(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ids: VecDeque<u32>,
    waker: Option<Waker>,
}

impl Ready {
    /// Notes that an end has news.
    pub fn push(&self, id: u32) {
        let waker = {
            let mut waiting = self.0.lock();
            waiting.ids.push_back(id);
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next end with news; without one, `waker` is woken when there is.
    pub fn next(&self, waker: &Waker) -> Option<u32> {
        let mut waiting = self.0.lock();
        let next = waiting.ids.pop_front();
        if next.is_none() {
            waiting.waker = Some(waker.clone());
        }
        next
    }
}

/// What an end finds in its mailbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Mail {
    /// A frame; with true when more waits behind it.
    Frame(Bytes, bool),
    /// The other end is gone; with the reason, unless it just had nothing more to say.
    Closed(Option<EventError>),
    /// Nothing yet.
    Nothing,
}

#[derive(Debug, Default)]
struct Mailbox {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// The sender is gone: what it said last.
    closed: Option<Option<EventError>>,
    /// Whom to tell of news, and by what number.
    reader: Option<(Arc<Ready>, u32)>,
    /// The reader knows of news that it has not seen to the end.
    told: bool,
}

impl Mailbox {
    fn tell(&mut self) -> Option<(Arc<Ready>, u32)> {
        if self.told {
            return None;
        }
        let reader = self.reader.clone()?;
        self.told = true;
        Some(reader)
    }
}

/// One end of a session. When it is dropped, the other end sees a lost connection.
#[derive(Debug)]
pub struct SessionEnd {
    boxes: Arc<[Mutex<Mailbox>; 2]>,
    mine: usize,
}

/// Makes the two ends of a session.
pub fn session() -> (SessionEnd, SessionEnd) {
    let boxes: Arc<[Mutex<Mailbox>; 2]> = Arc::default();
    let end = |mine| SessionEnd {
        boxes: boxes.clone(),
        mine,
    };
    (end(0), end(1))
}

impl SessionEnd {
    fn theirs(&self) -> &Mutex<Mailbox> {
        &self.boxes[1 - self.mine]
    }

    /// Sends a frame. A session whose other end does not read breaks at its limit, loudly on both
    /// sides, so that a script that never waits cannot fill the memory.
    pub fn send(&self, frame: Bytes) {
        let (news, full) = {
            let mut mailbox = self.theirs().lock();
            if mailbox.closed.is_some() {
                return;
            }
            let full = mailbox.frames.len() >= MAILBOX_MAX_FRAMES
                || mailbox.bytes + frame.len() > MAILBOX_MAX_BYTES;
            if !full {
                mailbox.bytes += frame.len();
                mailbox.frames.push_back(frame);
            }
            (mailbox.tell(), full)
        };
        if let Some((ready, id)) = news {
            ready.push(id);
        }
        if full {
            let why = EventError::overloaded(format!(
                "RPC session is overloaded: more than {MAILBOX_MAX_FRAMES} messages or \
                 {MAILBOX_MAX_BYTES} bytes wait for its other side. Wait for answers between calls."
            ));
            close(self.theirs(), Some(why.clone()));
            close(&self.boxes[self.mine], Some(why));
        }
    }

    /// Ends the session; what was sent before still arrives. Later calls change nothing.
    pub fn close(&self, why: Option<EventError>) {
        close(self.theirs(), why);
    }

    /// Has news of this end told to `ready` under the number `id`, also of what is here already.
    pub fn attach(&self, ready: &Arc<Ready>, id: u32) {
        let news = {
            let mut mailbox = self.boxes[self.mine].lock();
            mailbox.reader = Some((ready.clone(), id));
            mailbox.told = false;
            let any = !mailbox.frames.is_empty() || mailbox.closed.is_some();
            if any { mailbox.tell() } else { None }
        };
        if let Some((ready, id)) = news {
            ready.push(id);
        }
    }

    /// Takes what comes next. After `Nothing`, news is told again.
    pub fn take(&self) -> Mail {
        let mut mailbox = self.boxes[self.mine].lock();
        if let Some(frame) = mailbox.frames.pop_front() {
            mailbox.bytes -= frame.len();
            let more = !mailbox.frames.is_empty() || mailbox.closed.is_some();
            mailbox.told = more;
            return Mail::Frame(frame, more);
        }
        mailbox.told = false;
        match mailbox.closed.clone() {
            Some(why) => Mail::Closed(why),
            None => Mail::Nothing,
        }
    }
}

impl Drop for SessionEnd {
    fn drop(&mut self) {
        self.close(Some(EventError::disconnected()));
    }
}

fn close(mailbox: &Mutex<Mailbox>, why: Option<EventError>) {
    let news = {
        let mut mailbox = mailbox.lock();
        if mailbox.closed.is_some() {
            return;
        }
        mailbox.closed = Some(why);
        mailbox.tell()
    };
    if let Some((ready, id)) = news {
        ready.push(id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn frame(number: usize) -> Bytes {
        number.to_string().into()
    }

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn frames_arrive_in_order_before_the_end() {
        let (near, far) = session();
        near.send(frame(1));
        near.send(frame(2));
        near.close(None);
        near.close(Some(EventError::new("too late")));
        assert_eq!(far.take(), Mail::Frame(frame(1), true));
        assert_eq!(far.take(), Mail::Frame(frame(2), true));
        assert_eq!(far.take(), Mail::Closed(None));
    }

    #[test]
    fn a_dropped_end_is_a_lost_connection() {
        let (near, far) = session();
        drop(near);
        assert_eq!(far.take(), Mail::Closed(Some(EventError::disconnected())));
    }

    #[test]
    fn news_is_told_once_until_it_is_read() {
        let (near, far) = session();
        let (ready, count) = (Arc::<Ready>::default(), Arc::<Count>::default());
        let waker = Waker::from(count.clone());
        near.send(frame(1));
        far.attach(&ready, 7);
        near.send(frame(2));
        assert_eq!(ready.next(&waker), Some(7));
        assert_eq!(ready.next(&waker), None);
        far.take();
        far.take();
        assert_eq!(ready.next(&waker), None);
        near.send(frame(3));
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "the reader was woken");
        assert_eq!(ready.next(&waker), Some(7));
    }

    #[test]
    fn a_mailbox_that_is_never_read_breaks_on_both_sides() {
        let (near, far) = session();
        for number in 0..=MAILBOX_MAX_FRAMES {
            near.send(frame(number));
        }
        assert!(matches!(near.take(), Mail::Closed(Some(why)) if why.overloaded));
        for number in 0..MAILBOX_MAX_FRAMES {
            assert_eq!(far.take(), Mail::Frame(frame(number), true));
        }
        assert!(matches!(far.take(), Mail::Closed(Some(why)) if why.overloaded));
        let (near, far) = session();
        let large: Bytes = vec![0; MAILBOX_MAX_BYTES / 2 + 1].into();
        near.send(large.clone());
        near.send(large.clone());
        assert_eq!(far.take(), Mail::Frame(large, true));
        assert!(matches!(far.take(), Mail::Closed(Some(_))));
    }
}
