package mesh_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/mesh"
)

// jobWith returns a canonical job with a group on the bridge whose service has a connect block.
func jobWith(c *nomad.ConsulConnect, edit func(tg *nomad.TaskGroup)) *nomad.Job {
	tg := &nomad.TaskGroup{Name: "g", Count: 1, Networks: nomad.Networks{{Mode: "bridge"}},
		Services: []*nomad.Service{{Name: "api", PortLabel: "9001", Connect: c}},
		Tasks:    []*nomad.Task{{Name: "t", Driver: "exec2", Config: map[string]any{"command": "true"}}}}
	if edit != nil {
		edit(tg)
	}
	job := &nomad.Job{ID: "j", Region: "global", Type: "service", TaskGroups: []*nomad.TaskGroup{tg}}
	jobrules.Canonicalize(job)
	return job
}

// added describes the tasks, the ports and the constraints of a group, except for the task of the job file.
func added(tg *nomad.TaskGroup) (out []string) {
	for _, t := range tg.Tasks {
		if t.Kind == "" {
			continue
		}
		out = append(out, fmt.Sprintf("task %s %s %s", t.Name, t.Kind, t.Driver))
		for _, c := range t.Constraints {
			out = append(out, "task "+c.LTarget+" "+c.Operand+" "+c.RTarget)
		}
	}
	for _, p := range tg.Networks[0].DynamicPorts {
		out = append(out, fmt.Sprintf("port %s %d", p.Label, p.To))
	}
	for _, c := range tg.Constraints {
		out = append(out, "group "+c.LTarget+" "+c.Operand+" "+c.RTarget)
	}
	return out
}

const (
	wantVersion = "task ${attr.consul.version} semver >= 1.8.0"
	wantGRPC    = "task ${attr.consul.grpc} > 0"
)

func sidecar() *nomad.ConsulConnect {
	return &nomad.ConsulConnect{SidecarService: &connect.SidecarService{}}
}

func gateway(g connect.Gateway) *nomad.ConsulConnect { return &nomad.ConsulConnect{Gateway: &g} }

func ingress(tls *connect.GatewayTLSConfig) connect.Gateway {
	return connect.Gateway{Ingress: &connect.IngressConfigEntry{TLS: tls, Listeners: []*connect.IngressListener{
		{Port: 8080, Services: []*connect.IngressService{{Name: "db"}}}}}}
}

func onHost(tg *nomad.TaskGroup) { tg.Networks[0].Mode = "host" }

