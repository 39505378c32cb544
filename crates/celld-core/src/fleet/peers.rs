//! Who is there, who was heard when, and whose grants this session holds.

use std::collections::BTreeMap;

use super::config::Config;
use super::ids::NodeId;
use super::message::Load;
use super::sabotage::Fault;
use super::session::SessionRecord;
use crate::{MonoMs, SessionId};

/// The other nodes, as the links tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peers {
    config: Config,
    peers: BTreeMap<NodeId, Peer>,
    ping_at: MonoMs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    pub(crate) session: SessionId,
    up: bool,
    heard: MonoMs,
    reset_at: Option<MonoMs>,
    /// It grants this session's reads until then.
    granted_until: MonoMs,
    pub(crate) load: Load,
}

impl Peers {
    pub(crate) fn new(config: Config, now: MonoMs) -> Self {
        Self {
            config,
            peers: BTreeMap::new(),
            ping_at: now,
        }
    }

    /// A link is up. Gives back the session that lived there before.
    pub(crate) fn linked(
        &mut self,
        node: NodeId,
        session: SessionId,
        now: MonoMs,
    ) -> Option<SessionId> {
        let peer = self.peers.entry(node).or_insert(Peer {
            session,
            up: true,
            heard: now,
            reset_at: None,
            granted_until: MonoMs::default(),
            load: Load::default(),
        });
        let before = (peer.session != session).then_some(peer.session);
        if before.is_some() {
            peer.load = Load::default();
        }
        peer.session = session;
        peer.up = true;
        peer.reset_at = None;
        peer.heard = now;
        before
    }

    /// A link is down; that of an earlier session may be told late.
    pub(crate) fn lost(&mut self, node: NodeId, session: SessionId, now: MonoMs) {
        if let Some(peer) = self.peers.get_mut(&node)
            && peer.session == session
        {
            peer.up = false;
            peer.reset_at.get_or_insert(now);
        }
    }

    /// True when it is the session that this node knows there.
    pub(crate) fn heard(&mut self, node: NodeId, session: SessionId, now: MonoMs) -> bool {
        match self.peers.get_mut(&node) {
            Some(peer) if peer.session == session => {
                peer.heard = now;
                peer.reset_at = None;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn set_load(&mut self, node: NodeId, load: Load) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.load = load;
        }
    }

    /// A grant that was asked for at `sent`, on this node's clock.
    pub(crate) fn granted(&mut self, node: NodeId, sent: MonoMs, theirs: MonoMs, now: MonoMs) {
        let from = match self.config.planted {
            Some(Fault::GrantFromReceipt) => now,
            Some(Fault::TrustTheWitnessClock) => theirs,
            _ => sent,
        };
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.granted_until = peer.granted_until.max(from.plus(self.config.grant_ms));
        }
    }

    /// True while every witness of the record grants reads.
    pub(crate) fn all_grant(&self, record: &SessionRecord, now: MonoMs) -> bool {
        record.witnesses.iter().all(|node| {
            self.peers
                .get(node)
                .is_some_and(|peer| now < peer.granted_until)
        })
    }

    /// Not heard for as long as makes it suspect, or reset and not heard since.
    pub(crate) fn is_suspect(&self, node: NodeId, now: MonoMs) -> bool {
        self.peers
            .get(&node)
            .is_none_or(|peer| peer.suspect_at(&self.config) <= now)
    }

    /// Not heard for as long as a witness may be silent.
    pub(crate) fn is_silent(&self, node: NodeId, now: MonoMs) -> bool {
        self.peers.get(&node).is_none_or(|peer| {
            peer.heard
                .plus(self.config.drop_ms)
                .min(peer.suspect_at(&self.config))
                <= now
        })
    }

    pub(crate) fn node_of(&self, session: SessionId) -> Option<NodeId> {
        let mut found = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.session == session);
        found.next().map(|(node, _)| *node)
    }

    /// Nodes that were heard lately, in order of their names.
    pub(crate) fn alive(&self, now: MonoMs) -> impl Iterator<Item = (NodeId, &Peer)> {
        let alive = self
            .peers
            .iter()
            .filter(move |(node, peer)| peer.up && !self.is_silent(**node, now));
        alive.map(|(node, peer)| (*node, peer))
    }

    pub(crate) fn suspects(&self, now: MonoMs) -> impl Iterator<Item = SessionId> + '_ {
        let suspects = self
            .peers
            .values()
            .filter(move |peer| peer.suspect_at(&self.config) <= now);
        suspects.map(|peer| peer.session)
    }

    /// The session is over and settled: nothing is expected from it.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.peers.retain(|_, peer| peer.session != session);
    }

    /// Those to ping, when it is time.
    pub(crate) fn pings(&mut self, now: MonoMs) -> Vec<NodeId> {
        if self.ping_at > now {
            return Vec::new();
        }
        self.ping_at = now.plus(self.config.ping_ms);
        let up = self.peers.iter().filter(|(_, peer)| peer.up);
        up.map(|(node, _)| *node).collect()
    }

    pub(crate) fn deadline(&self, now: MonoMs) -> Option<(MonoMs, &'static str)> {
        let ping = self
            .peers
            .values()
            .any(|peer| peer.up)
            .then_some((self.ping_at, "peers: ping"));
        let suspect = self
            .peers
            .values()
            .map(|peer| peer.suspect_at(&self.config))
            .filter(|at| *at > now)
            .min()
            .map(|at| (at, "peers: suspect one that is silent"));
        let drop = self
            .peers
            .values()
            .map(|peer| peer.heard.plus(self.config.drop_ms))
            .filter(|at| *at > now)
            .min()
            .map(|at| (at, "peers: drop a silent witness"));
        [ping, suspect, drop].into_iter().flatten().min()
    }
}

impl Peer {
    fn suspect_at(&self, config: &Config) -> MonoMs {
        let silent = self.heard.plus(config.suspect_ms);
        match self.reset_at {
            Some(reset) => silent.min(reset.plus(config.reset_grace_ms)),
            None => silent,
        }
    }
}
