//! What the shell of a process does in the simulation as in the exploration.

use super::bucket::{Answer, Commit, Key, Object};
use super::ledger::Ledger;
use super::node::{Life, Output, Request};
use crate::fleet::ids::NodeId;
use crate::fleet::message::Event;
use crate::fleet::register::Found;
use crate::fleet::session::SessionRecord;
use crate::fleet::takeover::LogObject;
use crate::{CellId, MonoMs};

/// The number of a cell, which its id begins with.
pub(in crate::fleet) fn index(cell: &CellId) -> usize {
    usize::from(cell.object.as_bytes()[0])
}

impl Life {
    /// A resident cell handles a request; its answer waits at the output gate.
    pub(in crate::fleet) fn handle(&mut self, request: Request, ledger: &mut Ledger, now: MonoMs) {
        let cell = request.cell;
        let Some(resident) = self.resident.get_mut(&cell) else {
            return;
        };
        let mut write = None;
        if request.writes {
            let Some(token) = ledger.attempt(cell) else {
                return;
            };
            let Ok(lsn) = self.fleet.append(1, now) else {
                return;
            };
            self.log.push(Commit {
                lsn,
                cell,
                epoch: resident.epoch,
                write: token,
            });
            resident.content |= token;
            resident.last = lsn;
            write = Some(token);
        }
        self.outputs.push(Output {
            request,
            epoch: resident.epoch,
            lsn: resident.last,
            write,
            content: resident.content,
        });
    }

    /// What the core is told of the bucket's answer about an object. A cell's object is kept.
    pub(in crate::fleet) fn heard(&mut self, key: Key, answer: Answer, cells: &[CellId]) -> Event {
        match (key, answer) {
            (Key::Session(session), Answer::Written(outcome)) => {
                Event::RecordWrote(session, outcome)
            }
            (Key::Log(session, seq), Answer::Written(outcome)) => {
                Event::LogWrote(session, seq, outcome)
            }
            (Key::Cell(cell), Answer::Written(outcome)) => {
                Event::CellWrote(cells[cell].clone(), outcome)
            }
            (Key::Session(session), found) => Event::RecordRead(session, record_of(found)),
            (Key::Log(session, seq), found) => Event::LogRead(session, seq, log_of(found)),
            (Key::Cell(cell), found) => {
                let found = match found {
                    Answer::Found(Some(Object::Cell(record, content))) => {
                        self.read.insert(cell, (record.clone(), content));
                        Found::Here(record)
                    }
                    Answer::Found(_) => Found::Absent,
                    _ => Found::Failed,
                };
                Event::CellRead(cells[cell].clone(), found)
            }
        }
    }

    /// Gives a resident cell up; `goes_on` leaves it resident, which is a planted fault.
    pub(in crate::fleet) fn yield_cell(&mut self, cell: usize, to: Option<NodeId>, goes_on: bool) {
        let Some(held) = self.resident.get(&cell).copied() else {
            return;
        };
        if !goes_on {
            self.resident.remove(&cell);
        }
        self.leaving.insert(cell, (held, to));
    }

    /// The cells that are given up and all of whose writes are proven, and to whom they go.
    pub(in crate::fleet) fn ready_to_leave(
        &self,
        cells: &[CellId],
    ) -> Vec<(usize, Option<NodeId>)> {
        let durable = self.fleet.durable();
        self.leaving
            .iter()
            .filter(|(cell, (held, _))| {
                held.last <= durable && self.fleet.serving(&cells[**cell]).is_some()
            })
            .map(|(cell, (_, to))| (*cell, *to))
            .collect()
    }
}

fn record_of(answer: Answer) -> Found<SessionRecord> {
    match answer {
        Answer::Found(Some(Object::Session(record))) => Found::Here(record),
        Answer::Found(_) => Found::Absent,
        _ => Found::Failed,
    }
}

fn log_of(answer: Answer) -> Found<LogObject> {
    match answer {
        Answer::Found(Some(Object::Log(object, _))) => Found::Here(object),
        Answer::Found(_) => Found::Absent,
        _ => Found::Failed,
    }
}
