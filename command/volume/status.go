package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
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
		Short: "List the volumes, or show one",
		Long: "The argument is a prefix of the ID of a volume, or of the name of a host volume. For a CSI volume that is not " +
			"released, the command shows what each claim waits for, since when, and the command that ends the wait.",
		Setup: func(f *term.Flags) term.Run {
			var s statusFlags
			s.formats.Declare(f)
			f.StringVar(&s.kind, "type", "", "The `type` of the volumes: csi or host. Default: both.")
			f.StringVar(&s.node, "node", "", "List only volumes of the node with this `ID`.")
			f.StringVar(&s.nodePool, "node-pool", "", "List only host volumes of nodes in this `pool`.")
			f.BoolVar(&s.short, "short", false, "Do not show the allocations.")
			s.detail = f.Detail("Print complete IDs and times. In the list, ask the plugins for the volumes of their storage systems.")
			return func(ctx context.Context, e *term.Env) error {
				if s.kind != "" && s.kind != "csi" && s.kind != "host" {
					return unknownType(s.kind)
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

// wants reports whether volumes of a type are asked for.
func (s *statusFlags) wants(kind string) bool { return s.kind == "" || s.kind == kind }

// volumes are volumes of both types.
type volumes struct {
	host []*api.HostVolumeStub
	csi  []*api.CSIVolumeListStub
}

// ask gets the volumes of the wanted types. If a caller may see only one of the types, the other is empty.
func (s *statusFlags) ask(hosts func() ([]*api.HostVolumeStub, error), csis func() ([]*api.CSIVolumeListStub, error)) (out volumes, err error) {
	var hostErr, csiErr error
	if s.wants("host") {
		out.host, hostErr = hosts()
	}
	if s.wants("csi") {
		out.csi, csiErr = csis()
	}
	if s.kind == "" && (isForbidden(hostErr) && csiErr == nil || hostErr == nil && isForbidden(csiErr)) {
		return out, nil
	}
	if err := cmp.Or(hostErr, csiErr); err != nil {
		return out, fmt.Errorf("Error querying volumes: %w", err)
	}
	return out, nil
}

// isForbidden reports whether an agent refused a request because of the caller's rights.
func isForbidden(err error) bool { return api.StatusCode(err) == http.StatusForbidden }

func (s *statusFlags) list(ctx context.Context, e *term.Env, c *api.Client) error {
	q := (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx)
	found, err := s.ask(func() ([]*api.HostVolumeStub, error) {
		list, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{NodeID: s.node, NodePool: s.nodePool}, q)
		return list, err
	}, func() ([]*api.CSIVolumeListStub, error) {
		if s.node != "" {
			return c.Nodes().CSIVolumes(s.node, q)
		}
		list, _, err := c.CSIVolumes().List(q)
		return list, err
	})
	if err != nil {
		return err
	}
	if s.formats.Wanted() {
		return s.formats.Print(e, found.ofType(s.kind))
	}
	if s.wants("host") {
		if s.kind == "" {
			e.Println(e.Bold("Dynamic Host Volumes"))
		}
		if len(found.host) == 0 {
			e.Println("No dynamic host volumes")
		} else {
			e.Println(table(found.host, *s.detail))
		}
	}
	if !s.wants("csi") {
		return nil
	}
	if s.kind == "" {
		e.Println("\n" + e.Bold("Container Storage Interface"))
	}
	if len(found.csi) == 0 {
		e.Warnf("No CSI volumes")
	} else {
		e.Println(csiTable(found.csi))
	}
	if *s.detail {
		return external(ctx, e, c)
	}
	return nil
}

// ofType returns the volumes for -json and -t: those of the type, or a list of both.
func (v volumes) ofType(kind string) any {
	switch kind {
	case "host":
		return notNil(v.host)
	case "csi":
		return notNil(v.csi)
	}
	out := []any{}
	for _, c := range v.csi {
		out = append(out, c)
	}
	for _, h := range v.host {
		out = append(out, h)
	}
	return out
}

// notNil returns an empty list for nil, so that its JSON is [].
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// table returns a table of host volumes.
func table(list []*api.HostVolumeStub, detail term.Detail) string {
	rows := []string{"ID|Name|Namespace|Plugin ID|Node ID|Node Pool|State"}
	for _, v := range list {
		rows = append(rows, term.Row(detail.ID(v.ID), v.Name, v.Namespace, cmp.Or(v.PluginID, "<none>"), detail.ID(v.NodeID), v.NodePool,
			v.State))
	}
	return term.Table(rows)
}

func (s *statusFlags) one(ctx context.Context, e *term.Env, c *api.Client) error {
	found, err := s.ask(func() ([]*api.HostVolumeStub, error) { return hostMatches(ctx, e, c, e.Arg(0)) },
		func() ([]*api.CSIVolumeListStub, error) { return csiMatches(ctx, e, c, e.Arg(0)) })
	if err != nil {
		return err
	}
	if exact := found.withID(e.Arg(0)); len(exact.host)+len(exact.csi) == 1 {
		found = exact
	}
	switch {
	case len(found.host)+len(found.csi) != 1:
		return matched(e.Arg(0), found.host, found.csi)
	case len(found.csi) == 1:
		return s.oneCSI(ctx, e, c, found.csi[0])
	}
	return s.oneHost(ctx, e, c, found.host[0])
}

// withID returns the volumes with exactly this ID.
func (v volumes) withID(id string) volumes {
	return volumes{
		host: slices.DeleteFunc(slices.Clone(v.host), func(h *api.HostVolumeStub) bool { return h.ID != id }),
		csi:  slices.DeleteFunc(slices.Clone(v.csi), func(c *api.CSIVolumeListStub) bool { return c.ID != id }),
	}
}

func (s *statusFlags) oneHost(ctx context.Context, e *term.Env, c *api.Client, stub *api.HostVolumeStub) error {
	v, _, err := c.HostVolumes().Get(stub.ID, (&api.QueryOptions{Namespace: stub.Namespace}).WithContext(ctx))
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
