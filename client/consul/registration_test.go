package consul_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const allocID = "11111111-2222-3333-4444-555555555555"

// group returns the workload of a group with services.
func group(services ...*nomad.Service) *service.Workload {
	tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "t"}}, Services: services}
	a := &nomad.Allocation{ID: allocID, Namespace: "prod", JobID: "web", TaskGroup: "g", Name: "web.g[2]",
		Job: &nomad.Job{ID: "web", Name: "web", Meta: map[string]string{"tier": "front"}, TaskGroups: []*nomad.TaskGroup{tg}},
		AllocatedResources: &nomad.AllocatedResources{
			Shared: nomad.AllocatedSharedResources{Networks: nomad.Networks{{IP: "10.0.0.1"}},
				Ports: nomad.AllocatedPorts{{Label: "http", Value: 23000, To: 80, HostIP: "10.0.0.1"}}}}}
	w := service.OfGroup(a, &nomad.Node{ID: "n1", Attributes: map[string]string{"kernel.name": "linux"}}, "global", nil)
	return &w
}

// registered returns the body of the registration of the only service.
func registered(t *testing.T, w *service.Workload) string {
	t.Helper()
	got, err := consul.Services(w, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(got[0].Registration)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// hash returns the ID of a check whose definition is a text. The texts are written out from compat/consul.md, section 6.
func hash(definition string) string {
	sum := sha256.Sum256([]byte(definition))
	return "_nomad-check-" + hex.EncodeToString(sum[:])
}

const id = "_nomad-task-" + allocID + "-group-g-web-front-http"

func TestRegistration(t *testing.T) {
	full := &nomad.Service{Name: "web-${NOMAD_META_tier}", Provider: "consul", PortLabel: "http", Tags: []string{"${attr.kernel.name}"},
		CanaryTags: []string{"canary"}, Meta: map[string]string{"a-${NOMAD_META_tier}": "${NOMAD_ALLOC_INDEX}"},
		CanaryMeta: map[string]string{"b": "c"}, Weights: &nomad.ServiceWeights{Passing: 3, Warning: 2}, EnableTagOverride: true,
		TaggedAddresses: map[string]string{"wan": "1.2.3.4", "lan": "10.0.0.9:81"}, Kind: "mesh-gateway"}
	w := group(full)
	want := `{"Kind":"mesh-gateway","ID":"` + id + `","Name":"web-front","Tags":["linux"],"Port":23000,"Address":"10.0.0.1",` +
		`"TaggedAddresses":{"lan":{"Address":"10.0.0.9","Port":81},"wan":{"Address":"1.2.3.4","Port":23000}},"EnableTagOverride":true,` +
		`"Meta":{"a-front":"2","external-source":"nomad"},"Weights":{"Passing":3,"Warning":2},"Check":null,"Checks":null}`
	if got := registered(t, w); got != want {
		t.Errorf("registration\n%s, want\n%s", got, want)
	}
	w.Alloc.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
	if got := registered(t, w); !strings.Contains(got, `"Tags":["canary"]`) ||
		!strings.Contains(got, `"Meta":{"b":"c","external-source":"nomad"}`) {
		t.Errorf("registration of a canary %s", got)
	}
}

// TestRegistration_Names checks that names which native services refuse are left to Consul.
func TestRegistration_Names(t *testing.T) {
	for _, name := range []string{strings.Repeat("long", 40), "with.dots", "with_underscore", "-"} {
		if got := registered(t, group(&nomad.Service{Name: name})); !strings.Contains(got, `"Name":"`+name+`"`) {
			t.Errorf("registration %s, want the name %q", got, name)
		}
	}
}

// TestRegistration_Interpolated checks that a name that becomes another path of Consul's API, or has control characters, is
// refused: the ID contains it.
func TestRegistration_Interpolated(t *testing.T) {
	for _, value := range []string{"", "/../../../leave", "a/b", "a//b", "a?b", "a#b", "a%2fb", "a b", "a\nb", "a\x1b[31m", "\u202e", strings.Repeat("a", 257)} {
		w := group(&nomad.Service{Name: "${NOMAD_META_name}", PortLabel: "http"})
		w.Alloc.Job.Meta["name"] = value
		again := service.OfGroup(w.Alloc, &nomad.Node{}, "global", nil)
		if got, err := consul.Services(&again, nil); err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("name %.64q: %d services, %v", value, len(got), err)
		}
	}
}

// TestRegistration_Bounded checks that references cannot make a registration large, or add control characters: Consul has
// one list for all services of the node.
func TestRegistration_Bounded(t *testing.T) {
	const ref = "${NOMAD_META_text}"
	check := func(c nomad.ServiceCheck) *nomad.Service {
		c.Type, c.PortLabel, c.Interval, c.Timeout = nomad.ServiceCheckHTTP, "http", time.Second, time.Second
		return &nomad.Service{Checks: []*nomad.ServiceCheck{&c}}
	}
	for name, s := range map[string]*nomad.Service{
		"tags": {Tags: slices.Repeat([]string{ref}, 10)}, "canary tags": {CanaryTags: slices.Repeat([]string{ref}, 10)},
		"meta": {Meta: map[string]string{"a": ref}}, "canary meta": {CanaryMeta: map[string]string{"a": ref}},
		"key of meta": {Meta: map[string]string{ref: "a"}}, "name of a tagged address": {TaggedAddresses: map[string]string{ref: "1.2.3.4"}},
		"name of a check": check(nomad.ServiceCheck{Name: strings.Repeat(ref, 100)}),
		"header":          check(nomad.ServiceCheck{Header: map[string][]string{"a": slices.Repeat([]string{ref}, 100)}}),
		"path":            check(nomad.ServiceCheck{Path: "/" + strings.Repeat(ref, 100)}),
		"body":            check(nomad.ServiceCheck{Body: strings.Repeat("a", 300_000)}),
	} {
		s.Name, s.PortLabel = "web", "http"
		w := group(s)
		w.Alloc.Job.Meta["text"] = strings.Repeat("a", 5000)
		w.Alloc.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
		large := service.OfGroup(w.Alloc, &nomad.Node{}, "global", nil)
		if got, err := consul.Services(&large, nil); err == nil || len(err.Error()) > 1024 {
			t.Errorf("%s: %d services, %.200v", name, len(got), err)
		}
	}
	w := group(&nomad.Service{Name: "web", Tags: []string{ref}})
	w.Alloc.Job.Meta["text"] = "a\x1b[31m"
	if got, err := consul.Services(group(w.Services...), nil); err != nil {
		t.Errorf("without the meta: %d services, %v", len(got), err)
	}
	control := service.OfGroup(w.Alloc, &nomad.Node{}, "global", nil)
	if got, err := consul.Services(&control, nil); err == nil {
		t.Errorf("control characters: %q", got[0].Registration.Tags)
	}
}

// TestChecks_Metadata checks that a job cannot make Consul read the metadata services of clouds, whose answers have the
// credentials of the node, by an address of the job or by a protocol that contains one.
func TestChecks_Metadata(t *testing.T) {
	const ref = "${NOMAD_META_to}"
	for _, kind := range []string{nomad.ServiceCheckHTTP, nomad.ServiceCheckTCP, nomad.ServiceCheckGRPC} {
		for _, to := range []string{"169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "10.0.0.1", "a.example"} {
			c := &nomad.ServiceCheck{Type: kind, Interval: time.Second, Timeout: time.Second}
			w := group(&nomad.Service{Name: "web", PortLabel: "http", Address: ref, Checks: []*nomad.ServiceCheck{c}})
			w.Alloc.Job.Meta["to"] = to
			again := service.OfGroup(w.Alloc, &nomad.Node{}, "global", nil)
			_, err := consul.Services(&again, nil)
			if refused := strings.Contains(to, "254"); (err != nil) != refused {
				t.Errorf("%s check of %s: %v, want an error: %t", kind, to, err, refused)
			}
		}
	}
	for _, protocol := range []string{"http://169.254.169.254/?", "ftp", "unix", "HTTP"} {
		c := &nomad.ServiceCheck{Type: nomad.ServiceCheckHTTP, Protocol: ref, Interval: time.Second, Timeout: time.Second}
		w := group(&nomad.Service{Name: "web", PortLabel: "http", Checks: []*nomad.ServiceCheck{c}})
		w.Alloc.Job.Meta["to"] = protocol
		again := service.OfGroup(w.Alloc, &nomad.Node{}, "global", nil)
		if got, err := consul.Services(&again, nil); err == nil {
			t.Errorf("protocol %q: %s", protocol, got[0].Registration.Checks[0].HTTP)
		}
	}
}

// TestChecks checks the definition and the ID of each type of check.
func TestChecks(t *testing.T) {
	second := time.Second
	for name, tc := range map[string]struct {
		check      nomad.ServiceCheck
		definition string // what the ID is the hash of, after the ID of the service
		want       string // after the ID
	}{
		"http": {nomad.ServiceCheck{Name: "c-${NOMAD_META_tier}", Type: "http", Path: "/up?a=b", Interval: 90 * second, Timeout: second,
			Method: "PUT", Body: "${attr.kernel.name}", Header: map[string][]string{"X-B": {"1", "2"}, "X-A": {"${attr.kernel.name}"}},
			OnUpdate: "require_healthy", TLSSkipVerify: true, TLSServerName: "${attr.kernel.name}", Protocol: "https", Notes: "n",
			InitialStatus: "passing", SuccessBeforePassing: 2, FailuresBeforeCritical: 3, FailuresBeforeWarning: 1},
			"c-fronthttp/up?a=bhttps1m30s1sPUT${attr.kernel.name}require_healthyntrue${attr.kernel.name}X-AlinuxX-B12" +
				"success:2failures:3failures-before-warning:1",
			`"Name":"c-front","Interval":"1m30s","Timeout":"1s","HTTP":"https://10.0.0.1:23000/up?a=b",` +
				`"Header":{"X-A":["linux"],"X-B":["1","2"]},"Method":"PUT","Body":"${attr.kernel.name}","Status":"passing",` +
				`"TLSServerName":"${attr.kernel.name}","TLSSkipVerify":true,"SuccessBeforePassing":2,"FailuresBeforeWarning":1,` +
				`"FailuresBeforeCritical":3}`},
		"tcp": {nomad.ServiceCheck{Type: "tcp", PortLabel: "9", Interval: 10 * second, Timeout: 2 * second, AddressMode: "host"},
			`service: "web-front" checktcp910s2shost`,
			`"Name":"service: \"web-front\" check","Interval":"10s","Timeout":"2s","TCP":":9"}`},
		"grpc": {nomad.ServiceCheck{Name: "g", Type: "gRPC", Interval: 10 * second, Timeout: 2 * second, GRPCUseTLS: true},
			`ggRPC10s2strue`,
			`"Name":"g","Interval":"10s","Timeout":"2s","GRPC":"10.0.0.1:23000/","GRPCUseTLS":true}`},
		"grpc service": {nomad.ServiceCheck{Name: "g", Type: "grpc", Interval: 10 * second, Timeout: 2 * second, GRPCService: "a.B"},
			`ggrpc10s2sa.B`,
			`"Name":"g","Interval":"10s","Timeout":"2s","GRPC":"10.0.0.1:23000/a.B"}`},
		"script": {nomad.ServiceCheck{Name: "s", Type: "script", Command: "/bin/${attr.kernel.name}", Args: []string{"-a", "${NOMAD_ALLOC_INDEX}"},
			Interval: second, Timeout: 2 * second, TaskName: "t", OnUpdate: "ignore"},
			`sscript/bin/linux-a21s2signore`,
			`"Name":"s","Timeout":"2s","TTL":"32s"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := registered(t, group(&nomad.Service{Name: "web-${NOMAD_META_tier}", PortLabel: "http",
				Checks: []*nomad.ServiceCheck{&tc.check}}))
			want := `"Checks":[{"CheckID":"` + hash(id+tc.definition) + `",` + tc.want + `]}`
			if !strings.HasSuffix(got, want) {
				t.Errorf("registration\n%s, want it to end with\n%s", got, want)
			}
		})
	}
}

func TestRegistration_Errors(t *testing.T) {
	for name, tc := range map[string]struct {
		service nomad.Service
		want    string
	}{
		"port":   {nomad.Service{Name: "w", PortLabel: "nope"}, `unable to get address for service "w": invalid port`},
		"tagged": {nomad.Service{Name: "w", TaggedAddresses: map[string]string{"x": "y"}}, `error parsing address "y": not an IP address`},
		"check port": {nomad.Service{Name: "w", Checks: []*nomad.ServiceCheck{{Name: "c", Type: "tcp"}}},
			`error getting address for check "c": the check has no port`},
		"check address": {nomad.Service{Name: "w", Checks: []*nomad.ServiceCheck{{Name: "c", Type: "tcp", PortLabel: "nope"}}},
			`error getting address for check "c": invalid port`},
		"check path": {nomad.Service{Name: "w", PortLabel: "http", Checks: []*nomad.ServiceCheck{{Name: "c", Type: "http",
			Path: "http://169.254.169.254/"}}}, "invalid path"},
		"check type": {nomad.Service{Name: "w", PortLabel: "http", Checks: []*nomad.ServiceCheck{{Name: "c", Type: "docker"}}},
			`unknown type "docker"`},
		"connect": {nomad.Service{Name: "w", Connect: &nomad.ConsulConnect{SidecarService: &connect.SidecarService{}}},
			`connect block of service "w": the group has no port "connect-proxy-w"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := consul.Services(group(&tc.service), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// tokens has a token for each identity.
type tokens struct{}

func (tokens) Invalidate(string) {}

func (tokens) Token(identity, workload string) func() string {
	return func() string { return "token of " + identity + " in " + workload }
}

// TestToken checks which token registers a service. Without one for its identity, it is not that of the agent.
func TestToken(t *testing.T) {
	identity := &nomad.WorkloadIdentity{Name: "consul-service_w-http"}
	for name, tc := range map[string]struct {
		identity *nomad.WorkloadIdentity
		tokens   consul.Tokens
		want     string // "agent" for that of the agent
	}{
		"agent":                   {nil, tokens{}, "agent"},
		"identity":                {identity, tokens{}, "token of consul-service_w-http in "},
		"identity without tokens": {identity, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := consul.Services(group(&nomad.Service{Name: "w", Identity: tc.identity}), tc.tokens)
			if err != nil {
				t.Fatal(err)
			}
			token := "agent"
			if f := got[0].Token; f != nil {
				token = f()
			}
			if token != tc.want {
				t.Errorf("token = %q, want %q", token, tc.want)
			}
		})
	}
}

// states has the states of services by owner.
type states map[string][]reconcile.State

func (s states) States(owner string) []reconcile.State { return s[owner] }

// TestReport checks the states of services, and that neither they nor events contain the body of an answer of Consul.
func TestReport(t *testing.T) {
	w := group()
	since := time.Unix(1000, 0)
	denied := fmt.Errorf("register service: %w", api.StatusError{Code: 403, Body: "token s.secret is unknown"})
	got := consul.Report(states{
		allocID + "/group-g": {{ID: "1", Name: "new"}, {ID: "2", Name: "fine", Registered: true, Since: since}},
		allocID + "/t":       {{ID: "3", Name: "denied", Since: since, Failures: 4, Err: denied}},
		"another/t":          {{ID: "4"}},
	}, w.Alloc)
	want := []*message.ConsulService{
		{ID: "1", Name: "new", Status: "pending"},
		{ID: "2", Name: "fine", Status: "registered", Since: since},
		{ID: "3", Name: "denied", Task: "t", Status: "failed", Since: since, Failures: 4, Error: "unexpected status 403"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Report() = %v, want %v", texts(got), texts(want))
	}
}

// TestEvents checks that there is one event for each error, with the number of services and the first names, and that it has
// no answer of Consul.
func TestEvents(t *testing.T) {
	denied := fmt.Errorf("register service: %w", api.StatusError{Code: 403, Body: "Permission denied s.secret"})
	down := errors.New("connection refused")
	failed := func(err error, names ...string) (out []reconcile.State) {
		for _, n := range names {
			out = append(out, reconcile.State{Name: n, Failures: 3, Err: err})
		}
		return out
	}
	for name, tc := range map[string]struct {
		list []reconcile.State
		want []string // beginnings
	}{
		"one": {failed(denied, "a"), []string{`service "a" is not registered in Consul after 3 attempts: unexpected status 403: the token does not ` +
			`have the right. The task is not affected`}},
		"two":       {failed(down, "b", "a"), []string{`2 services ("a", "b") are not registered in Consul after 3 attempts: connection refused. `}},
		"many":      {failed(down, "e", "d", "c", "b", "a"), []string{`5 services ("a", "b", "c", and 2 more) are not registered`}},
		"same name": {failed(down, "a", "a"), []string{`2 services ("a") are not registered`}},
		"two errors": {slices.Concat(failed(down, "a", "b"), failed(denied, "c")), []string{`2 services ("a", "b") are not registered`,
			`service "c" is not registered`}},
		"again": {[]reconcile.State{{Name: "a", Registered: true}, {Name: "b", Registered: true}},
			[]string{`2 services ("a", "b") are registered in Consul again`}},
		"one again": {[]reconcile.State{{Name: "a", Registered: true}}, []string{`service "a" is registered in Consul again`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := consul.Events(tc.list)
			if len(got) != len(tc.want) {
				t.Fatalf("%d events, want %d", len(got), len(tc.want))
			}
			for i, e := range got {
				if !strings.HasPrefix(e.Message, tc.want[i]) || strings.Contains(e.Message, "secret") {
					t.Errorf("event %q, want %q", e.Message, tc.want[i])
				}
			}
		})
	}
}

func texts(list []*message.ConsulService) (out []string) {
	for _, s := range list {
		out = append(out, fmt.Sprintf("%+v", *s))
	}
	return out
}

// TestComplete checks when the services of an allocation that nobody wants are leftovers: not before a restarted agent has
// set those of its running tasks.
func TestComplete(t *testing.T) {
	is := func(state string, paused nomad.TaskScheduleState) map[string]*nomad.TaskState {
		return map[string]*nomad.TaskState{"t": {State: state, Paused: paused}}
	}
	running, dead := is("running", ""), is("dead", "")
	one := []reconcile.State{{ID: "1"}}
	set := states{allocID + "/group-g": one, allocID + "/t": one}
	for name, tc := range map[string]struct {
		states states
		tasks  map[string]*nomad.TaskState
		want   bool
	}{
		"all set":                   {set, running, true},
		"nothing set":               {states{}, running, false},
		"hooks of the task run":     {states{allocID + "/group-g": one}, running, false},
		"task has not started":      {states{allocID + "/group-g": one}, nil, false},
		"task has ended":            {states{allocID + "/group-g": one}, dead, true},
		"task is paused":            {states{allocID + "/group-g": one}, is("pending", nomad.TaskScheduleStateForcePause), true},
		"off its schedule":          {states{allocID + "/group-g": one}, is("pending", nomad.TaskScheduleStateSchedPause), true},
		"task is about to pause":    {states{allocID + "/group-g": one}, is("running", nomad.TaskScheduleStateForcePause), false},
		"task resumes":              {states{allocID + "/group-g": one}, is("pending", nomad.TaskScheduleStateForceRun), false},
		"group is not set":          {states{allocID + "/t": one}, running, false},
		"set of another allocation": {states{"other/group-g": one, "other/t": one}, running, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := group(&nomad.Service{Name: "w"}).Alloc
			a.Job.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: "s", Provider: "consul"}}
			if got := consul.Complete(tc.states, a, tc.tasks); got != tc.want {
				t.Errorf("Complete() = %v, want %v", got, tc.want)
			}
		})
	}
	started := is("pending", "")
	started["t"].StartedAt = time.Now()
	for name, tc := range map[string]struct {
		hook  string
		tasks map[string]*nomad.TaskState
		want  bool
	}{
		"poststop task waits":       {nomad.TaskLifecycleHookPoststop, is("pending", ""), true},
		"poststop task runs":        {nomad.TaskLifecycleHookPoststop, running, false},
		"poststop task restarts":    {nomad.TaskLifecycleHookPoststop, started, false},
		"poststop task not read":    {nomad.TaskLifecycleHookPoststop, nil, false},
		"poststart task is pending": {nomad.TaskLifecycleHookPoststart, is("pending", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := group(&nomad.Service{Name: "w"}).Alloc
			task := a.Job.TaskGroups[0].Tasks[0]
			task.Services, task.Lifecycle = []*nomad.Service{{Name: "s", Provider: "consul"}}, &nomad.TaskLifecycleConfig{Hook: tc.hook}
			if got := consul.Complete(states{allocID + "/group-g": one}, a, tc.tasks); got != tc.want {
				t.Errorf("Complete() = %v, want %v", got, tc.want)
			}
		})
	}
	a := group(&nomad.Service{Name: "w", Provider: "nomad"}).Alloc
	if !consul.Complete(states{}, a, running) {
		t.Error("an allocation without services in Consul is not complete")
	}
}
