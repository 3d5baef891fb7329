package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// devices prints the devices of a node with their attributes.
func devices(e *term.Env, n *api.Node) {
	if n.NodeResources == nil || len(n.NodeResources.Devices) == 0 {
		return
	}
	rows := []string{"Device|ID|Healthy|PCI Bus ID|Message"}
	for _, d := range n.NodeResources.Devices {
		for _, i := range d.Instances {
			bus := ""
			if i.Locality != nil {
				bus = i.Locality.PciBusID
			}
			rows = append(rows, term.Row(deviceName(d), i.ID, i.Healthy, bus, i.HealthDescription))
		}
	}
	e.Println("\n" + e.Bold("Devices") + "\n" + term.Table(rows))
	for _, d := range n.NodeResources.Devices {
		values := map[string]string{}
		for key, a := range d.Attributes {
			values[key] = attributeText(a)
		}
		if len(values) > 0 {
			attributes(e, "Device Group Attributes", with(values, "Device Group", deviceName(d)))
		}
	}
}

// with returns the values with one more.
func with(values map[string]string, key, value string) map[string]string {
	out := maps.Clone(values)
	out[key] = value
	return out
}

func deviceName(d *api.NodeDeviceResource) string {
	return strings.Join([]string{d.Vendor, d.Type, d.Name}, "/")
}

func attributeText(a *api.Attribute) string {
	text := ""
	switch {
	case a == nil:
	case a.FloatVal != nil:
		text = strconv.FormatFloat(*a.FloatVal, 'g', -1, 64)
	case a.IntVal != nil:
		text = strconv.FormatInt(*a.IntVal, 10)
	case a.StringVal != nil:
		text = *a.StringVal
	case a.BoolVal != nil:
		text = strconv.FormatBool(*a.BoolVal)
	}
	if a != nil && a.Unit != "" {
		text += " " + a.Unit
	}
	return text
}

// assigned prints how many instances of each device allocations have reserved.
func assigned(e *term.Env, n *api.Node, allocs []*api.Allocation) {
	if n.NodeResources == nil || len(n.NodeResources.Devices) == 0 {
		return
	}
	used := map[string]int{}
	for _, a := range allocs {
		if a.ClientStatus != api.AllocClientStatusRunning && a.ClientStatus != api.AllocClientStatusPending || a.AllocatedResources == nil {
			continue
		}
		for _, t := range a.AllocatedResources.Tasks {
			for _, d := range t.Devices {
				used[strings.Join([]string{d.Vendor, d.Type, d.Name}, "/")] += len(d.DeviceIDs)
			}
		}
	}
	var rows []string
	for _, d := range n.NodeResources.Devices {
		rows = append(rows, term.Row(deviceName(d), fmt.Sprintf("%d/%d", used[deviceName(d)], len(d.Instances))))
	}
	e.Println("\n" + e.Bold("Allocated Devices") + "\n" + term.Table(append([]string{"Device|Instances"}, rows...)))
}

// deviceUsage prints a summary of each instance.
func deviceUsage(e *term.Env, s *api.HostStats) {
	if rows := term.DeviceSummaries(s.DeviceStats); len(rows) > 0 {
		e.Println("\n" + e.Bold("Device Resource Utilization") + "\n" + term.Pairs(rows))
	}
}

// deviceUsageEach prints all statistics of each instance.
func deviceUsageEach(e *term.Env, s *api.HostStats) {
	if len(s.DeviceStats) == 0 {
		return
	}
	e.Println(e.Bold("Device Stats"))
	term.EachDevice(s.DeviceStats, func(name string, s *api.DeviceStats) {
		rows := slices.Concat([]string{term.Row("Device", name), term.Row("Summary", s.Summary)}, term.DeviceDetails(s))
		e.Println(term.Pairs(rows) + "\n")
	})
}
