package operator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/open-nomad/open-nomad/command/spec"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/simulate"
)

// maxFleet is the maximum size of a fleet file in bytes.
const maxFleet = 1 << 20

// readFleet reads a fleet file: blocks "nodes" with an optional label, the node class.
func readFleet(e *term.Env, path string) ([]simulate.NodeSet, error) {
	text, err := e.Input(path, maxFleet)
	if err != nil {
		return nil, fmt.Errorf("Error reading the fleet file: %w", err)
	}
	s, root, err := spec.Parse("fleet", text)
	if err != nil {
		return nil, err
	}
	var out []simulate.NodeSet
	for _, block := range s.Blocks(root, "nodes") {
		// A block with a label is a map with the label as its key.
		for _, class := range slices.Sorted(maps.Keys(block)) {
			labeled, ok := block[class].([]map[string]any)
			if !ok || class == "attributes" || class == "meta" {
				continue
			}
			delete(block, class)
			for _, inner := range labeled {
				out = append(out, nodeSet(s, inner, class))
			}
		}
		if len(block) > 0 {
			out = append(out, nodeSet(s, block, ""))
		}
	}
	s.Rest(root, "")
	if err := s.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("Fleet specification: no nodes: add a block nodes \"class\" { count = 10 }")
	}
	return out, nil
}

// nodeSet reads one block.
func nodeSet(s *spec.Reader, from map[string]any, class string) simulate.NodeSet {
	number := func(key string, otherwise int) int {
		if n := s.Int(from, key); n != nil {
			return *n
		}
		return otherwise
	}
	out := simulate.NodeSet{
		Class: cmp.Or(class, s.Text(from, "node_class")), Count: number("count", 1), Datacenters: s.List(from, "datacenters"), Pool: s.Text(from,
			"node_pool"),
		CPU: number("cpu", 0), Cores: number("cores", 0), MemoryMB: number("memory", 0), DiskMB: number("disk", 0),
		Drivers: s.List(from, "drivers"), Attributes: s.Texts(from, "attributes"), Meta: s.Texts(from, "meta"),
	}
	s.Rest(from, "nodes.")
	return out
}
