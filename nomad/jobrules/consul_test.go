package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// inConsul returns serving with provider "consul" and an edit, canonical.
func inConsul(edit func(tg *nomad.TaskGroup, group, task *nomad.Service)) *nomad.Job {
	return fresh(func(tg *nomad.TaskGroup, g, s *nomad.Service) {
		g.Provider, s.Provider = "", "consul"
		edit(tg, g, s)
	})
}

func sidecarOf() *nomad.ConsulConnect {
	return &nomad.ConsulConnect{SidecarService: &connect.SidecarService{}}
}

// TestConsulServices checks the rules of services of Consul that differ from those of native ones. want is "" for a valid job.
func TestConsulServices(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(tg *nomad.TaskGroup, group, task *nomad.Service)
		want string
	}{
		"plain":     {func(*nomad.TaskGroup, *nomad.Service, *nomad.Service) {}, ""},
		"name":      {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = "a_b.c" + strings.Repeat("x", 100) }, ""},
		"long name": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = strings.Repeat("x", 129) }, "the name is malformed: use 1 to 128 letters"},
		"slash":     {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = "a/b" }, "the name is malformed: use 1 to 128 letters"},
		"kind":      {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Kind = "mesh-gateway" }, ""},
		"wrong kind": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Kind = "typical" },
			"Service web kind must be one of consul service kind or empty"},
		"cluster": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Cluster = "west" }, "non-default Consul cluster requires Nomad Enterprise: jobs use the cluster \"default\""},
		"identity": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Identity = &nomad.WorkloadIdentity{Name: "consul-service_${x}", Audience: []string{"a"}}
		}, ""},
		"audience": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Identity = &nomad.WorkloadIdentity{} },
			"Service identity must provide at least one target aud value"},
		"algorithm": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Identity = &nomad.WorkloadIdentity{Audience: []string{"a"}, Alg: "none"}
		}, `unknown alg "none"`},
		"same name and port": {func(tg *nomad.TaskGroup, g, _ *nomad.Service) { tg.Services = append(tg.Services, codec.Copy(g)) }, "duplicate service"},

		"type in capitals": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Type = "HTTP" }, ""},
		"unknown type": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Type = "ttl" },
			`invalid check type ("ttl"), must be one of grpc, tcp, http, script`},
		"method":   {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Method = "PURGE" }, ""},
		"no path":  {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Path = "" }, "missing path"},
		"URL":      {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Path = "http://x/" }, "use a path without scheme and host"},
		"interval": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Interval = 0 }, "interval is 0s"},
		"no port": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel = "" },
			`Check service: "web" check invalid: check requires a port but neither check nor service "web" have a port`},
		"driver": {func(_ *nomad.TaskGroup, _, s *nomad.Service) {
			s.Checks[0].AddressMode, s.Checks[0].PortLabel = "driver", "80"
		}, ""},
		"number":          {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].PortLabel = "80" }, "port is the number 80"},
		"driver of group": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].AddressMode = "driver" }, "but a group has no driver"},
		"alloc":           {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].AddressMode = "alloc_ipv6" }, ""},
		"alloc of task":   {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].AddressMode = "alloc" }, "only checks of a group's services can have"},
		"auto":            {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].AddressMode = "auto" }, `address_mode is "auto"`},
		"TLS as it is": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].TLSServerName, g.Checks[0].GRPCUseTLS = "x", true
		}, ""},
		"status": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].InitialStatus = "x" }, `initial_status is "x"`},
		"threshold of a script": {func(_ *nomad.TaskGroup, _, s *nomad.Service) {
			s.Checks[0].Type, s.Checks[0].Command, s.Checks[0].FailuresBeforeWarning = "script", "x", 1
		}, "failures_before_warning is set"},
		"notes": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Notes = strings.Repeat("x", 256) }, "notes has 256 bytes"},
		"tcp in the mesh": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Connect, g.Checks[0].Type = sidecarOf(), "tcp" },
			"tcp checks are not valid for Connect enabled services"},
		"exposed":             {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Connect, g.Checks[0].Expose = sidecarOf(), true }, ""},
		"exposed, no sidecar": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Expose = true }, "only services of a group with a sidecar_service"},
		"exposed script": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			c := g.Checks[0]
			g.Connect, c.Expose, c.Type, c.Command, c.TaskName = sidecarOf(), true, "script", "x", "t"
		}, "only http and grpc checks can be exposed"},
		"restart of ignored": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].OnUpdate, g.Checks[0].CheckRestart = "ignore", &nomad.CheckRestart{Limit: 1}
		}, `on_update is "ignore" and check_restart is set`},
	} {
		t.Run(name, func(t *testing.T) {
			err := jobrules.Validate(inConsul(c.edit))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("Validate() = %v, want only %q", err, c.want)
			}
		})
	}
}

// TestBound_Mesh checks that the services for which the servers add tasks and ports are limited.
func TestBound_Mesh(t *testing.T) {
	for name, c := range map[string]struct {
		services, checks int // checks of each service
		want             bool
	}{"services": {1001, 0, true}, "checks": {1, 1000, true}, "enough": {100, 9, false}} {
		j := sample("service")
		for range c.services {
			s := &nomad.Service{Name: "web", Connect: sidecarOf()}
			for range c.checks {
				s.Checks = append(s.Checks, &nomad.ServiceCheck{Expose: true})
			}
			j.TaskGroups[0].Services = append(j.TaskGroups[0].Services, s)
		}
		err := jobrules.Bound(j)
		if got := err != nil && strings.Contains(err.Error(), "1001 services with a connect block and exposed checks: the limit is 1000"); got != c.want ||
			err != nil && !got {
			t.Errorf("%s: Bound() = %v, want an error %v", name, err, c.want)
		}
	}
}
