package killed_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// points are those of the connection between the nodes, in the order of a migration.
var points = map[string]hold{
	"request":  {up: true, text: "GET /v1/client/allocation/"},
	"middle":   {skipped: dataSize / 2},
	"end":      {text: "X-Nomad-Migrate-Sha256: "}, // a trailer
	"received": {text: "X-Nomad-Migrate-Sha256: ", after: true},
}

// TestMigration kills the node that gets the data of an allocation, and the node that sends it.
func TestMigration(t *testing.T) {
	f := newFleet(t)
	one, two := f.join("one"), f.join("two")
	for _, side := range []struct {
		name    string
		node    *node
		points  []string
		victims []victim
	}{
		{"receiver", two, []string{"request", "middle", "end", "received"}, victims},
		{"sender", one, []string{"request", "middle"}, []victim{agent, both}},
	} {
		t.Run(side.name, func(t *testing.T) {
			f.t = t
			f.cross(side.points, side.victims, func(step string, v victim) {
				one.eligible(true)
				two.eligible(false)
				f.run("web", group{static: staticPort, disk: true}.text())
				old := f.allocOf("web", "running", "")
				one.runs(old)
				sum := one.sum(old)
				two.eligible(true)
				one.eligible(false)
				one.http.hold(points[step])
				if _, err := f.server.Client.Allocations().Stop(&api.Allocation{ID: old.ID}, nil); err != nil {
					f.t.Fatal(err)
				}
				one.http.reached()
				side.node.kill(v, one.http.release)
				next := f.allocOf("web", "running", old.ID)
				two.runs(next)
				if got := two.sum(next); got != sum {
					f.t.Errorf("the data has the sum %s, want %s", got, sum)
				}
				if parts, err := filepath.Glob(filepath.Join(two.data, "alloc", "*", ".migrate")); err != nil || len(parts) > 0 {
					f.t.Errorf("partial data: %q, %v", parts, err)
				}
			})
		})
		f.t = t
	}
}

// eligible sets whether the node gets new allocations.
func (n *node) eligible(yes bool) {
	n.t.Helper()
	if _, err := n.server.Client.Nodes().ToggleEligibility(n.id, yes, nil); err != nil {
		n.t.Fatal(err)
	}
}

// sum returns the digest of an allocation's data.
func (n *node) sum(al *api.Allocation) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.data, "alloc", al.ID, "alloc", "data", "big"))
	if err != nil || len(text) <= dataSize {
		n.t.Fatalf("the data of allocation %s has %d bytes, %v", al.ID, len(text), err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
