package jobrules

import (
	"math"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// validateDevice checks a device block.
func validateDevice(d *nomad.RequestedDevice, f *faults) {
	parts := strings.SplitN(d.Name, "/", 3)
	if slices.Contains(parts, "") {
		f.add("the name must be a type, vendor/type or vendor/type/name")
	}
	if d.Count < 1 || d.Count > math.MaxInt32 {
		f.add("count is %d: it must be 1 or more", d.Count)
	}
	validateConstraints(f, d.Constraints)
	for _, c := range d.Constraints {
		switch {
		case c.Operand == nomad.ConstraintDistinctHosts || c.Operand == nomad.ConstraintDistinctProperty:
			f.add("a constraint has the operator %s, which is not allowed in devices: move it to the group or the job", c.Operand)
		case !ofDevice(c.LTarget) && !ofDevice(c.RTarget):
			f.add("the attribute of a constraint is %q: use one of the device, such as ${device.model} or ${device.attr.memory}", c.LTarget)
		}
	}
	validateAffinities(f, d.Affinities)
}

// ofDevice reports whether the target is a property of a device.
func ofDevice(target string) bool { return strings.HasPrefix(target, "${device.") }