// cases are valid connect blocks, and what the servers add.
var cases = map[string]struct {
	connect *nomad.ConsulConnect
	edit    func(tg *nomad.TaskGroup)
	want    []string
}{
	"none":                  {nil, nil, nil},
	"of the native catalog": {sidecar(), func(tg *nomad.TaskGroup) { tg.Services[0].Provider = "nomad" }, nil},
	"sidecar":               {sidecar(), nil, []string{"task connect-proxy-api connect-proxy:api docker", wantVersion, wantGRPC, "port connect-proxy-api -1"}},
	"port of the sidecar": {&nomad.ConsulConnect{SidecarService: &connect.SidecarService{Port: "mesh"}}, nil,
		[]string{"task connect-proxy-api connect-proxy:api docker", wantVersion, wantGRPC, "port mesh -1"}},
	"name is taken": {sidecar(), func(tg *nomad.TaskGroup) { tg.Tasks[0].Name = "connect-proxy-api" },
		[]string{"task connect-proxy-api-d45c58 connect-proxy:api docker", wantVersion, wantGRPC, "port connect-proxy-api -1"}},
	"podman": {sidecar(), func(tg *nomad.TaskGroup) { tg.Tasks[0].Driver = "podman" },
		[]string{"task connect-proxy-api connect-proxy:api podman", wantVersion, wantGRPC, "port connect-proxy-api -1"}},
	"transparent": {&nomad.ConsulConnect{SidecarService: &connect.SidecarService{Proxy: &connect.Proxy{TransparentProxy: &connect.TransparentProxy{}}}},
		nil, []string{"task connect-proxy-api connect-proxy:api docker", wantVersion, wantGRPC, "port connect-proxy-api -1",
			"group ${attr.plugins.cni.version.consul-cni} semver >= 1.4.2", "group ${attr.nomad.version} semver >= 1.8.0-dev"}},
	"sidecar_task": {&nomad.ConsulConnect{SidecarService: &connect.SidecarService{}, SidecarTask: &nomad.SidecarTask{Name: "envoy", Driver: "exec2",
		Config: map[string]any{"command": "envoy"}, Identities: []*nomad.WorkloadIdentity{{Name: "x", Audience: []string{"y"}}}}}, nil,
		[]string{"task envoy connect-proxy:api exec2", wantVersion, wantGRPC, "port connect-proxy-api -1"}},
	"native":  {&nomad.ConsulConnect{Native: true}, nil, []string{"task t connect-native:api exec2"}},
	"ingress": {gateway(ingress(nil)), nil, []string{"task connect-ingress-api connect-ingress:api docker", wantVersion, wantGRPC}},
	"ingress on the host": {gateway(ingress(&connect.GatewayTLSConfig{TLSMinVersion: "TLSv1_2"})), onHost,
		[]string{"task connect-ingress-api connect-ingress:api docker", "task ${attr.consul.version} semver >= 1.11.2", wantGRPC}},
	"terminating": {gateway(connect.Gateway{Terminating: &connect.TerminatingConfigEntry{Services: []*connect.LinkedService{{Name: "db"}}}}),
		func(tg *nomad.TaskGroup) { tg.Services[0].PortLabel = "" },
		[]string{"task connect-terminating-api connect-terminating:api docker", wantVersion, wantGRPC, "port connect-terminating-api -1"}},
	"mesh": {gateway(connect.Gateway{Mesh: &connect.MeshConfigEntry{}}), onHost,
		[]string{"task connect-mesh-api connect-mesh:api docker", wantVersion, wantGRPC, "port connect-mesh-api-lan -1"}},
	"exposed check": {sidecar(), func(tg *nomad.TaskGroup) {
		tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "http", Path: "/health", Expose: true, Interval: time.Second, Timeout: time.Second}}
	}, []string{"task connect-proxy-api connect-proxy:api docker", wantVersion, wantGRPC, "port connect-proxy-api -1", "port svc_api_ck_61a1f7 -1"}},
}

// TestInject checks what is added to valid jobs. A stored job remains as it is, also after it was encoded, and the same file
// makes the same job.
func TestInject(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job := jobWith(codec.Copy(c.connect), c.edit)
			if got := mesh.Validate(job); len(got) > 0 {
				t.Errorf("Validate() of the file = %v", got)
			}
			mesh.Inject(job)
			jobrules.Canonicalize(job)
			if got := added(job.TaskGroups[0]); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if got := mesh.Validate(job); len(got) > 0 {
				t.Errorf("Validate() = %v", got)
			}
			if err := jobrules.Validate(job); (err != nil) != (name == "of the native catalog") {
				t.Errorf("jobrules.Validate() = %v", err)
			}
			again := codec.Copy(job)
			mesh.Inject(again)
			jobrules.Canonicalize(again)
			if !reflect.DeepEqual(again, codec.Copy(job)) {
				t.Errorf("a second Inject changes the job: %q", added(again.TaskGroups[0]))
			}
			other := jobWith(codec.Copy(c.connect), c.edit)
			mesh.Inject(other)
			jobrules.Canonicalize(other)
			if !reflect.DeepEqual(other, job) {
				t.Error("the same file makes another job")
			}
		})
	}
}

// TestInject_Task checks the task of a sidecar, and that of a gateway on the network of the node.
func TestInject_Task(t *testing.T) {
	job := jobWith(sidecar(), nil)
	mesh.Inject(job)
	p := job.TaskGroups[0].Task("connect-proxy-api")
	if p.Lifecycle == nil || p.Lifecycle.Hook != "prestart" || !p.Lifecycle.Sidecar || p.ShutdownDelay != 5*time.Second ||
		p.Resources.CPU != 250 || p.Resources.MemoryMB != 128 || p.LogConfig.MaxFiles != 2 || p.LogConfig.MaxFileSizeMB != 2 {
		t.Errorf("sidecar = %+v, %+v, %+v", p, p.Resources, p.LogConfig)
	}
	want := map[string]any{"image": "${meta.connect.sidecar_image}", "args": []any{"-c", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json", "-l",
		"${meta.connect.log_level}", "--concurrency", "${meta.connect.proxy_concurrency}", "--disable-hot-restart"}}
	if !reflect.DeepEqual(p.Config, want) {
		t.Errorf("config = %v, want %v", p.Config, want)
	}
	job = jobWith(gateway(ingress(nil)), onHost)
	mesh.Inject(job)
	g := job.TaskGroups[0].Task("connect-ingress-api")
	if g.Lifecycle != nil || g.Config["image"] != "${meta.connect.gateway_image}" || g.Config["network_mode"] != "host" {
		t.Errorf("gateway = %+v", g)
	}
}

