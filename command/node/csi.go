package node

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// plugins returns the IDs of CSI plugins of a node. Those that are not healthy have a note.
func plugins(of map[string]*api.CSIInfo) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if info := of[id]; info == nil || !info.Healthy {
			id += " (unhealthy)"
		}
		out = append(out, id)
	}
	return strings.Join(out, ",")
}

// csiSources returns the IDs of the CSI volumes of the allocations that have not ended, sorted.
func csiSources(allocs []*api.Allocation) []string {
	found := map[string]bool{}
	for _, a := range allocs {
		if a.Job == nil || a.ClientTerminalStatus() {
			continue
		}
		for _, g := range a.Job.TaskGroups {
			if g.Name == nil || *g.Name != a.TaskGroup {
				continue
			}
			for _, v := range g.Volumes {
				if v.Type != api.CSIVolumeTypeCSI {
					continue
				}
				source := v.Source
				if i := strings.LastIndexByte(a.Name, '['); v.PerAlloc && i >= 0 {
					source += a.Name[i:]
				}
				found[source] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// csiVolumes prints the registered CSI volumes of the allocations of a node, without those that the caller may not see.
func csiVolumes(ctx context.Context, e *term.Env, c *api.Client, n *api.Node) {
	list, err := c.Nodes().CSIVolumes(n.ID, (&api.QueryOptions{Namespace: "*"}).WithContext(ctx))
	switch {
	case api.StatusCode(err) == http.StatusForbidden:
		return
	case err != nil:
		e.Warnf("Error querying CSI volumes: %v", err)
		return
	case len(list) == 0:
		return
	}
	slices.SortFunc(list, func(a, b *api.CSIVolumeListStub) int {
		return strings.Compare(a.Namespace+"\x00"+a.ID, b.Namespace+"\x00"+b.ID)
	})
	rows := []string{"ID|Name|Namespace|Plugin ID|Schedulable|Provider|Access Mode"}
	for _, v := range list {
		rows = append(rows, term.Row(v.ID, v.Name, v.Namespace, v.PluginID, v.Schedulable, v.Provider, v.AccessMode))
	}
	e.Println("\n" + e.Bold("CSI Volumes") + "\n" + term.Table(rows))
}
