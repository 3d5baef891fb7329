package agent

import (
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/nomad/audit"
)

// openAudit makes the audit log. It is made even if it is disabled, because a reload may enable
// it.
func (a *Agent) openAudit() error {
	a.audit = audit.New(audit.Node{Name: a.set.Name, Region: a.set.Region, Address: a.addr}, a.log)
	return a.setAudit(a.set)
}

// setAudit applies settings to the audit log and reopens its file.
func (a *Agent) setAudit(set *config.Settings) error {
	return a.audit.Set(set.AuditConfig(a.data.path))
}
