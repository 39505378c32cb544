//! Deployed Workers and the change from one deployment to the next.
//!
//! A new deployment is a *candidate* until one of its hosts has loaded the code. Then it is
//! adopted in one step: stateless events go to it, the hosts of the old one drain, and cells on
//! old code leave their hosts, to wake on new code. A candidate that fails changes nothing.

use crate::effect::{Effect, HostRole, Refusal};
use crate::machine::Core;
use crate::residency::State;
use crate::{CellId, Generation, HostId, MonoMs, NamespaceKey, ScriptName};

/// What is known of a Worker.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The deployment that serves.
    pub(crate) current: Option<Generation>,
    /// Namespaces that it owns.
    namespaces: Vec<NamespaceKey>,
    /// The deployment that is to replace it.
    candidate: Option<(Generation, Vec<NamespaceKey>)>,
}

impl Core {
    pub(crate) fn deployed(
        &mut self,
        script: ScriptName,
        generation: Generation,
        namespaces: Vec<NamespaceKey>,
    ) {
        if self.draining.is_some() {
            return;
        }
        self.refuse_candidate(&script);
        let known = self.scripts.entry(script.clone()).or_default();
        known.candidate = Some((generation, namespaces));
        self.start_host(&script, generation, HostRole::Stateless);
    }

    pub(crate) fn is_candidate(&self, script: &ScriptName, generation: Generation) -> bool {
        let candidate = self
            .scripts
            .get(script)
            .and_then(|known| known.candidate.as_ref());
        candidate.is_some_and(|(number, _)| *number == generation)
    }

    pub(crate) fn refuse_candidate(&mut self, script: &ScriptName) {
        let Some(generation) = self.cancel_candidate(script) else {
            return;
        };
        self.out.push(Effect::DeploymentRefused {
            script: script.clone(),
            generation,
        });
    }

    pub(crate) fn refuse_candidates(&mut self) {
        let names: Vec<ScriptName> = self.scripts.keys().cloned().collect();
        for script in names {
            self.refuse_candidate(&script);
        }
    }

    fn cancel_candidate(&mut self, script: &ScriptName) -> Option<Generation> {
        let (generation, _) = self.scripts.get_mut(script)?.candidate.take()?;
        let hosts: Vec<HostId> = self.pool(script, generation).map(|(id, _)| id).collect();
        hosts.into_iter().for_each(|id| self.stop_host(id, 0));
        Some(generation)
    }

    /// Adopts the script's candidate.
    pub(crate) fn promote(&mut self, script: &ScriptName, now: MonoMs) {
        let Some(known) = self.scripts.get_mut(script) else {
            return;
        };
        let Some((generation, namespaces)) = known.candidate.take() else {
            return;
        };
        let replaced = known.current.replace(generation);
        let before = std::mem::replace(&mut known.namespaces, namespaces.clone());
        for namespace in before {
            if self.owners.get(&namespace) == Some(script) {
                self.owners.remove(&namespace);
            }
        }
        for namespace in namespaces {
            self.owners.insert(namespace, script.clone());
        }
        self.publish_workers(script);
        self.out.push(Effect::Adopted {
            script: script.clone(),
            generation,
            replaced,
        });
        if let Some(old) = replaced {
            let old: Vec<HostId> = self.pool(script, old).map(|(id, _)| id).collect();
            old.into_iter()
                .for_each(|id| self.stop_host(id, self.config.adopt_grace_ms));
        }
        self.leave_old_code(now);
    }

    /// Moves every cell that is on a host of replaced code, and ends such hosts that are empty.
    fn leave_old_code(&mut self, now: MonoMs) {
        let on_old_code: Vec<(CellId, HostId)> = self
            .cells
            .iter()
            .filter_map(|(cell, held)| Some((cell, held.state.host()?)))
            .filter(|(cell, host)| !self.is_current(cell, *host))
            .map(|(cell, host)| (cell.clone(), host))
            .collect();
        for (cell, host) in on_old_code {
            match self.cells.get(&cell).map(|held| &held.state) {
                Some(State::Resident { .. }) => {
                    self.leaving.insert(cell);
                }
                Some(State::Loading { .. }) => {
                    self.vacate(&cell, host, now);
                    self.place_again(cell);
                }
                _ => {}
            }
        }
        let hosts: Vec<HostId> = self.hosts.keys().copied().collect();
        for id in hosts {
            self.stop_if_old(id, now);
        }
    }

    fn stop_if_old(&mut self, id: HostId, now: MonoMs) {
        let Some(host) = self.hosts.get(&id).filter(|host| !host.is_stateless()) else {
            return;
        };
        let current = self
            .scripts
            .get(&host.script)
            .and_then(|known| known.current);
        if current != Some(host.generation) {
            self.watch_empty(id, now);
        }
    }

    /// Finds another host for a cell that is being loaded.
    pub(crate) fn place_again(&mut self, cell: CellId) {
        let target = self.target(&cell);
        let host = target.map(|(script, generation)| self.place(&cell, &script, generation));
        if let Some(id) = host
            && let Some(held) = self.hosts.get_mut(&id)
        {
            held.cells.insert(cell.clone());
        }
        let Some(held) = self.cells.get_mut(&cell) else {
            return;
        };
        let State::Loading { host: place, image } = &mut held.state else {
            return;
        };
        *place = host;
        if host.is_none() {
            if *image {
                self.cells.remove(&cell);
            } else {
                held.wanted = false;
            }
            self.out.push(Effect::Refuse {
                cell,
                why: Refusal::NoClass,
            });
        }
    }

    /// The code that a cell is to run: its namespace's owner and the adopted deployment.
    pub(crate) fn target(&self, cell: &CellId) -> Option<(ScriptName, Generation)> {
        let script = self.owners.get(&cell.namespace)?;
        Some((script.clone(), self.scripts.get(script)?.current?))
    }
}
