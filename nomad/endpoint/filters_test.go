package endpoint

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	aclendpoint "github.com/open-nomad/open-nomad/nomad/endpoint/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/variables"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// The IDs of the objects of the world.
const (
	canaryNode       = "a1111111-1111-4111-8111-111111111111"
	canaryAlloc      = "a2222222-2222-4222-8222-222222222222"
	canaryEval       = "a3333333-3333-4333-8333-333333333333"
	canaryDeployment = "a4444444-4444-4444-8444-444444444444"
)

// words are the values of fields of requests and of objects, by name.
var words = map[string]string{"Namespace": "default", "JobID": "canary-job", "NodeID": canaryNode, "AllocID": canaryAlloc,
	"EvalID":       canaryEval,
	"DeploymentID": canaryDeployment, "ServiceName": "canary-service", "NodePool": "canary-pool", "Path": "canary-path"}

// listing is a list that takes a filter.
type listing struct {
	name    string // word for the field Name of the request
	policy  string // only the right to list
	objects func(*state.Snapshot) []any
	read    string // the method that reads one object
	id      string // word for the fields ID and Name of its request
}

func rowsOf[T any](all func(yield func(T) bool)) (out []any) {
	for o := range all {
		out = append(out, o)
	}
	return out
}

const (
	listJobs = `namespace "default" { capabilities = ["list-jobs"] }`
	readJobs = `namespace "default" { capabilities = ["read-job"] }`
)

var (
	jobRows    = func(s *state.Snapshot) []any { return rowsOf(s.Jobs(nil)) }
	allocRows  = func(s *state.Snapshot) []any { return rowsOf(s.Allocs(nil)) }
	evalRows   = func(s *state.Snapshot) []any { return rowsOf(s.Evals(nil)) }
	deployRows = func(s *state.Snapshot) []any { return rowsOf(s.Deployments(nil)) }
	nodeRows   = func(s *state.Snapshot) []any { return rowsOf(s.Nodes(nil)) }
	quotaRows  = func(s *state.Snapshot) []any { return rowsOf(s.Quotas(nil)) }
	serviceRow = func(s *state.Snapshot) []any { return rowsOf(s.Registrations(nil)) }
)

