package term

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/api"
)

// DeviceName returns the name of an instance of a device, such as "nvidia/gpu/T4[GPU-0]".
func DeviceName(g *api.DeviceGroupStats, id string) string {
	return g.Vendor + "/" + g.Type + "/" + g.Name + "[" + id + "]"
}

// EachDevice calls f for each instance, sorted by name.
func EachDevice(groups []*api.DeviceGroupStats, f func(name string, s *api.DeviceStats)) {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b *api.DeviceGroupStats) int { return cmp.Compare(DeviceName(a, ""), DeviceName(b, "")) })
	for _, g := range groups {
		for _, id := range slices.Sorted(maps.Keys(g.InstanceStats)) {
			if s := g.InstanceStats[id]; s != nil {
				f(DeviceName(g, id), s)
			}
		}
	}
}

// DeviceSummaries returns a row for each instance with its summary.
func DeviceSummaries(groups []*api.DeviceGroupStats) (rows []string) {
	EachDevice(groups, func(name string, s *api.DeviceStats) { rows = append(rows, Row(name, s.Summary)) })
	return rows
}

// DeviceDetails returns a row for each statistic of an instance. Names of nested ones contain dots.
func DeviceDetails(s *api.DeviceStats) []string { return details(s.Stats, "") }

func details(o *api.StatObject, prefix string) (rows []string) {
	if o == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(o.Attributes)) {
		rows = append(rows, Row(prefix+key, o.Attributes[key]))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Nested)) {
		rows = append(rows, details(o.Nested[key], prefix+key+".")...)
	}
	return rows
}
