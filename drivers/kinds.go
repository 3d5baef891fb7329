// Package drivers is the table of the built-in kinds of task drivers, and of their instances in an
// agent.
//
//	kind ──▶ schemas, checks, capabilities ──▶ servers, commands
//	  └── plugin blocks ──▶ instances ──Open──▶ drivers of the client
//
// A kind runs under one or more names in an agent, its instances, each with its own configuration.
// An instance without a plugin block has the name of its kind. Jobs, nodes and handles use the names
// of instances. The instances of an agent share the agent's supervisor and one reader of the
// sandbox's denials (Host).
//
// A new driver is a package below this one and a row in Kinds. The package starts no goroutine and does
// not access the disk.
package drivers

import (
	"github.com/open-nomad/open-nomad/drivers/docker"
	dockerconfig "github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/exec"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/drivers/java"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/drivers/qemu"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Kind is a kind of driver that agents can run.
type Kind struct {
	*drivers.Kind
	// New returns an instance without a configuration.
	New func(h *Host, name string) drivers.Driver
}

// Kinds returns the built-in kinds, sorted by name.
func Kinds() []Kind {
	return []Kind{
		{dockerconfig.Kind(), func(h *Host, name string) drivers.Driver {
			return docker.New(docker.Config{Name: name, Agent: h.agent, Dir: h.dir(docker.Name, name), Images: h.dir(docker.Name+"-images", ""),
				Log: h.log, Logs: h.super})
		}},
		{exec.Kind(), func(h *Host, name string) drivers.Driver { return exec.New(h.chroot(name)) }},
		{config.Kind(), func(h *Host, name string) drivers.Driver {
			return exec2.New(exec2.Config{Name: name, Log: h.log, Supervisor: h.super, Denials: h.denials, AgentDirs: h.agentDirs})
		}},
		{java.Kind(), func(h *Host, name string) drivers.Driver { return java.New(h.chroot(name)) }},
		{mock.Kind(), func(h *Host, name string) drivers.Driver { return mock.New(name, h.log) }},
		{qemu.Kind(), func(h *Host, name string) drivers.Driver { return qemu.New(name, h.super, h.agentDirs...) }},
		{rawexec.Kind(), func(h *Host, name string) drivers.Driver { return rawexec.New(name, h.super, h.agentDirs...) }},
	}
}

// Table returns the descriptions of the built-in kinds by name, for servers and commands.
func Table() map[string]*drivers.Kind {
	out := map[string]*drivers.Kind{}
	for _, k := range Kinds() {
		out[k.Name] = k.Kind
	}
	return out
}