// filtered are the lists that take a filter. A list that is missing here fails the test.
var filtered = map[string]listing{
	"Job.List":                       {"", listJobs, jobRows, "Job.GetJob", ""},
	"NodePool.ListJobs":              {"canary-pool", listJobs + ` node_pool "canary-pool" { policy = "read" }`, jobRows, "Job.GetJob", ""},
	"Job.Statuses":                   {"", readJobs, jobRows, "Job.GetJob", ""},
	"Job.Allocations":                {"", readJobs, allocRows, "Alloc.GetAlloc", ""},
	"Job.Evaluations":                {"", readJobs, evalRows, "Eval.GetEval", ""},
	"Job.Deployments":                {"", readJobs, deployRows, "Deployment.GetDeployment", ""},
	"Job.GetServiceRegistrations":    {"", readJobs, serviceRow, "ServiceRegistration.GetService", ""},
	"Alloc.List":                     {"", readJobs, allocRows, "Alloc.GetAlloc", ""},
	"Alloc.GetServiceRegistrations":  {"", readJobs, serviceRow, "ServiceRegistration.GetService", ""},
	"Eval.List":                      {"", readJobs, evalRows, "Eval.GetEval", ""},
	"Eval.Count":                     {"", readJobs, evalRows, "Eval.GetEval", ""},
	"Deployment.List":                {"", readJobs, deployRows, "Deployment.GetDeployment", ""},
	"ServiceRegistration.GetService": {"", readJobs, serviceRow, "ServiceRegistration.GetService", ""},
	"ServiceRegistration.Instances":  {"", readJobs, serviceRow, "ServiceRegistration.GetService", ""},
	"Node.List":                      {"", `node { policy = "read" }`, nodeRows, "Node.GetNode", ""},
	"NodePool.ListNodes": {"canary-pool", `node { policy = "read" } node_pool "canary-pool" { policy = "read" }`, nodeRows,
		"Node.GetNode", ""},
	"NodePool.List": {"", `node_pool "canary-pool" { policy = "read" }`,
		func(s *state.Snapshot) []any { return rowsOf(s.NodePools(nil)) }, "NodePool.GetNodePool", "canary-pool"},
	"Namespace.ListNamespaces": {"", listJobs, func(s *state.Snapshot) []any { return rowsOf(s.Namespaces(nil)) },
		"Namespace.GetNamespace", "default"},
	"Quota.List":   {"", `quota { policy = "read" }`, quotaRows, "Quota.Get", "canary-quota"},
	"Quota.Usages": {"", `quota { policy = "read" }`, quotaRows, "Quota.Get", "canary-quota"},
	"HostVolume.List": {"", `namespace "default" { capabilities = ["host-volume-read"] }`,
		func(s *state.Snapshot) []any { return rowsOf(s.HostVolumes(nil)) }, "", ""},
	"TaskGroupHostVolumeClaim.List": {"", `namespace "default" { capabilities = ["host-volume-read"] }`,
		func(s *state.Snapshot) []any { return rowsOf(s.VolumeClaims(nil)) }, "", ""},
	"CSIVolume.List": {"", `namespace "default" { capabilities = ["csi-list-volume"] }`,
		func(s *state.Snapshot) []any { return rowsOf(s.CSIVolumes(nil)) }, "CSIVolume.Get", "canary-volume"},
	"CSIPlugin.List": {"", `plugin { policy = "list" }`,
		func(s *state.Snapshot) []any { return rowsOf(s.CSIPlugins(nil)) }, "CSIPlugin.Get", "canary-plugin"},
	"Variables.List": {"", `namespace "default" { variables { path "*" { capabilities = ["list"] } } }`,
		func(s *state.Snapshot) []any { return rowsOf(s.Variables(nil)) }, "Variables.Read", ""},
	"Variables.Tree": {"", `namespace "default" { variables { path "*" { capabilities = ["read"] } } }`,
		func(s *state.Snapshot) []any { return rowsOf(s.Variables(nil)) }, "Variables.Read", ""},
	"ACL.ListAuthMethods": {"", ``, func(s *state.Snapshot) []any { return rowsOf(s.ACLAuthMethods(nil)) }, "ACL.GetAuthMethod",
		"canary-method"},
	"ACL.ListBindingRules": {"", "management", func(s *state.Snapshot) []any { return rowsOf(s.ACLBindingRules(nil)) },
		"ACL.GetBindingRule", "canary-rule"},
	"ACL.ListPolicies": {"", "management", func(s *state.Snapshot) []any { return rowsOf(s.ACLPolicies(nil)) }, "ACL.GetPolicy",
		"canary-policy"},
	"ACL.ListRoles": {"", "management", func(s *state.Snapshot) []any { return rowsOf(s.ACLRoles(nil)) }, "ACL.GetRoleByID",
		"canary-role"},
	"ACL.ListTokens": {"", "management", func(s *state.Snapshot) []any { return rowsOf(s.ACLTokens(nil)) },
		"ACL.GetToken", ""},
}

// canaries sets all fields to values that occur nowhere else.
type canaries struct {
	next  int
	types []reflect.Type // types of the structs around
}

func (c *canaries) fill(v reflect.Value) {
	c.next++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("canary-%d-x", c.next))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(7_000_000 + c.next))
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(7_000_000 + c.next))
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(fmt.Sprintf("canary-%d-x", c.next)))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(fmt.Sprintf("canary-%d-x", c.next)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		c.fill(v.Index(0))
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		c.fill(elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), elem)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || slices.Contains(c.types, v.Type()) {
			return
		}
		c.types = append(c.types, v.Type())
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				c.fill(v.Field(i))
			}
		}
		c.types = c.types[:len(c.types)-1]
	}
}

// filled returns an object with canaries in all fields, apart from those that edit sets.
func filled[T any](c *canaries, edit func(*T)) *T {
	o := new(T)
	c.fill(reflect.ValueOf(o).Elem())
	name(reflect.ValueOf(o).Elem(), words)
	edit(o)
	return o
}

// name sets the strings of a struct by the names of the fields.
func name(v reflect.Value, words map[string]string) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		word, ok := words[field.Name]
		switch {
		case ok && f.Kind() == reflect.String && f.CanSet():
			f.SetString(word)
		case field.Anonymous && f.Kind() == reflect.Struct:
			name(f, words)
		}
	}
}

// restore adds rows of a record type.
func restore(t *testing.T, to *state.Restore, record string, row any) {
	t.Helper()
	for _, rec := range state.Tables() {
		if rec.Name != record {
			continue
		}
		raw, err := codec.Encode(row)
		if err != nil {
			t.Fatalf("%s: %v", record, err)
		}
		err = rec.Read(to, func(v any) error {
			if undecoded, ok := v.(*msgpack.Raw); ok {
				*undecoded = raw
				return nil
			}
			return codec.Decode(raw, v)
		})
		if err != nil {
			t.Fatalf("%s: %v", record, err)
		}
	}
}

