package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// csiTable returns a table of CSI volumes.
func csiTable(list []*api.CSIVolumeListStub) string {
	rows := []string{"ID|Name|Namespace|Plugin ID|Schedulable|Access Mode"}
	for _, v := range list {
		rows = append(rows, term.Row(v.ID, v.Name, v.Namespace, v.PluginID, v.Schedulable, v.AccessMode))
	}
	return term.Table(rows)
}

// externalPage is the number of volumes that a plugin is asked for at once.
const externalPage = 30

// external prints the volumes of the storage systems of all plugins. A plugin that cannot list them is a warning.
func external(ctx context.Context, e *term.Env, c *api.Client) error {
	plugins, _, err := c.CSIPlugins().List((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying CSI plugins: %w", err)
	}
	for _, p := range plugins {
		q := (&api.QueryOptions{PerPage: externalPage, Namespace: e.Namespace()}).WithContext(ctx)
		for {
			page, _, err := c.CSIVolumes().ListExternal(p.ID, q)
			if err != nil {
				e.Warnf("Error querying external volumes of plugin %q: %v", p.ID, err)
				break
			}
			if len(page.Volumes) > 0 {
				e.Println("\n" + e.Bold("External volumes of plugin "+term.Cell(p.ID)) + "\n" + externalTable(page.Volumes))
			}
			if page.NextToken == "" || page.NextToken == q.NextToken || len(page.Volumes) == 0 { // of a faulty plugin: would not end
				break
			}
			e.Println("...")
			q.NextToken = page.NextToken
		}
	}
	return nil
}

func externalTable(list []*api.CSIVolumeExternalStub) string {
	rows := []string{"External ID|Condition|Nodes"}
	for _, v := range list {
		condition := "OK"
		if v.IsAbnormal {
			condition = fmt.Sprintf("Abnormal (%s)", v.Status)
		}
		rows = append(rows, term.Row(v.ExternalID, condition, strings.Join(v.PublishedExternalNodeIDs, ",")))
	}
	return term.Table(rows)
}

func (s *statusFlags) oneCSI(ctx context.Context, e *term.Env, c *api.Client, stub *api.CSIVolumeListStub) error {
	v, _, err := c.CSIVolumes().Info(stub.ID, (&api.QueryOptions{Namespace: stub.Namespace}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying volume: %w", err)
	}
	if s.formats.Wanted() {
		return s.formats.Print(e, v)
	}
	e.Println(describeCSI(v))
	if text := topologies(v.Topologies); text != "" {
		e.Println("\n" + e.Bold("Topologies") + "\n" + text)
	}
	e.Println("\n" + e.Bold("Capabilities") + "\n" + csiModes(v.RequestedCapabilities))
	if len(v.Releases) > 0 {
		e.Println("\n" + e.Bold("Claims Being Released") + "\n" + releases(v.Releases, *s.detail))
	}
	if !s.short {
		e.Println("\n" + e.Bold("Allocations") + "\n" + allocs(v.Allocations, *s.detail))
	}
	return nil
}

// describeCSI returns the general data of a CSI volume.
func describeCSI(v *api.CSIVolume) string {
	return term.Pairs([]string{term.Row("ID", v.ID), term.Row("Name", v.Name), term.Row("Namespace", v.Namespace),
		term.Row("External ID", v.ExternalID), term.Row("Plugin ID", v.PluginID), term.Row("Provider", v.Provider),
		term.Row("Version", v.ProviderVersion), term.Row("Capacity", cmp.Or(capacity(v.Capacity), "<none>")),
		term.Row("Schedulable", v.Schedulable),
		term.Row("Controllers Healthy", v.ControllersHealthy), term.Row("Controllers Expected", v.ControllersExpected),
		term.Row("Nodes Healthy", v.NodesHealthy), term.Row("Nodes Expected", v.NodesExpected),
		term.Row("Access Mode", v.AccessMode), term.Row("Attachment Mode", v.AttachmentMode),
		term.Row("Mount Options", mountOptions(v.MountOptions))})
}

// mountOptions formats the file system and the mount flags of a volume, "<none>" without any.
func mountOptions(o *api.CSIMountOptions) string {
	var out []string
	if o != nil && o.FSType != "" {
		out = append(out, "fs_type: "+o.FSType)
	}
	if o != nil && len(o.MountFlags) > 0 {
		out = append(out, "flags: "+strings.Join(o.MountFlags, ", "))
	}
	return cmp.Or(strings.Join(out, " "), "<none>")
}

// topologies returns a table of the locations that a volume is accessible from, "" without any. Servers of Nomad 2.0 also
// send entries without segments.
func topologies(list []*api.CSITopology) string {
	rows := []string{"Topology|Segments"}
	for _, t := range list {
		if t == nil || len(t.Segments) == 0 {
			continue
		}
		var segments []string
		for _, key := range slices.Sorted(maps.Keys(t.Segments)) {
			segments = append(segments, key+"="+t.Segments[key])
		}
		rows = append(rows, term.Row(fmt.Sprintf("%02d", len(rows)-1), strings.Join(segments, " ")))
	}
	if len(rows) == 1 {
		return ""
	}
	return term.Table(rows)
}

// csiModes returns a table of the capabilities of a CSI volume.
func csiModes(list []*api.CSIVolumeCapability) string {
	rows := []string{"Access Mode|Attachment Mode"}
	for _, c := range list {
		rows = append(rows, term.Row(c.AccessMode, c.AttachmentMode))
	}
	return term.Table(rows)
}

// releases returns a table of the claims that are being released, and the commands that end their waits, or show more.
func releases(list []*api.CSIVolumeRelease, detail term.Detail) string {
	rows := []string{"Allocation|Node|State|Since|Waits For"}
	var commands []string
	for _, r := range list {
		rows = append(rows, term.Row(detail.ID(r.AllocID), detail.ID(r.NodeID), r.State, detail.Since(r.Since), r.Waits))
		if r.Command != "" && !slices.Contains(commands, term.Cell(r.Command)) {
			commands = append(commands, term.Cell(r.Command))
		}
	}
	out := term.Table(rows)
	if len(commands) > 0 {
		out += "\n\nRun next:\n  " + strings.Join(commands, "\n  ")
	}
	return out
}
