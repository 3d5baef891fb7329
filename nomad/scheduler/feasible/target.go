package feasible

import (
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// Target is one side of a constraint: a literal, or a property of the node
// written as ${node.…}, ${attr.…} or ${meta.…}.
type Target struct {
	text string // the literal, or the name within the braces
	node bool   // the value is read from the node
}

// ParseTarget parses a target. Anything but a single ${…} is a literal.
func ParseTarget(s string) Target {
	if name, ok := strings.CutPrefix(s, "${"); ok && strings.HasSuffix(name, "}") {
		return Target{text: strings.TrimSuffix(name, "}"), node: true}
	}
	return Target{text: s}
}

// Value returns the value of the target on the node, and whether it is set.
func (t Target) Value(n *nomad.Node) (string, bool) {
	if !t.node {
		return t.text, true
	}
	switch t.text {
	case "node.unique.id":
		return n.ID, true
	case "node.unique.name":
		return n.Name, true
	case "node.datacenter":
		return n.Datacenter, true
	case "node.class":
		return n.NodeClass, true
	case "node.pool":
		return n.NodePool, true
	}
	if key, ok := strings.CutPrefix(t.text, "attr."); ok {
		v, found := n.Attributes[key]
		return v, found
	}
	if key, ok := strings.CutPrefix(t.text, "meta."); ok {
		v, found := n.Meta[key]
		return v, found
	}
	return "", false
}
