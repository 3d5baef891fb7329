package drivers

import (
	"log/slog"
	"path/filepath"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Host holds what the instances of an agent share.
type Host struct {
	log       *slog.Logger
	super     *supervise.Client
	agentDirs []string // directories of the agent
	agent     string   // identifies the agent on this machine
	env       map[string]string
	denials   *exec2.Denials
}

// HostConfig configures a Host.
type HostConfig struct {
	Log        *slog.Logger
	Supervisor *supervise.Client
	// AgentDirs are directories that tasks must not see. The first is the client's state directory; it identifies the
	// agent on its machine.
	AgentDirs []string
	// ChrootEnv are the files of the host in the root directories of tasks, by source: chroot.CheckEnv has accepted
	// them. Empty for chroot.DefaultEnv.
	ChrootEnv map[string]string
}

// NewHost returns the Host of an agent.
func NewHost(cfg HostConfig) *Host {
	h := &Host{log: cfg.Log, super: cfg.Supervisor, agentDirs: cfg.AgentDirs, env: cfg.ChrootEnv, denials: exec2.NewDenials(cfg.Log)}
	if len(h.agentDirs) > 0 {
		h.agent = h.agentDirs[0]
	}
	return h
}

// chroot returns the configuration of an instance whose tasks have a root directory of their own.
func (h *Host) chroot(name string) chroot.Config {
	return chroot.Config{Name: name, Supervisor: h.super, AgentDirs: h.agentDirs, Env: h.env}
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
