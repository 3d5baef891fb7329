package cgroup

import (
	"strconv"
	"strings"
)

// Pressure is the percentage of the last ten seconds in which some, or all, processes of a group
// waited for a resource (PSI, accounting/psi.rst of the kernel).
type Pressure struct{ Some, Full float64 }

// Pressure returns the pressure on "cpu", "memory" and "io". It reads the version 2 tree even if
// limits are set elsewhere. Without that tree or without PSI in the kernel, it returns nothing.
func (g *Group) Pressure() map[string]Pressure {
	dir := g.Dir()
	if dir == "" {
		return nil
	}
	out := map[string]Pressure{}
	for _, resource := range []string{"cpu", "memory", "io"} {
		if text, err := read(dir, resource+".pressure"); err == nil {
			out[resource] = Pressure{Some: average(text, "some"), Full: average(text, "full")}
		}
	}
	return out
}

// average parses the first average of a line such as
//
//	some avg10=0.00 avg60=0.00 avg300=0.00 total=1218208
func average(text, kind string) float64 {
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, kind+" avg10=")
		if !found {
			continue
		}
		value, _, _ := strings.Cut(rest, " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			return n
		}
	}
	return 0
}
