package cgroup_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// More busy loops than processors cause pressure.
func TestPressure(t *testing.T) {
	h := hierarchy(t)
	g := create(t, h, cgroup.Limits{})
	if g.Pressure() == nil || len(g.Pressure()) == 0 {
		t.Skip("PSI needs a version 2 tree and CONFIG_PSI")
	}
	inside(t, g, strings.Repeat("while :; do :; done & ", runtime.NumCPU()+1)+"echo ready; wait")
	testpace.Until(t, "there is pressure on cpu", func() bool { return g.Pressure()["cpu"].Some > 0 })
	if p := g.Pressure()["cpu"]; p.Full > p.Some {
		t.Errorf("pressure on cpu is %+v: full is larger than some", p)
	}
}