// TestInject_SidecarTask checks that a sidecar_task block changes only what it sets.
func TestInject_SidecarTask(t *testing.T) {
	minute, none := time.Minute, time.Duration(0)
	for name, c := range map[string]struct {
		block nomad.SidecarTask
		edit  func(t *nomad.Task)
	}{
		"empty":             {nomad.SidecarTask{}, func(*nomad.Task) {}},
		"defaults of Nomad": {nomad.SidecarTask{LogConfig: &nomad.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}, ShutdownDelay: &none}, func(*nomad.Task) {}},
		"logs": {nomad.SidecarTask{LogConfig: &nomad.LogConfig{MaxFiles: 3, MaxFileSizeMB: 10}}, func(t *nomad.Task) {
			t.LogConfig = &nomad.LogConfig{MaxFiles: 3, MaxFileSizeMB: 10}
		}},
		"times": {nomad.SidecarTask{KillTimeout: &minute, ShutdownDelay: &minute}, func(t *nomad.Task) {
			t.KillTimeout, t.ShutdownDelay = minute, minute
		}},
		"texts": {nomad.SidecarTask{Name: "n", User: "u", KillSignal: "SIGINT"}, func(t *nomad.Task) {
			t.Name, t.User, t.KillSignal = "n", "u", "SIGINT"
		}},
		"maps": {nomad.SidecarTask{Env: map[string]string{"A": "b"}, Meta: map[string]string{"c": "d"}, Config: map[string]any{"image": "x"}},
			func(t *nomad.Task) {
				t.Env, t.Meta = map[string]string{"A": "b"}, map[string]string{"c": "d"}
				t.Config = map[string]any{"image": "x", "args": t.Config["args"]}
			}},
		"driver": {nomad.SidecarTask{Driver: "exec2", Config: map[string]any{"command": "envoy"}}, func(t *nomad.Task) {
			t.Driver, t.Config = "exec2", map[string]any{"command": "envoy"}
		}},
		"same driver": {nomad.SidecarTask{Driver: "docker"}, func(*nomad.Task) {}},
		"lists": {nomad.SidecarTask{Resources: &nomad.Resources{CPU: 1, MemoryMB: 20}, VolumeMounts: []*nomad.VolumeMount{{Volume: "v"}},
			Identities: []*nomad.WorkloadIdentity{{Name: "i"}}}, func(t *nomad.Task) {
			t.Resources, t.VolumeMounts = &nomad.Resources{CPU: 1, MemoryMB: 20}, []*nomad.VolumeMount{{Volume: "v"}}
			t.Identities = []*nomad.WorkloadIdentity{{Name: "i"}}
		}},
	} {
		plain := jobWith(sidecar(), nil)
		mesh.Inject(plain)
		want := plain.TaskGroups[0].Task("connect-proxy-api")
		c.edit(want)
		block := sidecar()
		block.SidecarTask = &c.block
		job := jobWith(block, nil)
		mesh.Inject(job)
		if got := job.TaskGroups[0].Tasks[1]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, want)
		}
	}
}

