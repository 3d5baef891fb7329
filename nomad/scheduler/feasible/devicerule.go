package feasible

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// targetDeviceIDs is the target for the IDs of single instances.
const targetDeviceIDs = "${device.ids}"

// deviceRule is a compiled constraint or affinity of a device block. Numbers are compared with their units.
type deviceRule struct {
	left, operand, right string
	text                 relation
	ofInstance           bool // compares the ID of an instance
}

func newDeviceRule(left, operand, right string) deviceRule {
	// A rule that does not compile holds for no device. Registration refuses it, but an older state may
	// contain one.
	c, _ := Compile(left, operand, right)
	return deviceRule{left: left, operand: operand, right: right, text: c.holds,
		ofInstance: left == targetDeviceIDs || right == targetDeviceIDs}
}

// holds reports whether an instance of the device meets the rule.
func (r *deviceRule) holds(d *nomad.NodeDeviceResource, id string) bool {
	left, right := deviceTarget(r.left, d, id), deviceTarget(r.right, d, id)
	if r.ofInstance && left != nil && right != nil {
		switch r.operand {
		case nomad.ConstraintSetContains, nomad.ConstraintSetContainsAll, nomad.ConstraintSetContainsAny, "=", "==", "is":
			// The rule lists the instances that may be used.
			list := right
			if r.left != targetDeviceIDs {
				list = left
			}
			return slices.Contains(splitSet(attributeText(list)), id)
		}
	}
	if left != nil && right != nil {
		if want := orders[r.operand]; want != nil {
			order, ok := compareAttributes(left, right)
			if !ok {
				return r.operand == "!=" || r.operand == "not"
			}
			return want(order)
		}
	}
	return r.text(textOf(left), textOf(right), left != nil, right != nil)
}

// orders maps the operators that compare values to the orders that they accept.
var orders = map[string]func(order int) bool{
	"=": func(o int) bool { return o == 0 }, "==": func(o int) bool { return o == 0 }, "is": func(o int) bool { return o == 0 },
	"!=": func(o int) bool { return o != 0 }, "not": func(o int) bool { return o != 0 },
	"<": func(o int) bool { return o < 0 }, "<=": func(o int) bool { return o <= 0 },
	">": func(o int) bool { return o > 0 }, ">=": func(o int) bool { return o >= 0 },
}

func textOf(a *nomad.Attribute) string {
	if a == nil {
		return ""
	}
	return attributeText(a)
}

// deviceTarget returns the value of one side of a rule, or nil if the device does not have it.
func deviceTarget(target string, d *nomad.NodeDeviceResource, id string) *nomad.Attribute {
	name, isTarget := strings.CutPrefix(target, "${")
	if !isTarget {
		return ParseAttribute(target)
	}
	name = strings.TrimSuffix(name, "}")
	switch name {
	case "device.ids":
		return textAttribute(id)
	case "device.model":
		return textAttribute(d.Name)
	case "device.vendor":
		return textAttribute(d.Vendor)
	case "device.type":
		return textAttribute(d.Type)
	}
	if key, ok := strings.CutPrefix(name, "device.attr."); ok {
		return d.Attributes[key]
	}
	return nil
}

// String returns the ask as in the job, such as "2 nvidia/gpu".
func (ask *deviceAsk) String() string {
	name := strings.Join(slices.DeleteFunc([]string{ask.vendor, ask.kind, ask.name}, func(s string) bool { return s == "" }), "/")
	out := fmt.Sprintf("%d %s", ask.count, name)
	for i := range ask.rules {
		r := &ask.rules[i]
		out += strings.TrimRight(fmt.Sprintf(" with %s %s %s", r.left, r.operand, r.right), " ")
	}
	return out
}
