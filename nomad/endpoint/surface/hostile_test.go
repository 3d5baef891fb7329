package surface_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// hostile fills requests with unusual values: missing parts, empty elements in lists and maps,
// extreme numbers, IDs of existing objects.
type hostile struct {
	rng   *rand.Rand
	words []string
}

// fill sets v to a value of its type.
func (h hostile) fill(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() || depth > 9 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(h.words[h.rng.IntN(len(h.words))])
	case reflect.Bool:
		v.SetBool(h.rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(h.number())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(h.number()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(h.number()))
	case reflect.Interface:
		if v.NumMethod() == 0 {
			all := []any{"x", int64(-1), map[string]any{"a": nil}, []any{nil}, true}
			v.Set(reflect.ValueOf(all[h.rng.IntN(len(all))]))
		}
	case reflect.Pointer:
		if h.rng.IntN(4) != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			h.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			h.fill(v.Field(i), depth+1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), h.rng.IntN(3), 3))
		for i := range v.Len() {
			h.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range h.rng.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			h.fill(key, depth+1)
			h.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	}
}

// spoil replaces a few parts of a valid v.
func (h hostile) spoil(v reflect.Value, depth int) {
	if h.rng.IntN(40) == 0 {
		h.fill(v, depth)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && h.rng.IntN(30) != 0 {
			h.spoil(v.Elem(), depth+1)
		} else if v.CanSet() {
			h.fill(v, depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				h.spoil(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			h.spoil(v.Index(i), depth+1)
		}
	}
}

func (h hostile) number() int64 {
	all := []int64{0, 1, 2, 50, -1, 1 << 31, 1<<62 + 1, -1 << 63, int64(time.Second), h.rng.Int64N(1000)}
	return all[h.rng.IntN(len(all))]
}

// rounds returns how often each method is called.
func rounds(t *testing.T) int {
	if s := os.Getenv("NOMAD_TEST_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 12
}

// The server answers every request and continues. A panic while applying the log or placing
// allocations would stop every server.
func TestMethods_HostileRequests(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) {
		c.RPCMaxConnsPerClient = -1
		c.Vault = vault.Clusters{"default": {Enabled: true, DefaultIdentity: &nomad.WorkloadIdentity{Audience: []string{"vault.io"}, TTL: time.Hour},
			ExtraClaims: map[string]string{"where": "${node.id}/${vault.role}"}}}
	})
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	alloc := n.Allocs(1)[0]
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := hostile{rng: rand.New(rand.NewPCG(seed, 0)),
		words: []string{"", "b", "g", "t", "default", "global", "ready", "running", "failed", "complete",
			"down", "init", "service", "batch", "system", "sysbatch", "_core", "pending", "blocked", "host", "mock_driver", "stop", "run",
			"a/../../b",
			"\x00", "\xff\xfe", strings.Repeat("x", 300), "${attr.x}", n.Node.ID, n.Node.SecretID, alloc.ID, alloc.EvalID, "all", "*", "regexp",
			"("}}
	good := access{s: s, a: n, alloc: alloc}
	for _, m := range s.Methods() {
		t.Run(m.Name, func(t *testing.T) {
			for i := range rounds(t) {
				for _, token := range []string{"", n.JWT} {
					req := m.NewRequest()
					if i%4 == 0 {
						h.fill(reflect.ValueOf(req).Elem(), 0)
					} else {
						req = good.request(m)
						withJob(req)
						req = codec.Copy(req)
						h.spoil(reflect.ValueOf(req).Elem(), 0)
					}
					servertest.SetToken(req, token)
					if err := tryCall(n, m, req); err != nil && strings.Contains(err.Error(), "internal error in") {
						t.Errorf("the handler panicked for %+v", req)
					}
				}
			}
		})
	}
	// One of the requests may have disabled job registration.
	open := &message.SchedulerSetConfigRequest{Config: nomad.SchedulerConfiguration{}}
	if err := s.Call(servertest.Context(t), "Operator.SchedulerSetConfiguration", open, nil); err != nil {
		t.Fatalf("open the registration again: %v", err)
	}
	again := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("after", 1))
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", &message.JobSpecificRequest{JobID: "after",
		QueryOptions: message.QueryOptions{Region: "global", Namespace: "default"}}); got.Job == nil {
		t.Error("the server accepts no more jobs")
	}
	_ = again
}

// withJob gives a request about jobs a valid one.
func withJob(req rpc.Request) {
	job := servertest.BatchJob("b", 2)
	job.Type = nomad.JobTypeService
	job.TaskGroups[0].Networks = []*nomad.NetworkResource{{Mode: "host", DynamicPorts: []nomad.Port{{Label: "http"}}}}
	job.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}
	job.Spreads = []*nomad.Spread{{Attribute: "${node.datacenter}", Weight: 50,
		SpreadTarget: []*nomad.SpreadTarget{{Value: "dc1", Percent: 50}}}}
	task := job.TaskGroups[0].Tasks[0]
	task.Vault = &nomad.Vault{Role: "g", ChangeMode: "signal", ChangeSignal: "SIGHUP"}
	task.Secrets = []*nomad.Secret{{Name: "a", Provider: "nomad", Path: "b", Config: map[string]any{"namespace": "default"}},
		{Name: "b", Provider: "vault", Path: "b", Config: map[string]any{"engine": "kv_v2"}},
		{Name: "c", Provider: "plugin", Path: "b", Env: map[string]string{"A": "b"}}}
	task.Templates = []*nomad.Template{{EmbeddedTmpl: "{{with secret \"b\"}}{{end}}", DestPath: "local/a", ChangeMode: "restart"}}
	task.Identities = []*nomad.WorkloadIdentity{{Name: "vault_default", Audience: []string{"vault.io"}, TTL: time.Hour}}
	task.Constraints = []*nomad.Constraint{{LTarget: "${attr.vault.version}", RTarget: ">= 0.6.1", Operand: "semver"}}
	switch r := req.(type) {
	case *message.JobRegisterRequest:
		r.Job = job
	case *message.JobPlanRequest:
		r.Job, r.Diff = job, true
	case *message.JobValidateRequest:
		r.Job = job
	case *message.AllocUpdateDesiredTransitionRequest:
		yes := true
		r.Allocs = map[string]*nomad.DesiredTransition{"x": {Migrate: &yes}}
		r.Evals = []*nomad.Evaluation{{ID: nomad.NewID(), JobID: "b", Namespace: "default", Type: "batch", Status: "pending", Priority: 50,
			TriggeredBy: "x"}}
	}
}

// try makes one call with a short timeout.
func tryCall(n *servertest.FakeNode, m rpc.Method, req rpc.Request) error {
	ctx, cancel := context.WithTimeout(servertest.Context(n.T), 2*time.Second)
	defer cancel()
	if !m.Stream {
		return n.Pool.Call(ctx, n.Addr, m.Name, req, nil)
	}
	err := servertest.StreamError(func() (*rpc.Stream, error) { return n.Pool.Stream(ctx, n.Addr, m.Name) }, req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
