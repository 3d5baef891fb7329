package feasible_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/feasible"
)

func TestConstraints(t *testing.T) {
	n := &nomad.Node{
		ID: "id", Name: "name", Datacenter: "dc1", NodeClass: "big", NodePool: "default",
		Attributes: map[string]string{"kernel.name": "linux", "kernel.version": "6.18.0-rc1", "nomad.version": "1.2.3",
			"n": "9", "f": "2.5", "word": "b", "set": "a, b,c", "empty": ""},
		Meta: map[string]string{"rack": "r1", "want": "linux"},
	}
	cases := []struct {
		left, op, right string
		want            bool
	}{
		{"${attr.kernel.name}", "=", "linux", true},
		{"${attr.kernel.name}", "==", "linux", true},
		{"${attr.kernel.name}", "is", "windows", false},
		{"${attr.kernel.name}", "=", "${meta.want}", true},
		{"${attr.none}", "=", "", false},
		{"${attr.none}", "!=", "linux", true},
		{"${attr.kernel.name}", "not", "linux", false},
		{"${node.unique.id}", "=", "id", true},
		{"${node.unique.name}", "=", "name", true},
		{"${node.datacenter}", "=", "dc1", true},
		{"${node.class}", "=", "big", true},
		{"${node.pool}", "=", "default", true},
		{"${node.nothing}", "is_set", "", false},
		{"literal", "=", "literal", true},
		{"${attr.n}", ">", "10", false}, // compared as integers, not as strings
		{"${attr.n}", "<", "10", true},
		{"${attr.f}", ">=", "2.5", true},
		{"${attr.f}", "<", "2.5", false},
		{"${attr.word}", "<=", "c", true},
		{"${attr.none}", "<", "10", false},
		{"${attr.empty}", "is_set", "", true},
		{"${attr.none}", "is_set", "", false},
		{"${attr.none}", "is_not_set", "", true},
		{"${meta.rack}", "is_not_set", "", false},
		{"${attr.nomad.version}", "version", ">= 1.0, < 2", true},
		{"${attr.nomad.version}", "version", "~> 1.3", false},
		{"${attr.kernel.name}", "version", ">= 1.0", false},
		{"${attr.kernel.version}", "version", ">= 6.17", false}, // a prerelease
		{"${attr.kernel.version}", "semver", ">= 6.17.0", true},
		{"${attr.kernel.version}", "semver", ">= 6.18.0", false},
		{"${attr.nomad.version}", "semver", ">1.2.2, !=1.2.4, <= 1.2.3", true},
		{"${meta.rack}", "regexp", "^r[0-9]$", true},
		{"${meta.rack}", "regexp", "^x", false},
		{"${attr.none}", "regexp", ".*", false},
		{"${attr.set}", "set_contains", "a,c", true},
		{"${attr.set}", "set_contains_all", "a, d", false},
		{"${attr.set}", "set_contains_any", "d, b", true},
		{"${attr.set}", "set_contains_any", "x", false},
	}
	for _, c := range cases {
		k, err := feasible.Compile(c.left, c.op, c.right)
		if err != nil {
			t.Errorf("Compile(%s) = %v", k, err)
			continue
		}
		for range 2 { // the second result comes from the cache
			if got := k.Holds(n); got != c.want {
				t.Errorf("%s holds = %v, want %v", k, got, c.want)
			}
		}
	}
}

func TestConstraints_Invalid(t *testing.T) {
	n := &nomad.Node{Attributes: map[string]string{"a": "1.0.0", "bad": "["}}
	for _, c := range [][3]string{
		{"${attr.a}", "almost", "1"},
		{"${attr.a}", "regexp", "["},
		{"${attr.a}", "version", "about 1"},
		{"${attr.a}", "semver", "~> 1.0.0"},
	} {
		k, err := feasible.Compile(c[0], c[1], c[2])
		if err == nil || k.Holds(n) {
			t.Errorf("%s: err %v, holds %v; want an error and false", k, err, k.Holds(n))
		}
	}
	k, err := feasible.Compile("${attr.a}", "regexp", "${attr.bad}")
	if err != nil || k.Holds(n) {
		t.Errorf("%s: a broken expression of the node: err %v, holds %v", k, err, k.Holds(n))
	}
}

func TestEligibility_Class(t *testing.T) {
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{
		{Name: "a", Constraints: []*nomad.Constraint{{LTarget: "${attr.gpu}", Operand: "is_set"}}},
		{Name: "b"},
		{Name: "c", Constraints: []*nomad.Constraint{{LTarget: "${attr.no}", Operand: "is_set"}}},
	}}
	plain := &nomad.Node{ID: "1", ComputedClass: "plain"}
	e := feasible.NewEligibility(job, feasible.Rules{})
	if why := e.Check("a", plain); why != "${attr.gpu} is_set" {
		t.Errorf("Check(a) = %q", why)
	}
	if got := e.Classes(); got["plain"] {
		t.Errorf("Classes() = %v after a alone", got)
	}
	if why := e.Check("b", plain); why != "" {
		t.Errorf("Check(b) = %q", why)
	}
	if got := e.Classes(); !got["plain"] || e.Escaped() {
		t.Errorf("Classes() = %v, escaped %v", got, e.Escaped())
	}
	if why := e.Check("x", plain); why == "" {
		t.Error("an unknown group fits")
	}
	// The result is cached by class.
	if why := e.Check("a", &nomad.Node{ID: "2", ComputedClass: "plain", Attributes: map[string]string{"gpu": "1"}}); why == "" {
		t.Error("a node of an ineligible class was checked again")
	}
	if why := e.Check("a", &nomad.Node{ID: "3", Attributes: map[string]string{"gpu": "1"}}); why != "" || !e.Escaped() {
		t.Errorf("a node without class: %q, escaped %v", why, e.Escaped())
	}

	job.TaskGroups[1].Constraints = []*nomad.Constraint{{LTarget: "${node.unique.id}", Operand: "=", RTarget: "2"}}
	e = feasible.NewEligibility(job, feasible.Rules{})
	if first, second := e.Check("b", plain), e.Check("b", &nomad.Node{ID: "2", ComputedClass: "plain"}); first == "" || second != "" ||
		!e.Escaped() {
		t.Errorf("unique constraint: %q, %q, escaped %v", first, second, e.Escaped())
	}
}