// canaryWorld returns a state with one object of each kind, full of canaries.
func canaryWorld(t *testing.T) *state.Store {
	t.Helper()
	c, to := &canaries{}, state.NewRestore(slog.New(slog.DiscardHandler))
	job := filled(c, func(j *nomad.Job) {
		j.ID, j.Periodic, j.ParentID = "canary-job", nil, ""
		plugin := j.TaskGroups[0].Tasks[0].CSIPluginConfig
		plugin.ID, plugin.Type = "canary-plugin", csi.PluginMonolith // otherwise a restore removes the record of the plugin
	})
	restore(t, to, "Job", job)
	restore(t, to, "JobSummary", filled(c, func(*nomad.JobSummary) {}))
	restore(t, to, "Node", filled(c, func(n *nomad.Node) { n.ID = canaryNode }))
	restore(t, to, "NodePool", filled(c, func(p *nomad.NodePool) { p.Name = "canary-pool" }))
	restore(t, to, "Alloc", filled(c, func(a *nomad.Allocation) {
		a.ID, a.Job = canaryAlloc, job
		a.Resources, a.SharedResources, a.TaskResources = nil, nil, nil // readers get AllocatedResources in these forms
	}))
	restore(t, to, "Eval", filled(c, func(e *nomad.Evaluation) { e.ID = canaryEval }))
	restore(t, to, "Deployment", filled(c, func(d *nomad.Deployment) { d.ID, d.JobCreateIndex = canaryDeployment, job.CreateIndex }))
	restore(t, to, "Namespace", filled(c, func(n *nomad.Namespace) { n.Name = "default" }))
	restore(t, to, "ServiceRegistration", filled(c, func(*catalog.Registration) {}))
	restore(t, to, "HostVolume", filled(c, func(*hostvolume.Volume) {}))
	restore(t, to, "CSIPlugin", filled(c, func(p *csi.Plugin) { p.ID = "canary-plugin" }))
	restore(t, to, "CSIVolume", filled(c, func(v *csi.Volume) {
		v.ID, v.PluginID = "canary-volume", "canary-plugin"
		v.ReadClaims = map[string]*csi.Claim{canaryAlloc: {AllocationID: canaryAlloc, NodeID: canaryNode}}
	}))
	restore(t, to, "Variables", filled(c, func(*variable.Encrypted) {}))
	restore(t, to, "ACLToken", filled(c, func(*rbac.Token) {}))
	restore(t, to, "ACLRole", filled(c, func(r *rbac.Role) { r.ID = "canary-role" }))
	restore(t, to, "ACLPolicy", filled(c, func(p *rbac.Policy) { p.Name = "canary-policy" }))
	restore(t, to, "ACLAuthMethod", filled(c, func(m *rbac.AuthMethod) { m.Name = "canary-method" }))
	restore(t, to, "ACLBindingRule", filled(c, func(r *rbac.BindingRule) { r.ID = "canary-rule" }))
	claim, err := json.Marshal(filled(c, func(*hostvolume.Claim) {}))
	if err != nil {
		t.Fatal(err)
	}
	restore(t, to, "Index", &nomad.IndexEntry{Key: "volume_claim/" + string(claim), Value: 5})
	store := to.Finish()
	if _, err := store.UpsertQuotas(9_000_000,
		&message.QuotaUpsertRequest{Quotas: []*quota.Spec{filled(c, func(q *quota.Spec) { q.Name = "canary-quota" })}}); err != nil {
		t.Fatal(err)
	}
	return store
}

// policies authenticates each caller with the policy that is its token.
type policies struct{ t *testing.T }

func (p policies) Authenticate(_ context.Context, token string, _ rpc.Rule, _ *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	return &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{AccessorID: token, Type: "client"}}, nil
}

func (p policies) Access(_ context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	switch token := id.ACLToken.AccessorID; token {
	case "management":
		return &rpc.Access{Rights: acl.New(true)}, nil
	case "":
		return &rpc.Access{Rights: acl.New(false)}, nil
	default:
		rules, err := acl.Parse(token)
		if err != nil {
			p.t.Errorf("%s: %v", token, err)
			return nil, err
		}
		return &rpc.Access{Rights: acl.New(false, rules)}, nil
	}
}

