package drivers

import (
	"log/slog"
	"path/filepath"

	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Host holds what the instances of an agent share.
type Host struct {
	log     *slog.Logger
	super   *supervise.Client
	own     []string // directories of the agent
	agent   string   // identifies the agent on this machine
	denials *exec2.Denials
}

// NewHost returns the Host of an agent. Tasks must not see the directories in own. The first is the
// client's state directory; it identifies the agent on its machine.
func NewHost(log *slog.Logger, super *supervise.Client, own []string) *Host {
	h := &Host{log: log, super: super, own: own, denials: exec2.NewDenials(log)}
	if len(own) > 0 {
		h.agent = own[0]
	}
	return h
}

// dir returns the directory of an instance in the agent's state directory, "" if there is none.
func (h *Host) dir(kind, instance string) string {
	if h.agent == "" {
		return ""
	}
	return filepath.Join(h.agent, kind, instance)
}

// Open returns the driver of an instance with its configuration. The driver may read files that the
// configuration names.
func (h *Host) Open(i Instance) (drivers.Driver, error) {
	d := i.Kind.New(h, i.Name)
	block, err := drivers.Decode(i.Config, d.ConfigSpec())
	if err == nil {
		err = d.SetConfig(block)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}
