package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// statusFlags are the flags of volume status.
type statusFlags struct {
	formats        term.Formats
	kind           string
	node, nodePool string
	short          bool
	detail         *term.Detail
}

func statusCommand() term.Command {
	return term.Command{
		Name: "volume status", Args: "[volume]", MaxArgs: 1,
		Short: "List the host volumes, or show one",
		Long:  "The argument is a prefix of the ID or the name of a volume.",
		Setup: func(f *term.Flags) term.Run {
			var s statusFlags
			s.formats.Declare(f)
			f.StringVar(&s.kind, "type", "host", "The `type` of the volumes: host.")
			f.StringVar(&s.node, "node", "", "List only volumes of the node with this `ID`.")
			f.StringVar(&s.nodePool, "node-pool", "", "List only volumes of nodes in this `pool`.")
			f.BoolVar(&s.short, "short", false, "Do not show the allocations.")
			s.detail = f.Detail("Print complete IDs and times.")
			return func(ctx context.Context, e *term.Env) error {
				if err := hostOnly(s.kind); err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				if e.Arg(0) == "" {
					return s.list(ctx, e, c)
				}
				return s.one(ctx, e, c)
			}
		},
	}
}

func (s *statusFlags) list(ctx context.Context, e *term.Env, c *api.Client) error {
	list, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{NodeID: s.node, NodePool: s.nodePool},
		(&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying volumes: %w", err)
	}
	switch {
	case s.formats.Wanted():
		return s.formats.Print(e, list)
	case len(list) == 0:
		e.Println("No dynamic host volumes")
	default:
		e.Println(table(list, *s.detail))
	}
	return nil
}

// table returns a table of volumes.
func table(list []*api.HostVolumeStub, detail term.Detail) string {
	rows := []string{"ID|Name|Namespace|Plugin ID|Node ID|Node Pool|State"}
	for _, v := range list {
		rows = append(rows, term.Row(detail.ID(v.ID), v.Name, v.Namespace, cmp.Or(v.PluginID, "<none>"), detail.ID(v.NodeID), v.NodePool,
			v.State))
	}
	return term.Table(rows)
}

func (s *statusFlags) one(ctx context.Context, e *term.Env, c *api.Client) error {
	found, err := find(ctx, e, c, e.Arg(0))
	if err != nil {
		return err
	}
	v, _, err := c.HostVolumes().Get(found.ID, (&api.QueryOptions{Namespace: found.Namespace}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying volume: %w", err)
	}
	if s.formats.Wanted() {
		return s.formats.Print(e, v)
	}
	e.Println(term.Pairs([]string{term.Row("ID", v.ID), term.Row("Name", v.Name), term.Row("Namespace", v.Namespace),
		term.Row("Plugin ID", cmp.Or(v.PluginID, "<none>")),
		term.Row("Node ID", v.NodeID), term.Row("Node Pool", v.NodePool), term.Row("Capacity", cmp.Or(capacity(v.CapacityBytes), "<none>")),
		term.Row("State", v.State), term.Row("Host Path", v.HostPath)}))
	e.Println("\n" + e.Bold("Capabilities") + "\n" + modes(v.RequestedCapabilities))
	if len(v.Constraints) > 0 {
		rows := []string{"Attribute|Operator|Value"}
		for _, k := range v.Constraints {
			rows = append(rows, term.Row(k.LTarget, k.Operand, k.RTarget))
		}
		e.Println("\n" + e.Bold("Constraints") + "\n" + term.Table(rows))
	}
	if len(v.Parameters) > 0 {
		var rows []string
		for _, k := range slices.Sorted(maps.Keys(v.Parameters)) {
			rows = append(rows, term.Row(k, v.Parameters[k]))
		}
		e.Println("\n" + e.Bold("Parameters") + "\n" + term.Pairs(rows))
	}
	if !s.short {
		e.Println("\n" + e.Bold("Allocations") + "\n" + allocs(v.Allocations, *s.detail))
	}
	return nil
}

// allocs returns a table of the allocations that use a volume.
func allocs(list []*api.AllocationListStub, detail term.Detail) string {
	if len(list) == 0 {
		return "No allocations placed"
	}
	rows := []string{"ID|Node ID|Job ID|Task Group|Version|Desired|Status|Created"}
	for _, a := range list {
		rows = append(rows, term.Row(detail.ID(a.ID), detail.ID(a.NodeID), a.JobID, a.TaskGroup, a.JobVersion, a.DesiredStatus, a.ClientStatus,
			detail.Since(time.Unix(0, a.CreateTime))))
	}
	return term.Table(rows)
}