// plaintext is a keyring that decrypts everything to the same items.
type plaintext struct{ variables.Keyring }

// Decrypt implements variables.Keyring.
func (plaintext) Decrypt(context.Context, string, []byte) ([]byte, error) {
	return []byte(`{"k": "canary-item"}`), nil
}

// filters asks the methods of a server.
type filters struct {
	t       *testing.T
	server  *rpc.Server
	methods map[string]rpc.Method
	snap    *state.Snapshot
}

func newFilters(t *testing.T) *filters {
	t.Helper()
	store := canaryWorld(t)
	s := New(Config{Variables: variables.Config{Keyring: plaintext{}}, Access: aclendpoint.Config{Control: aclendpoint.Control{Enabled: true}},
		Core: handler.Config{Kinds: drivers.Table(), Schemas: schema.NewSet(drivers.Table()), Store: func() *state.Store { return store },
			Cluster: alone{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}})
	f := &filters{t: t, methods: map[string]rpc.Method{}, snap: store.Snapshot()}
	for _, m := range s.Methods() {
		f.methods[m.Name] = m
	}
	var err error
	f.server, err = rpc.NewServer(rpc.Config{Methods: s.Methods(), Auth: policies{t}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ask calls a method with a filter, and returns the answer as JSON. All optional fields are requested.
func (f *filters) ask(method, token, id, filter string) (string, error) {
	m := f.methods[method]
	req := m.NewRequest()
	v := reflect.ValueOf(req).Elem()
	all := map[string]string{"ID": id, "Name": id}
	for field, word := range words {
		all[field] = word
	}
	if v.FieldByName("Namespaces").IsValid() { // no list
		all["Namespaces"] = ""
	}
	name(v, all)
	if fields := v.FieldByName("Fields"); fields.IsValid() && fields.Kind() == reflect.Pointer {
		fields.Set(reflect.New(fields.Type().Elem()))
		for i := range fields.Elem().NumField() {
			if b := fields.Elem().Field(i); b.Kind() == reflect.Bool {
				b.SetBool(true)
			}
		}
	}
	q, ok := req.(interface{ Query() *message.QueryOptions })
	if !ok {
		return "", nil
	}
	q.Query().AuthToken, q.Query().Filter, q.Query().Namespace, q.Query().Prefix = token, filter, "default", ""
	resp := m.NewResponse()
	if err := f.server.Call(f.t.Context(), method, req, resp); err != nil {
		return "", err
	}
	text, err := json.Marshal(resp)
	if err != nil {
		f.t.Fatalf("%s: %v", method, err)
	}
	return string(text), nil
}

// leaf is a field of an object: its path in a filter, a filter that compares it, and its value in JSON.
type leaf struct{ path, filter, value string }

// leaves returns the fields of an object that have canaries.
func leaves(v reflect.Value, path string) (out []leaf) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			out = leaves(v.Elem(), path)
		}
	case reflect.String:
		if s := v.String(); strings.Contains(s, "canary-") && strings.HasSuffix(s, "-x") {
			out = append(out, leaf{path, fmt.Sprintf("%q == %q", path, s), s})
		}
	case reflect.Int, reflect.Int64, reflect.Int32:
		if n := v.Int(); n > 7_000_000 && n < 8_000_000 {
			out = append(out, leaf{path, fmt.Sprintf("%q == %d", path, n), strconv.FormatInt(n, 10)})
		}
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		if n := v.Uint(); n > 7_000_000 && n < 8_000_000 {
			out = append(out, leaf{path, fmt.Sprintf("%q == %d", path, n), strconv.FormatUint(n, 10)})
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []leaf{{path, fmt.Sprintf("%q matches %q", path, v.Bytes()), base64.StdEncoding.EncodeToString(v.Bytes())}}
		}
		for i := range v.Len() {
			out = append(out, leaves(v.Index(i), fmt.Sprint(path, "/", i))...)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			out = append(out, leaves(v.MapIndex(key), path+"/"+key.String())...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				out = append(out, leaves(v.Field(i), path+"/"+field.Name)...)
				if field.Anonymous { // a filter may also see the embedded object alone
					out = append(out, leaves(v.Field(i), path)...)
				}
			}
		}
	}
	return out
}

// matched reports whether an answer has an object.
func matched(answer string) bool {
	return strings.Contains(answer, "canary-") || strings.Contains(answer, `"Count":1`)
}

// TestFilters_SeeWhatTheCallerReads checks for each list and each field of its objects, that a caller with only
// the right to list cannot compare a field that it cannot read.
func TestFilters_SeeWhatTheCallerReads(t *testing.T) {
	f := newFilters(t)
	for method, l := range filtered {
		t.Run(method, func(t *testing.T) {
			shown, err := f.ask(method, l.policy, l.name, "")
			if err != nil || !matched(shown) {
				t.Fatalf("%s without a filter = %s, %v, want the object", method, shown, err)
			}
			if l.read != "" {
				one, _ := f.ask(l.read, l.policy, l.id, "")
				shown += one
			}
			compared := 0
			for _, o := range l.objects(f.snap) {
				for _, leaf := range leaves(reflect.ValueOf(o), "") {
					found, err := f.ask(method, l.policy, l.name, leaf.filter)
					if err == nil && matched(found) {
						compared++
						if !strings.Contains(shown, leaf.value) {
							t.Errorf("a filter compares %s, which neither the list nor %s shows", leaf.path, l.read)
						}
					}
				}
			}
			if compared == 0 {
				t.Error("no field can be compared: the test proves nothing")
			}
		})
	}
}

// TestFilters_AllLists checks that the table of lists is complete.
func TestFilters_AllLists(t *testing.T) {
	f := newFilters(t)
	for method, m := range f.methods {
		if m.Stream || m.NewResponse() == nil {
			continue
		}
		var takes bool
		for _, id := range []string{"", "canary-pool"} {
			_, err := f.ask(method, "management", id, "(")
			takes = takes || err != nil && strings.Contains(err.Error(), "filter expression")
		}
		if _, listed := filtered[method]; listed != takes {
			t.Errorf("%s takes a filter: %v; in the table of this test: %v", method, takes, listed)
		}
	}
}

// TestFilters_ReadersOfJobs checks that callers with read-job filter complete jobs, as in Nomad 2.0.
func TestFilters_ReadersOfJobs(t *testing.T) {
	f := newFilters(t)
	job := f.snap.Job(nil, "default", "canary-job")
	secret := fmt.Sprintf(`TaskGroups.0.Tasks.0.Env.k == %q`, job.TaskGroups[0].Tasks[0].Env["k"])
	both := `namespace "default" { capabilities = ["list-jobs", "read-job"] } node_pool "canary-pool" { policy = "read" }`
	for _, method := range []string{"Job.List", "NodePool.ListJobs"} {
		if found, err := f.ask(method, both, "canary-pool", secret); err != nil || !strings.Contains(found, "canary-job") {
			t.Errorf("%s with read-job = %s, %v, want the job", method, found, err)
		}
		only := strings.Replace(both, `, "read-job"`, "", 1)
		if found, err := f.ask(method, only, "canary-pool", secret); err == nil || !strings.Contains(err.Error(), "filter expression") {
			t.Errorf("%s without read-job = %s, %v, want an error about the filter", method, found, err)
		}
		if found, err := f.ask(method, only, "canary-pool", `ID == "canary-job" and ParameterizedJob == true`); err != nil ||
			!strings.Contains(found, "canary-job") {
			t.Errorf("%s without read-job by fields of the stub = %s, %v, want the job", method, found, err)
		}
	}
}

// TestFilters_AreCheap checks that no filter costs much memory on any list, for callers with few rights too.
func TestFilters_AreCheap(t *testing.T) {
	const most = 64 << 20
	f := newFilters(t)
	for name, filter := range map[string]string{
		"parentheses":      strings.Repeat("(", 200) + `ID == "a"` + strings.Repeat(")", 200),
		"a megabyte":       strings.Repeat("(", 1<<20),
		"conditions":       strings.Repeat(`ID == "a" or (ID == "b") or `, 250) + `ID == "c"`,
		"repetition":       `ID matches "(abcdefgh){1000}(abcdefgh){1000}"`,
		"a pointer":        `Periodic matches "a" or Meta matches "a" or Capabilities matches "a" or ID matches "a"`,
		"nested":           strings.Repeat("any TaskGroups as x { ", 5) + `ID == "a"` + strings.Repeat(" }", 5),
		"a missing object": `Job.Update.X.Y.Z == "a"`,
	} {
		for method, l := range filtered {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := f.ask(method, l.policy, l.name, filter)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("%s with %s allocates %d bytes, want at most %d", method, name, n, most)
			}
			var coded *apierror.Coded
			if err != nil && (!errors.As(err, &coded) || coded.Code != 400) {
				t.Errorf("%s with %s = %.200v, want 400", method, name, err)
			}
		}
	}
}
