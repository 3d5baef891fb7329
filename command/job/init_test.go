package job

import (
	"reflect"
	"testing"
)

// TestExamples checks that each short example is the long one without comments, and that the example of the mesh has a
// proxy on both sides and is for Consul.
func TestExamples(t *testing.T) {
	for name, c := range map[string]struct{ long, short []byte }{
		"example": {example, exampleShort}, "connect": {exampleConnect, exampleConnectShort},
	} {
		long, short := parsed(t, string(c.long)), parsed(t, string(c.short))
		long.Canonicalize()
		short.Canonicalize()
		if !reflect.DeepEqual(long, short) {
			t.Errorf("%s: the short example is another job", name)
		}
	}
	mesh := parsed(t, string(exampleConnect))
	mesh.Canonicalize()
	for _, g := range mesh.TaskGroups {
		s := g.Services[0]
		if s.Provider != "consul" || s.Connect == nil || s.Connect.SidecarService == nil || g.Networks[0].Mode != "bridge" {
			t.Errorf("group %s: %+v in network %s", *g.Name, s, g.Networks[0].Mode)
		}
	}
	if up := mesh.TaskGroups[1].Services[0].Connect.SidecarService.Proxy.Upstreams; len(up) != 1 || up[0].DestinationName != mesh.TaskGroups[0].Services[0].Name {
		t.Errorf("upstreams %+v", up)
	}
}

// TestRunLine checks that the command for a planned job has the flags of the plan.
func TestRunLine(t *testing.T) {
	p := &plan{}
	p.vars, p.varFiles, p.consul = &[]string{"a=b"}, &[]string{}, "team"
	const want = `nomad job run -check-index 7 -var="a=b" -consul-namespace="team" x.hcl`
	if got := p.runLine(planCommand().EnvOf([]string{"x.hcl"}), 7); got != want {
		t.Errorf("runLine() = %s, want %s", got, want)
	}
}
