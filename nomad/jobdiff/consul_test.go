package jobdiff_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/jobdiff"
)

// TestConsul checks the objects of a diff for what only Consul has.
func TestConsul(t *testing.T) {
	job := func(edit func(tg *nomad.TaskGroup, s *nomad.Service)) *nomad.Job {
		j := diffJob()
		tg := j.TaskGroups[0]
		tg.Services = []*nomad.Service{{Name: "web", Provider: "consul", Connect: &nomad.ConsulConnect{SidecarService: &connect.SidecarService{
			Proxy: &connect.Proxy{Upstreams: []connect.Upstream{{DestinationName: "db", LocalBindPort: 1}}}}}}}
		edit(tg, tg.Services[0])
		return j
	}
	for name, c := range map[string]struct {
		edit func(tg *nomad.TaskGroup, s *nomad.Service)
		want string
	}{
		"group": {func(tg *nomad.TaskGroup, _ *nomad.Service) { tg.Consul = &nomad.Consul{Namespace: "a"} },
			"Added {Consul}\n   Added Namespace: \"\" => \"a\""},
		"task": {func(tg *nomad.TaskGroup, _ *nomad.Service) { tg.Tasks[0].Consul = &nomad.Consul{Cluster: "default"} },
			"Added {Consul}\n    Added Cluster: \"\" => \"default\""},
		"tags":   {func(_ *nomad.TaskGroup, s *nomad.Service) { s.Tags = []string{"a"} }, "Edited {Service}\n   Added {Tags}"},
		"canary": {func(_ *nomad.TaskGroup, s *nomad.Service) { s.CanaryTags = []string{"a"} }, "Edited {Service}\n   Added {CanaryTags}"},
		"check": {func(_ *nomad.TaskGroup, s *nomad.Service) { s.Checks = []*nomad.ServiceCheck{{Name: "c"}} },
			"Edited {Service}\n   Added {Check}"},
		"connect": {func(_ *nomad.TaskGroup, s *nomad.Service) { s.Connect.Native = true }, "Edited {Service}\n   Edited {ConsulConnect}\n    Edited Native"},
		"upstream": {func(_ *nomad.TaskGroup, s *nomad.Service) {
			s.Connect.SidecarService.Proxy.Upstreams[0].LocalBindPort = 2
		},
			"Edited {ConsulConnect}\n    Edited {SidecarService}\n     Edited {ConsulProxy}\n      Edited {ConsulUpstreams}\n       Edited LocalBindPort: \"1\" => \"2\""},
		"sidecar task": {func(_ *nomad.TaskGroup, s *nomad.Service) { s.Connect.SidecarTask = &nomad.SidecarTask{User: "u"} },
			"Edited {ConsulConnect}\n    Added {SidecarTask}\n     Added User"},
		"gateway": {func(_ *nomad.TaskGroup, s *nomad.Service) {
			s.Connect.Gateway = &connect.Gateway{Proxy: &connect.GatewayProxy{EnvoyDNSDiscoveryType: "STRICT_DNS"}}
		}, "Edited {ConsulConnect}\n    Added {ConsulGateway}\n     Added {Proxy}"},
		"identity": {func(_ *nomad.TaskGroup, s *nomad.Service) { s.Identity = &nomad.WorkloadIdentity{Name: "x"} },
			"Edited {Service}\n   Added {Identity}"},
	} {
		got := show(jobdiff.Compare(job(func(*nomad.TaskGroup, *nomad.Service) {}), job(c.edit)))
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: diff =\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
