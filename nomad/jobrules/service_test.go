package jobrules_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// serving returns a job whose group and task have a service with a check each.
func serving() *nomad.Job {
	check := func(kind string) []*nomad.ServiceCheck {
		return []*nomad.ServiceCheck{{Type: kind, Path: "/", Interval: 10 * time.Second, Timeout: time.Second}}
	}
	j := sample("service")
	tg := j.TaskGroups[0]
	tg.Networks = nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "http"}}}}
	tg.Services = []*nomad.Service{{Name: "web", Provider: "nomad", PortLabel: "http", Checks: check("http")}}
	tg.Tasks[0].Services = []*nomad.Service{{Name: "db", Provider: "nomad", PortLabel: "http", Checks: check("tcp")}}
	return j
}

// fresh returns serving with an edit, canonical.
func fresh(edit func(tg *nomad.TaskGroup, group, task *nomad.Service)) *nomad.Job {
	j := serving()
	tg := j.TaskGroups[0]
	edit(tg, tg.Services[0], tg.Tasks[0].Services[0])
	jobrules.Canonicalize(j)
	return j
}

func TestServiceFaults(t *testing.T) {
	inGroup, inTask := `job "j", group "g", service "web": `, `job "j", group "g", task "t", service "db": `
	groupCheck, taskCheck := `job "j", group "g", service "web", check "service: \"web\" check": `,
		`job "j", group "g", task "t", service "db", check "service: \"db\" check": `
	for name, c := range map[string]struct {
		edit func(tg *nomad.TaskGroup, group, task *nomad.Service)
		want string
	}{
		"cluster, mapped": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.DeclaredProvider, g.Cluster = "consul", "west" }, inGroup +
			`cluster is "west", but clusters are a feature of Consul`},
		"kind, mapped": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.DeclaredProvider, g.Kind = "consul", "mesh-gateway" }, inGroup +
			`kind is a feature of Consul`},
		"declared by a caller": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.DeclaredProvider = "zk" }, inGroup +
			`DeclaredProvider is "zk", but only servers set it`},
		"weight": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Weights = &nomad.ServiceWeights{Passing: 65536} }, inGroup +
			"weights are 65536 and 0: each must be 0 to 65535"},
		"negative weight": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Weights = &nomad.ServiceWeights{Warning: -1} }, inGroup +
			"weights are 0 and -1"},
		"unknown provider": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Provider = "zk" }, inTask +
			`unknown provider "zk": set provider = "nomad" or "consul"`},
		"name": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = "a_b" }, `service "a_b": the name is malformed`},
		"long name": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = strings.Repeat("a", 64) },
			"the name is malformed: use 1 to 63 letters"},
		"dash at the end": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Name = "a-" }, "the name is malformed"},
		"one name and port": {func(tg *nomad.TaskGroup, g, _ *nomad.Service) { tg.Services = append(tg.Services, codec.Copy(g)) }, inGroup +
			`duplicate service with the port "http": change the name or the port of one`},
		"one in the task": {func(tg *nomad.TaskGroup, _, s *nomad.Service) {
			tg.Tasks[0].Services = append(tg.Tasks[0].Services, codec.Copy(s))
		}, inTask + "duplicate service"},
		"unknown port": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel = "htpt" }, inGroup +
			`unknown port "htpt": add port "htpt" to a network block`},
		"unknown task port": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.PortLabel = "htpt" }, inTask + `unknown port "htpt"`},
		"number in a task": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.PortLabel = "80" }, inTask +
			"port is the number 80: in a task, use the label"},
		"number out of range": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel = "65536" }, inGroup +
			"port is 65536: it must be 1 to 65535"},
		"address mode": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.AddressMode = "bridge" }, inGroup +
			`address_mode is "bridge": use auto, host, driver, alloc or alloc_ipv6`},
		"driver of a group": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.AddressMode = "driver" }, inGroup +
			`address_mode is "driver", but a group has no driver`},
		"alloc in a task": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.AddressMode = "alloc" }, inTask +
			`address_mode is "alloc", which only services of a group can have`},
		"address and mode": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Address, g.AddressMode = "x", "host" }, inGroup +
			"address is set and address_mode is"},
		"connect": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Connect = &nomad.ConsulConnect{} }, inGroup +
			"connect is a feature of Consul"},
		"on_update": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.OnUpdate = "x" }, inGroup +
			`on_update is "x": use require_healthy, ignore_warnings or ignore`},
		"other task": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.TaskName = "u" }, inTask +
			`task is "u", but the service belongs to the task "t"`},
		"unknown task": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.TaskName = "u" }, inGroup + `unknown task "u"`},

		"no type": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Type = "" }, groupCheck +
			"missing type: use tcp, http, grpc or script"},
		"grpc without port": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Type, g.PortLabel = "grpc", "" }, groupCheck +
			"no address: set port of the check or of the service"},
		"grpc_service of http": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].GRPCService = "x" }, groupCheck +
			"grpc_service and grpc_use_tls need type"},
		"initial status": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].InitialStatus = "pending" }, groupCheck +
			`initial_status is "pending": use passing, warning or critical`},
		"notes": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Notes = strings.Repeat("x", 256) }, groupCheck +
			"notes has 256 bytes: the limit is 255"},
		"unknown type": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Type = "udp" },
			`type is "udp": use tcp, http, grpc or script`},
		"no address": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel = "" }, groupCheck +
			"no address: set port of the check or of the service"},
		"check port": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].PortLabel = "admin" }, groupCheck +
			`unknown port "admin"`},
		"check number": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].PortLabel = "80" }, taskCheck +
			"port is the number 80"},
		"interval 0": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Interval = 0 }, groupCheck +
			"interval is 0s: set it to 1s or more"},
		"timeout": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].Timeout = time.Millisecond }, taskCheck +
			"timeout is 1ms: set it to 1s or more"},
		"no path": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Path = "" }, groupCheck + "missing path"},
		"absolute path": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Path = "http://169.254.169.254/" }, groupCheck +
			`path is "http://169.254.169.254/": use a path without scheme and host`},
		"path with host": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Path = "//evil/x" },
			"use a path without scheme and host"},
		"protocol": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Protocol = "ftp" },
			`protocol is "ftp": use http or https`},
		"method": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Method = "BREW" }, `method is "BREW": use one of GET`},
		"header": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Header = map[string][]string{"A b": {"x"}} },
			`the header name "A b" is malformed`},
		"check address mode": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].AddressMode = "driver" },
			`address_mode is "driver": use host, alloc or alloc_ipv6`},
		"check on_update": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].OnUpdate = "x" }, groupCheck +
			"on_update is"},
		"restart of ignored": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.OnUpdate, g.Checks[0].CheckRestart = "ignore", &nomad.CheckRestart{Limit: 1}
		}, groupCheck + `on_update is "ignore" and check_restart is set`},
		"restart limit": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].CheckRestart = &nomad.CheckRestart{Limit: -1}
		}, "check_restart has a negative number"},
		"restart on ignored warnings": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].OnUpdate, g.Checks[0].CheckRestart = "ignore_warnings", &nomad.CheckRestart{Limit: 1}
		}, groupCheck + `on_update is "ignore_warnings", but check_restart restarts on warnings: set ignore_warnings = true`},
		"expose": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].Expose = true }, groupCheck +
			"expose is a feature of Consul: remove it"},
		"negative threshold": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].FailuresBeforeCritical = -1 }, groupCheck +
			"failures_before_critical is -1: it must be 0 or more"},
		"threshold of a script": {func(_ *nomad.TaskGroup, _, s *nomad.Service) {
			s.Checks[0].Type, s.Checks[0].Command, s.Checks[0].SuccessBeforePassing = "script", "/bin/true", 2
		}, taskCheck + "success_before_passing is set, but each result of a script counts"},
		"server name without TLS": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].TLSServerName = "x" }, groupCheck +
			"tls_server_name is set, but the check does not use TLS"},
		"server name of plain gRPC": {func(_ *nomad.TaskGroup, _, s *nomad.Service) {
			s.Checks[0].Type, s.Checks[0].TLSServerName = "grpc", "x"
		}, taskCheck + "tls_server_name is set"},
		"twin checks": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks = append(s.Checks, codec.Copy(s.Checks[0])) },
			taskCheck + "duplicate check name: rename one"},
		"script without command": {func(_ *nomad.TaskGroup, _, s *nomad.Service) { s.Checks[0].Type = "script" }, taskCheck + "missing command"},
		"script without task": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].Type, g.Checks[0].Command = "script", "/bin/true"
		}, groupCheck + "no task: set task to the name of the task"},
		"task of a check": {func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks[0].TaskName = "u" }, groupCheck + `unknown task "u"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := jobrules.Validate(fresh(c.edit))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("Validate() = %v, want only %q", err, c.want)
			}
		})
	}
}

func TestValidServices(t *testing.T) {
	for name, edit := range map[string]func(tg *nomad.TaskGroup, group, task *nomad.Service){
		"plain":             func(*nomad.TaskGroup, *nomad.Service, *nomad.Service) {},
		"no port":           func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel, g.Checks = "", nil },
		"number of a group": func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.PortLabel = "8080" },
		"number of a driver": func(_ *nomad.TaskGroup, _, s *nomad.Service) {
			s.PortLabel, s.AddressMode, s.Checks = "80", "driver", nil
		},
		"address": func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Address = "example.com" },
		"port of the task": func(tg *nomad.TaskGroup, g, s *nomad.Service) {
			tg.Tasks[0].Resources = &nomad.Resources{CPU: 10, MemoryMB: 10, Networks: nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "old"}}}}}
			s.PortLabel, g.PortLabel = "old", "old"
		},
		"two ports": func(tg *nomad.TaskGroup, g, _ *nomad.Service) {
			tg.Services = append(tg.Services, &nomad.Service{Name: "web", Provider: "nomad"})
		},
		"group and task": func(_ *nomad.TaskGroup, g, s *nomad.Service) { s.Name = g.Name },
		"interpolated": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Name, g.PortLabel = "${node.unique.name}", "${NOMAD_META_PORT}"
		},
		"method and case": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].Method, g.Checks[0].Path = "post", "health?full=1"
		},
		"twin checks of a group": func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Checks = append(g.Checks, codec.Copy(g.Checks[0])) },
		"script": func(_ *nomad.TaskGroup, g, s *nomad.Service) {
			for _, c := range []*nomad.ServiceCheck{g.Checks[0], s.Checks[0]} {
				c.Type, c.Command, c.Path = "script", "/bin/true", ""
			}
			g.TaskName = "t"
		},
		"restart": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Checks[0].CheckRestart = &nomad.CheckRestart{Limit: 3, Grace: time.Minute}
		},
		"grpc": func(_ *nomad.TaskGroup, g, s *nomad.Service) {
			for _, c := range []*nomad.ServiceCheck{g.Checks[0], s.Checks[0]} {
				c.Type, c.GRPCService, c.GRPCUseTLS, c.TLSServerName = "grpc", "db", true, "db.example.org"
			}
		},
		"thresholds": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			c := g.Checks[0]
			c.SuccessBeforePassing, c.FailuresBeforeCritical, c.FailuresBeforeWarning, c.InitialStatus = 2, 3, 1, "warning"
			c.Notes, c.Protocol, c.TLSServerName = strings.Repeat("x", 255), "https", "db.example.org"
		},
		"warnings": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.OnUpdate, g.Checks[0].CheckRestart = "ignore_warnings", &nomad.CheckRestart{Limit: 1, IgnoreWarnings: true}
		},
		"registration": func(_ *nomad.TaskGroup, g, _ *nomad.Service) {
			g.Meta, g.CanaryMeta, g.TaggedAddresses = map[string]string{"a": "b"}, map[string]string{"a": "c"}, map[string]string{"wan": "192.0.2.1"}
			g.Weights, g.EnableTagOverride = &nomad.ServiceWeights{Passing: 65535}, true
		},
		"mapped": func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.DeclaredProvider, g.Cluster = "consul", "default" },
	} {
		t.Run(name, func(t *testing.T) {
			j := fresh(edit)
			if err := jobrules.Validate(j); err != nil {
				t.Errorf("Validate() = %v", err)
			}
			if got := jobrules.UnsupportedFeatures(j); len(got) > 0 {
				t.Errorf("UnsupportedFeatures() = %q", got)
			}
		})
	}
}

// A job with provider "consul" has the same rules. Whether it is accepted is a question to the servers.
func TestConsulService(t *testing.T) {
	j := fresh(func(_ *nomad.TaskGroup, g, _ *nomad.Service) { g.Provider = "" })
	if err := jobrules.Validate(j); err != nil {
		t.Errorf("Validate() = %v", err)
	}
	if got := jobrules.UnsupportedFeatures(j); !slices.Equal(got, []string{"consul service"}) {
		t.Errorf("UnsupportedFeatures() = %q", got)
	}
	j.TaskGroups[0].Services[0].PortLabel = "none"
	if err := jobrules.Validate(j); err == nil || !strings.Contains(err.Error(), `unknown port "none"`) {
		t.Errorf("Validate() = %v, want the rules of ports", err)
	}
}

// TestNeedsConsul checks the errors of servers without Consul: a consul block without the parts that only Consul has needs none.
func TestNeedsConsul(t *testing.T) {
	group := func(c *nomad.Consul) func(*nomad.TaskGroup) { return func(tg *nomad.TaskGroup) { tg.Consul = c } }
	task := func(c *nomad.Consul) func(*nomad.TaskGroup) {
		return func(tg *nomad.TaskGroup) { tg.Tasks[0].Consul = c }
	}
	template := func(text string) func(*nomad.TaskGroup) {
		return func(tg *nomad.TaskGroup) {
			tg.Tasks[0].Templates = []*nomad.Template{{EmbeddedTmpl: text, DestPath: "local/x"}}
		}
	}
	for name, c := range map[string]struct {
		edit func(*nomad.TaskGroup)
		want string
	}{
		"group":              {group(&nomad.Consul{Cluster: "default"}), ""},
		"task":               {task(&nomad.Consul{}), ""},
		"namespace of group": {group(&nomad.Consul{Namespace: "a"}), "Consul namespaces are"},
		"namespace of task":  {task(&nomad.Consul{Namespace: "a"}), "Consul namespaces are"},
		"partition of group": {group(&nomad.Consul{Partition: "a"}), "Consul partitions are"},
		"partition of task":  {task(&nomad.Consul{Partition: "a"}), "Consul partitions are"},
		"cluster of group":   {group(&nomad.Consul{Cluster: "a"}), "Consul clusters other than default are"},
		"cluster of task":    {task(&nomad.Consul{Cluster: "a"}), "Consul clusters other than default are"},
		"template":           {template(`{{ key "a" }}`), ""},
		"kind of task":       {func(tg *nomad.TaskGroup) { tg.Tasks[0].Kind = "connect-proxy:x" }, "Consul Connect task kinds are"},
	} {
		j := fresh(func(tg *nomad.TaskGroup, _, _ *nomad.Service) { c.edit(tg) })
		errs := jobrules.NeedsConsul(j)
		if c.want == "" {
			if len(errs) > 0 {
				t.Errorf("%s: NeedsConsul() = %v", name, errs)
			}
			continue
		}
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want+" not supported by servers without Consul") {
			t.Errorf("%s: NeedsConsul() = %v, want %q", name, errs, c.want)
		}
		used := jobrules.UnsupportedFeatures(j)
		if len(used) != 1 || !slices.Contains(jobrules.ConsulFeatures(), used[0]) {
			t.Errorf("%s: UnsupportedFeatures() = %q, want one of %q", name, used, jobrules.ConsulFeatures())
		}
		other := jobrules.OtherCluster(j)
		if got := len(other) == 1 && strings.HasSuffix(other[0].Error(), ": non-default Consul cluster requires Nomad Enterprise: jobs use the cluster \"default\""); got !=
			strings.HasPrefix(name, "cluster") {
			t.Errorf("%s: OtherCluster() = %v", name, other)
		}
	}
}

func TestServiceDefaults(t *testing.T) {
	j := sample("service")
	tg := j.TaskGroups[0]
	tg.Services = []*nomad.Service{{OnUpdate: "ignore", Checks: []*nomad.ServiceCheck{{}, {Name: "own", OnUpdate: "require_healthy"}}},
		{Name: "${JOB}-${TASKGROUP}-${TASK}-${BASE}-${node.class}", Provider: "nomad"}}
	tg.Tasks[0].Services = []*nomad.Service{{}, {Name: "${TASK}.${BASE}"}}
	j.Namespace = "prod"
	jobrules.Canonicalize(j)
	g, s := tg.Services, tg.Tasks[0].Services
	for _, c := range []struct{ what, got, want string }{
		{"name", g[0].Name, "j-g"},
		{"name of a task's service", s[0].Name, "j-g-t"},
		{"variables", g[1].Name, "j-g-group-j-g-group-${node.class}"},
		{"variables in a task", s[1].Name, "t.j-g-t"},
		{"namespace of Consul", g[0].Namespace, "default"},
		{"namespace", g[1].Namespace, "prod"},
		{"provider", s[0].Provider, "consul"},
		{"address mode", s[0].AddressMode, "auto"},
		{"on_update", s[0].OnUpdate, "require_healthy"},
		{"check name", g[0].Checks[0].Name, `service: "j-g" check`},
		{"on_update of a check", g[0].Checks[0].OnUpdate, "ignore"},
		{"own name", g[0].Checks[1].Name + g[0].Checks[1].OnUpdate, "ownrequire_healthy"},
	} {
		if c.got != c.want {
			t.Errorf("%s = %q, want %q", c.what, c.got, c.want)
		}
	}
	once := codec.Copy(j)
	jobrules.Canonicalize(j)
	if !reflect.DeepEqual(once, j) {
		t.Error("a second Canonicalize changes the services")
	}
}

func TestServiceWarnings(t *testing.T) {
	j := fresh(func(_ *nomad.TaskGroup, g, s *nomad.Service) {
		g.Cluster = "west"
		s.Identity = &nomad.WorkloadIdentity{Name: "x", Audience: []string{"a"}, TTL: time.Hour}
	})
	got := strings.Join(jobrules.Warnings(j), "\n")
	for _, want := range []string{`group "g", service "web": cluster has no effect without Consul`,
		`task "t", service "db": identity has no effect`} {
		if !strings.Contains(got, want) {
			t.Errorf("Warnings() = %q, want %q", got, want)
		}
	}
	if got := jobrules.WithoutEffect(plainly()); len(got) > 0 {
		t.Errorf("WithoutEffect() = %q, want none", got)
	}
	// Without a delay, clients can connect to tasks that are already stopped.
	j = plainly()
	if got := strings.Join(jobrules.Warnings(j), "\n"); strings.Count(got, "has services but no shutdown_delay") != 2 {
		t.Errorf("Warnings() = %q, want one for the group and one for the task", got)
	}
	delay := time.Second
	j.TaskGroups[0].ShutdownDelay, j.TaskGroups[0].Tasks[0].ShutdownDelay = &delay, delay
	if got := jobrules.Warnings(j); len(got) > 0 {
		t.Errorf("Warnings() = %q, want none", got)
	}
}

// plainly returns serving, canonical.
func plainly() *nomad.Job { return fresh(func(*nomad.TaskGroup, *nomad.Service, *nomad.Service) {}) }

// TestNeedsConsul_Templates checks the functions of templates that only clients with Consul have.
func TestNeedsConsul_Templates(t *testing.T) {
	j := fresh(func(tg *nomad.TaskGroup, _, _ *nomad.Service) {
		tg.Tasks[0].Templates = []*nomad.Template{{EmbeddedTmpl: "\n{{ range nodes }}{{ end }}", DestPath: "local/x"}}
	})
	const want = `template "local/x": data: line 2: the function nodes is refused: the identity of a task may not read nodes`
	if errs := jobrules.NeedsConsul(j); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("NeedsConsul() = %v, want %q", errs, want)
	}
}
