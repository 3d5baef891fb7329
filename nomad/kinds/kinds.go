// Package kinds finds the kind of a driver that a job names, and the isolation levels and the privilege
// of tasks.
//
//	name of a built-in kind ──▶ that kind
//	another name ──▶ attribute driver.<name>.backend of the nodes ──▶ kind, if all nodes agree
//
// Servers have neither the names nor the configurations of the instances that nodes run. A node reports
// the kind of each instance in an attribute. Servers check a job with the kind; the node repeats the
// check with the configuration of the instance. The agent passes the built-in kinds to its server. The
// package stores nothing and starts no goroutine.
package kinds

import (
	"iter"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Table holds the built-in kinds by name.
type Table map[string]*drivers.Kind

// Names resolves the names of drivers.
type Names struct {
	table Table
	nodes iter.Seq[*nomad.Node] // nil: built-in kinds only
	seen  map[string]instance   // by name; nil before the nodes are read
}

// instance is what the nodes report about a name.
type instance struct {
	kind  *drivers.Kind
	mixed bool // nodes report different kinds, or one that is not built-in
	// legacy means that Table.Legacy is true for a node.
	legacy bool
}

// Names returns a resolver that also reads the nodes, once, when a name is not built-in. The nodes
// may be nil.
func (t Table) Names(nodes iter.Seq[*nomad.Node]) *Names { return &Names{table: t, nodes: nodes} }

// Kind returns the kind of a driver, or nil if it is not known.
func (n *Names) Kind(driver string) *drivers.Kind {
	if k := n.table[driver]; k != nil {
		return k
	}
	if i := n.reported()[driver]; !i.mixed {
		return i.kind
	}
	return nil
}

// Absent reports whether a driver is neither built-in nor on a node. It is false without nodes.
func (n *Names) Absent(driver string) bool {
	if n.nodes == nil || n.table[driver] != nil {
		return false
	}
	_, there := n.reported()[driver]
	return !there
}

// reported reads the nodes. Drivers that a node has not detected do not count.
func (n *Names) reported() map[string]instance {
	if n.seen != nil || n.nodes == nil {
		return n.seen
	}
	n.seen = map[string]instance{}
	for node := range n.nodes {
		for name, info := range node.Drivers {
			if info == nil || !info.Detected {
				continue
			}
			kind := n.table.On(node, name)
			before, again := n.seen[name]
			n.seen[name] = instance{kind: kind, mixed: kind == nil || again && (before.mixed || before.kind != kind),
				legacy: before.legacy || n.table.Legacy(node, name)}
		}
	}
	return n.seen
}

// On returns the kind of a driver on a node, or nil if it is not known. A built-in name is always
// that of its kind.
func (t Table) On(node *nomad.Node, driver string) *drivers.Kind {
	if k := t[driver]; k != nil {
		return k
	}
	if node == nil {
		return nil
	}
	return t[node.Attributes[drivers.Attribute(driver, drivers.BackendKey)]]
}

// Example returns a built-in kind that every node has and whose capabilities suffice, the first by
// name. It is empty if there is none.
func (n *Names) Example(suffices func(drivers.Capabilities) bool) string {
	for _, name := range slices.Sorted(maps.Keys(n.table)) {
		if k := n.table[name]; !k.OptIn && !k.Daemon && suffices(k.Capabilities) {
			return name
		}
	}
	return ""
}

// Exposed reports whether the tasks of a kind can access the files of the node. It is false for nil:
// then only the node can decide.
func Exposed(k *drivers.Kind) bool {
	return k != nil && k.Capabilities.FSIsolation == drivers.FSIsolationNone
}
