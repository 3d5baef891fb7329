// Package plugin is the command plugin status, which lists the CSI plugins of a cluster and shows one of them. The drivers
// and CNI plugins of a node are in its attributes. The package keeps no state.
package plugin

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// statusFlags are the flags of plugin status.
type statusFlags struct {
	formats term.Formats
	short   bool
	detail  term.Detail
}

// Commands lists the command of this package.
func Commands() []term.Command {
	return []term.Command{{
		Name: "plugin status", Args: "[plugin]", MaxArgs: 1, Short: "List the CSI plugins, or show one",
		Long: "The argument is a prefix of the ID of a plugin. Drivers and host volume plugins are attributes of nodes: see " +
			"nomad node status -verbose.\n\n    nomad plugin status\n    nomad plugin status -verbose ebs",
		Setup: func(f *term.Flags) term.Run {
			var s statusFlags
			kind := f.String("type", "csi", "The `type` of the plugins: csi.")
			f.BoolVar(&s.short, "short", false, "Do not show the allocations.")
			f.DetailVar(&s.detail, "Show what the plugin can do, its instances, complete IDs and times.")
			s.formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if *kind != "csi" {
					return fmt.Errorf("Unknown plugin type %q: use csi", *kind)
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				list, _, err := c.CSIPlugins().List((&api.QueryOptions{Prefix: e.Arg(0)}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error querying CSI plugins: %w", err)
				}
				if e.Arg(0) == "" {
					return s.list(e, list)
				}
				return s.one(ctx, e, c, list)
			}
		},
	}}
}

func (s *statusFlags) list(e *term.Env, list []*api.CSIPluginListStub) error {
	slices.SortFunc(list, func(a, b *api.CSIPluginListStub) int { return strings.Compare(a.ID, b.ID) })
	switch {
	case s.formats.Wanted() && list == nil:
		return s.formats.Print(e, []*api.CSIPluginListStub{})
	case s.formats.Wanted():
		return s.formats.Print(e, list)
	case len(list) == 0:
		e.Println("No CSI plugins")
	default:
		e.Println(table(list))
	}
	return nil
}

func table(list []*api.CSIPluginListStub) string {
	rows := []string{"ID|Provider|Controllers Healthy/Expected|Nodes Healthy/Expected"}
	for _, p := range list {
		rows = append(rows, term.Row(p.ID, p.Provider, fmt.Sprintf("%d/%d", p.ControllersHealthy, p.ControllersExpected),
			fmt.Sprintf("%d/%d", p.NodesHealthy, p.NodesExpected)))
	}
	return term.Table(rows)
}

// one shows the only plugin of the list, or the one with exactly the ID of the argument.
func (s *statusFlags) one(ctx context.Context, e *term.Env, c *api.Client, list []*api.CSIPluginListStub) error {
	if i := slices.IndexFunc(list, func(p *api.CSIPluginListStub) bool { return p.ID == e.Arg(0) }); i >= 0 {
		list = list[i : i+1]
	}
	switch {
	case len(list) == 0:
		return fmt.Errorf("No plugins with prefix or ID %q found", e.Arg(0))
	case len(list) > 1:
		return fmt.Errorf("Prefix matched multiple plugins\n\n%s", table(list))
	}
	p, _, err := c.CSIPlugins().Info(list[0].ID, (&api.QueryOptions{Namespace: cmp.Or(e.ChosenNamespace(), "*")}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying CSI plugin: %w", err)
	}
	if s.formats.Wanted() {
		return s.formats.Print(e, p)
	}
	e.Println(term.Pairs([]string{term.Row("ID", p.ID), term.Row("Provider", p.Provider), term.Row("Version", p.Version),
		term.Row("Controllers Healthy", p.ControllersHealthy), term.Row("Controllers Expected", p.ControllersExpected),
		term.Row("Nodes Healthy", p.NodesHealthy), term.Row("Nodes Expected", p.NodesExpected)}))
	if s.detail {
		section(e, "Controller Capabilities", strings.Join(controllerWords(p), "\n"))
		section(e, "Node Capabilities", strings.Join(nodeWords(p), "\n"))
		section(e, "Accessible Topologies", s.topologies(p))
	}
	section(e, "Instances", s.instances(p))
	if !s.short {
		section(e, "Allocations", s.allocs(p.Allocations))
	}
	return nil
}

// section prints a section that has a text.
func section(e *term.Env, title, text string) {
	if text != "" {
		e.Println("\n" + e.Bold(title) + "\n" + text)
	}
}

// sample returns the healthy instance with the lowest node ID, or else any. All instances of a plugin should have the same
// capabilities.
func sample(instances map[string]*api.CSIInfo) *api.CSIInfo {
	var out *api.CSIInfo
	for _, node := range slices.Sorted(maps.Keys(instances)) {
		if i := instances[node]; i != nil && (out == nil || i.Healthy && !out.Healthy) {
			out = i
		}
	}
	return out
}

// supported returns the words whose value is true, sorted.
func supported(words map[string]bool) []string {
	maps.DeleteFunc(words, func(_ string, supported bool) bool { return !supported })
	return slices.Sorted(maps.Keys(words))
}

// controllerWords returns what the controllers of a plugin can do.
func controllerWords(p *api.CSIPlugin) []string {
	info := sample(p.Controllers)
	if info == nil || info.ControllerInfo == nil {
		return nil
	}
	c := info.ControllerInfo
	return supported(map[string]bool{"CREATE_DELETE_VOLUME": c.SupportsCreateDelete, "CONTROLLER_ATTACH_DETACH": c.SupportsAttachDetach,
		"LIST_VOLUMES": c.SupportsListVolumes, "GET_CAPACITY": c.SupportsGetCapacity, "CREATE_DELETE_SNAPSHOT": c.SupportsCreateDeleteSnapshot,
		"LIST_SNAPSHOTS": c.SupportsListSnapshots, "CLONE_VOLUME": c.SupportsClone, "ATTACH_READONLY": c.SupportsReadOnlyAttach,
		"EXPAND_VOLUME": c.SupportsExpand, "LIST_VOLUMES_PUBLISHED_NODES": c.SupportsListVolumesAttachedNodes,
		"VOLUME_CONDITION": c.SupportsCondition, "GET_VOLUME": c.SupportsGet})
}

// nodeWords returns what the node instances of a plugin can do.
func nodeWords(p *api.CSIPlugin) []string {
	info := sample(p.Nodes)
	if info == nil || info.NodeInfo == nil {
		return nil
	}
	n := info.NodeInfo
	return supported(map[string]bool{"VOLUME_ACCESSIBILITY_CONSTRAINTS": info.RequiresTopologies, "STAGE_UNSTAGE_VOLUME": n.RequiresNodeStageVolume,
		"GET_VOLUME_STATS": n.SupportsStats, "EXPAND_VOLUME": n.SupportsExpand, "VOLUME_CONDITION": n.SupportsCondition})
}

func (s *statusFlags) topologies(p *api.CSIPlugin) string {
	rows := []string{"Node ID|Accessible Topology"}
	for _, node := range slices.Sorted(maps.Keys(p.Nodes)) {
		info := p.Nodes[node]
		if info == nil || info.NodeInfo == nil || info.NodeInfo.AccessibleTopology == nil {
			continue
		}
		var segments []string
		for _, key := range slices.Sorted(maps.Keys(info.NodeInfo.AccessibleTopology.Segments)) {
			segments = append(segments, key+"="+info.NodeInfo.AccessibleTopology.Segments[key])
		}
		rows = append(rows, term.Row(s.detail.ID(node), strings.Join(segments, ",")))
	}
	if len(rows) == 1 {
		return ""
	}
	return term.Table(rows)
}

// instances returns a table of the instances: of all with -verbose, else of those that are not healthy.
func (s *statusFlags) instances(p *api.CSIPlugin) string {
	rows := []string{"Node ID|Type|Allocation|Healthy|Health|Updated"}
	for _, of := range []struct {
		kind string
		list map[string]*api.CSIInfo
	}{{"controller", p.Controllers}, {"node", p.Nodes}} {
		for _, node := range slices.Sorted(maps.Keys(of.list)) {
			if i := of.list[node]; i != nil && (bool(s.detail) || !i.Healthy) {
				rows = append(rows, term.Row(s.detail.ID(node), of.kind, s.detail.ID(i.AllocID), i.Healthy, i.HealthDescription,
					s.detail.Since(i.UpdateTime)))
			}
		}
	}
	if len(rows) == 1 {
		return ""
	}
	return term.Table(rows)
}

func (s *statusFlags) allocs(list []*api.AllocationListStub) string {
	if len(list) == 0 {
		return "No allocations placed"
	}
	rows := []string{"ID|Node ID|Job ID|Task Group|Version|Desired|Status|Created"}
	for _, a := range list {
		rows = append(rows, term.Row(s.detail.ID(a.ID), s.detail.ID(a.NodeID), a.JobID, a.TaskGroup, a.JobVersion, a.DesiredStatus,
			a.ClientStatus, s.detail.Since(time.Unix(0, a.CreateTime))))
	}
	return term.Table(rows)
}
