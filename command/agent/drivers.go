package agent

import (
	"context"
	"errors"
	"maps"
	"path/filepath"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	plugin "github.com/open-nomad/open-nomad/plugins/drivers"
	plugins "github.com/open-nomad/open-nomad/plugins/host"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// drivers opens the instances of drivers of the configuration. Tasks do not see the directories in
// own.
func (a *Agent) drivers(agentDirs []string) ([]plugin.Driver, error) {
	host := drivers.NewHost(drivers.HostConfig{
		Log:        a.log.With(monitor.ModuleKey, "client"),
		Supervisor: a.super,
		AgentDirs:  agentDirs,
		ChrootEnv:  a.set.Client.ChrootEnv,
	})
	var out []plugin.Driver
	var errs []error
	for _, i := range a.set.Drivers() {
		d, err := host.Open(i)
		if err != nil {
			errs = append(errs, a.set.PluginFault(i.Label, err))
			continue
		}
		out = append(out, d)
	}
	return out, errors.Join(errs...)
}

// external starts the programs of external drivers and of device plugins. It adds the kinds of their instances to cfg.
func (a *Agent) external(cfg *client.Config) ([]plugin.Driver, error) {
	blocks := map[string]plugins.Block{}
	for label, p := range a.set.Externals() {
		blocks[label] = plugins.Block{Args: p.Args, Backend: p.Backend, Config: p.Config}
	}
	var builtin []string
	for _, k := range drivers.Kinds() {
		builtin = append(append(builtin, k.Name), k.Aliases...)
	}
	topology, err := fingerprint.NewHost("/", cfg.Fingerprint).Topology()
	if err != nil {
		topology = &nomad.Topology{} // the node's fingerprint reports the error
	}
	a.plugins, err = plugins.Open(context.Background(), plugins.Config{
		Dir: a.set.PluginDir(a.data.path), Blocks: blocks, Builtin: builtin, Allows: a.set.AllowsDriver,
		Runtime: filepath.Join(cfg.StateDir, "plugins"), MinPort: a.set.Client.ClientMinPort, MaxPort: a.set.Client.ClientMaxPort,
		Topology: wireTopology(topology), Logs: a.super, Log: a.log.With(monitor.ModuleKey, "client"),
	})
	if wrong, ok := errors.AsType[*plugins.BlockError](err); ok {
		err = a.set.PluginFault(wrong.Label, wrong.Err)
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(cfg.Backends, a.plugins.Backends())
	return a.plugins.Drivers(), nil
}

// devices returns the device plugins, whose programs external has started.
func (a *Agent) devices() (out []devices.Plugin) {
	for _, d := range a.plugins.Devices() {
		out = append(out, d)
	}
	return out
}

// wireTopology returns the node's processors for the programs of drivers.
func wireTopology(t *nomad.Topology) *proto.ClientTopology {
	out := &proto.ClientTopology{OverrideTotalCompute: uint64(t.OverrideTotalCompute),
		OverrideWitholdCompute: uint64(t.OverrideWitholdCompute),
		Distances:              &proto.ClientTopologySLIT{Dimension: uint32(len(t.Distances))}}
	for _, id := range t.Nodes {
		out.NodeIds = append(out.NodeIds, uint32(id))
	}
	for _, row := range t.Distances {
		for _, d := range row {
			out.Distances.Values = append(out.Distances.Values, uint32(d))
		}
	}
	for _, c := range t.Cores {
		grade := proto.CoreGrade_Efficiency
		if c.Grade {
			grade = proto.CoreGrade_Performance
		}
		out.Cores = append(out.Cores, &proto.ClientTopologyCore{SocketId: uint32(c.SocketID), NodeId: uint32(c.NodeID), CoreId: uint32(c.ID),
			CoreGrade: grade,
			Disable:   c.Disable, BaseSpeed: uint64(c.BaseSpeed), MaxSpeed: uint64(c.MaxSpeed), GuessSpeed: uint64(c.GuessSpeed)})
	}
	return out
}
