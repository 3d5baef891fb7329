package services

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Every list is an array in JSON, also an empty one.
func TestStubs(t *testing.T) {
	reg := func(ns, name string, tags ...string) *catalog.Registration {
		return &catalog.Registration{Namespace: ns, ServiceName: name, Tags: tags}
	}
	for want, regs := range map[string][]*catalog.Registration{
		`[]`: nil,
		`[{"Namespace":"a","Services":[{"ServiceName":"db","Tags":[]},{"ServiceName":"web","Tags":["x","y"]}]},{"Namespace":"b","Services":[{"ServiceName":"web","Tags":["z"]}]}]`: {
			reg("b", "web", "z"), reg("a", "web", "y"), reg("a", "db"), reg("a", "web", "x", "y"), reg("a", "db")},
	} {
		got, err := json.Marshal(stubs(slices.Values(regs)))
		if err != nil || string(got) != want {
			t.Errorf("stubs() = %s, %v, want %s", got, err, want)
		}
	}
}