// TestInject_Gateways checks the defaults of gateways' proxies.
func TestInject_Gateways(t *testing.T) {
	at := func(port int) *connect.GatewayBindAddress {
		return &connect.GatewayBindAddress{Address: "0.0.0.0", Port: port}
	}
	own := 7 * time.Second
	terminating := connect.Gateway{Terminating: &connect.TerminatingConfigEntry{Services: []*connect.LinkedService{{Name: "db"}}}}
	for name, c := range map[string]struct {
		gateway connect.Gateway
		edit    func(tg *nomad.TaskGroup)
		binds   map[string]*connect.GatewayBindAddress
	}{
		"ingress":     {ingress(nil), nil, map[string]*connect.GatewayBindAddress{"db": at(8080)}},
		"terminating": {terminating, nil, map[string]*connect.GatewayBindAddress{"default": at(-1)}},
		"mesh":        {connect.Gateway{Mesh: &connect.MeshConfigEntry{}}, nil, map[string]*connect.GatewayBindAddress{"wan": at(-1), "lan": at(-1)}},
		"on the host": {ingress(nil), onHost, nil},
	} {
		job := jobWith(gateway(c.gateway), c.edit)
		mesh.Inject(job)
		p := job.TaskGroups[0].Services[0].Connect.Gateway.Proxy
		if in := job.TaskGroups[0].Services[0].Connect.Gateway.Ingress; in != nil && in.Listeners[0].Protocol != "tcp" {
			t.Errorf("%s: protocol = %q, want tcp", name, in.Listeners[0].Protocol)
		}
		if *p.ConnectTimeout != 5*time.Second || p.EnvoyGatewayNoDefaultBind != (c.binds != nil) || !reflect.DeepEqual(p.EnvoyGatewayBindAddresses, c.binds) {
			t.Errorf("%s: proxy = %+v", name, p)
		}
		c.gateway.Proxy = &connect.GatewayProxy{ConnectTimeout: &own}
		job = jobWith(gateway(c.gateway), c.edit)
		mesh.Inject(job)
		if got := *job.TaskGroups[0].Services[0].Connect.Gateway.Proxy.ConnectTimeout; got != own {
			t.Errorf("%s: connect_timeout = %v, want that of the job", name, got)
		}
	}
}

// TestInject_Expose checks the path of an exposed check.
func TestInject_Expose(t *testing.T) {
	check := func(label string) []*nomad.ServiceCheck {
		return []*nomad.ServiceCheck{{Name: "c", Type: "http", Path: "/health", Protocol: "http", Expose: true, PortLabel: label}}
	}
	for name, c := range map[string]struct {
		edit func(tg *nomad.TaskGroup)
		want connect.ExposePath
	}{
		"number": {func(tg *nomad.TaskGroup) { tg.Services[0].Checks = check("health") }, connect.ExposePath{LocalPathPort: 9001, ListenerPort: "health"}},
		"label": {func(tg *nomad.TaskGroup) {
			tg.Services[0].Checks, tg.Services[0].PortLabel = check("health"), "http"
			tg.Networks[0].DynamicPorts = []nomad.Port{{Label: "http", To: 8080}, {Label: "health", To: -1}}
		}, connect.ExposePath{LocalPathPort: 8080, ListenerPort: "health"}},
		"own port": {func(tg *nomad.TaskGroup) { tg.Services[0].Checks = check("") },
			connect.ExposePath{LocalPathPort: 9001, ListenerPort: "svc_api_ck_61a1f7"}},
		"gRPC": {func(tg *nomad.TaskGroup) {
			tg.Services[0].Checks = []*nomad.ServiceCheck{{Name: "c", Type: "grpc", Expose: true, PortLabel: "health"}}
		}, connect.ExposePath{LocalPathPort: 9001, ListenerPort: "health", Path: "/grpc.health.v1.Health/Check", Protocol: "http2"}},
	} {
		job := jobWith(sidecar(), c.edit)
		mesh.Inject(job)
		c.want.Path, c.want.Protocol = cmp.Or(c.want.Path, "/health"), cmp.Or(c.want.Protocol, "http")
		s := job.TaskGroups[0].Services[0]
		if got := s.Connect.SidecarService.Proxy.Expose.Paths; !slices.Equal(got, []connect.ExposePath{c.want}) {
			t.Errorf("%s: paths = %+v, want %+v", name, got, c.want)
		}
		if got := s.Checks[0].PortLabel; got != c.want.ListenerPort {
			t.Errorf("%s: port of the check = %q, want %q", name, got, c.want.ListenerPort)
		}
	}
}

// BenchmarkInject measures the largest job: 1,000 services in one group.
func BenchmarkInject(b *testing.B) {
	job := jobWith(nil, func(tg *nomad.TaskGroup) {
		tg.Services = nil
		for n := range 1000 {
			tg.Services = append(tg.Services, &nomad.Service{Name: fmt.Sprint("api-", n), PortLabel: "9001", Connect: sidecar()})
		}
	})
	for b.Loop() {
		mesh.Inject(codec.Copy(job))
	}
}
