package job

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
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

// TestExamples_Valid checks that servers accept the examples. That of the mesh needs servers with Consul.
func TestExamples_Valid(t *testing.T) {
	identity := &nomad.WorkloadIdentity{Audience: []string{"consul.io"}}
	s, _ := servertest.Start(t, func(cfg *server.Config) {
		cfg.Kinds = drivers.Table()
		cfg.Consul = consul.Config{Setting: consul.Consul, ServiceIdentity: identity, TaskIdentity: identity}
	})
	for name, text := range map[string][]byte{"example": example, "short": exampleShort, "connect": exampleConnect,
		"short connect": exampleConnectShort} {
		j := parsed(t, string(text))
		ns := nomad.DefaultNamespace
		j.Namespace = &ns
		job, err := httpapi.CanonicalJob(j)
		if err != nil {
			t.Fatal(err)
		}
		req := &message.JobValidateRequest{Job: job, WriteRequest: message.WriteRequest{Region: "global", Namespace: ns}}
		if out := servertest.Read[message.JobValidateResponse](t, s, "Job.Validate", req); out.Error != "" || out.Warnings != "" {
			t.Errorf("%s: %s %s", name, out.Error, out.Warnings)
		}
	}
}
