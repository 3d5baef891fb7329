package token

import (
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// Status describes the tokens of the tasks that need one, by the name of the task. It has no secret.
func (m *Manager) Status() (out []*message.VaultTokenStatus) {
	if !m.Enabled() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, task := range slices.Sorted(maps.Keys(m.sessions)) {
		if s := m.sessions[task]; s.watched {
			out = append(out, s.status())
		}
	}
	return out
}

// status describes the token. The caller holds m.mu.
func (s *session) status() *message.VaultTokenStatus {
	out := &message.VaultTokenStatus{AllocID: s.m.cfg.Alloc.ID, Task: s.task, Cluster: vault.DefaultCluster, Error: s.fault,
		Role: s.m.node.target(s.block).role}
	if s.fault != "" {
		out.ErrorAt = s.faultAt
	}
	if s.current().IsZero() {
		return out
	}
	out.LoggedIn = true
	out.Role, out.Lease, out.Expires = s.token.Role, s.life.lease, s.life.expires
	out.Renewable = !s.life.fixed && !s.life.expires.IsZero()
	if !s.block.AllowTokenExpiration && out.Renewable {
		out.NextRenewal = s.life.next(s.spread)
	}
	return out
}
