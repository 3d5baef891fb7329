package variables_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

func indexed(v *variable.Decrypted, index uint64) *variable.Decrypted {
	v.ModifyIndex = index
	return v
}

func heldBy(v *variable.Decrypted, lock string) *variable.Decrypted {
	v.Lock = &variable.Lock{ID: lock}
	return v
}

// readVariable reads a variable with a token.
func readVariable(t *testing.T, s *server.Server, path, token string) (*variable.Decrypted, error) {
	t.Helper()
	q := message.QueryOptions{Region: "global", AuthToken: token}
	var out message.VariablesReadResponse
	err := s.Call(servertest.Context(t), "Variables.Read", &message.VariablesReadRequest{Path: path, QueryOptions: q}, &out)
	return out.Data, err
}

// paths lists variables.
func paths(t *testing.T, s *server.Server, q message.QueryOptions) (out []string, next string) {
	t.Helper()
	q.Region = "global"
	got := servertest.Read[message.VariablesListResponse](t, s, "Variables.List", &message.VariablesListRequest{QueryOptions: q})
	for _, m := range got.Data {
		out = append(out, m.Namespace+":"+m.Path)
	}
	return out, got.NextToken
}

func TestVariables_CRUD(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a/b", "canary one"))
	m := first.Output
	servertest.Equal(t, "namespace", m.Namespace, "default")
	servertest.Equal(t, "CreateIndex", m.CreateIndex, first.Index)
	servertest.Equal(t, "CreateTime", m.CreateTime, m.ModifyTime)
	servertest.Equal(t, "item", m.Items["k"], "canary one")
	if m.ModifyTime == 0 {
		t.Error("ModifyTime = 0")
	}
	if v, err := readVariable(t, s, "a/b", ""); err != nil || v.Items["k"] != "canary one" || v.ModifyIndex != first.Index {
		t.Errorf("read %+v, %v", v, err)
	}
	if v, err := readVariable(t, s, "a/none", ""); err != nil || v != nil {
		t.Errorf("a missing variable: %+v, %v", v, err)
	}
	late := servertest.WriteVariable(t, s, variable.OpCAS, indexed(servertest.Variable("a/b", "x"), first.Index-1))
	servertest.Equal(t, "result of cas with an old index", late.Result, variable.ResultConflict)
	servertest.Equal(t, "index of the conflict", late.Conflict.ModifyIndex, first.Index)
	servertest.Equal(t, "item of the conflict", late.Conflict.Items["k"], "canary one")
	servertest.Equal(t, "output of the conflict", late.Output, nil)
	none := servertest.WriteVariable(t, s, variable.OpCAS, indexed(servertest.Variable("a/none", "x"), 5))
	if none.Result != variable.ResultConflict || none.Conflict.Path != "a/none" || none.Conflict.ModifyIndex != 0 {
		t.Errorf("cas of a missing variable: %s, conflict %+v", none.Result, none.Conflict)
	}
	next := servertest.WriteVariable(t, s, variable.OpCAS, indexed(servertest.Variable("a/b", "canary two"), first.Index))
	if next.Result != variable.ResultOk || next.Output.CreateIndex != first.Index || next.Output.ModifyIndex != next.Index {
		t.Errorf("cas: %s, %+v", next.Result, next.Output.Metadata)
	}
	held := servertest.State(t, s)
	if bytes.Contains(held, []byte("canary")) || !bytes.Contains(held, []byte("a/b")) {
		t.Error("the state contains the plaintext, or not the variable")
	}
	if out := servertest.WriteVariable(t, s, variable.OpDeleteCAS, indexed(servertest.Variable("a/b", ""),
		first.Index)); out.Result != variable.ResultConflict {
		t.Errorf("delete against an old index: %s", out.Result)
	}
	if out := servertest.WriteVariable(t, s, variable.OpDeleteCAS, indexed(servertest.Variable("a/b", ""),
		next.Index)); out.Result != variable.ResultOk || out.Conflict != nil {
		t.Errorf("delete: %s", out.Result)
	}
	if bytes.Contains(servertest.State(t, s), []byte("a/b")) {
		t.Error("the state contains data of a deleted variable")
	}
}

func TestVariables_Invalid(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	long, elsewhere := servertest.Variable("a", strings.Repeat("x", variable.MaxSize)), servertest.Variable("a", "x")
	elsewhere.Namespace = "nowhere"
	slow, hasty := servertest.Variable("a", "x"), servertest.Variable("a", "x")
	slow.Lock, hasty.Lock = &variable.Lock{TTL: 25 * time.Hour}, &variable.Lock{TTL: time.Second}
	for _, c := range []struct {
		op   variable.Op
		v    *variable.Decrypted
		want string
	}{
		{"set", nil, "must be specified"},
		{"eat", servertest.Variable("a", "x"), `"eat"`},
		{"set", servertest.Variable("", "x"), "path"},
		{"set", servertest.Variable("a b", "x"), "invalid path"},
		{"set", servertest.Variable("a.b", "x"), "invalid path"},
		{"set", servertest.Variable(strings.Repeat("a", 129), "x"), "128"},
		{"set", servertest.Variable("nomad/other", "x"), "reserved"},
		{"set", servertest.Variable("nomad/jobsx", "x"), "reserved"},
		{"set", servertest.Variable("nomad/job-templates/a/b", "x"), "reserved"},
		{"set", servertest.Variable("nomad", "x"), "reserved"},
		{"cas", servertest.Variable("a", ""), "Items"},
		{"set", long, "the limit is 65536"},
		{"lock-acquire", long, "the limit is 65536"},
		{"set", elsewhere, `"nowhere" does not exist`},
		{"delete", elsewhere, `"nowhere" does not exist`},
		{"lock-acquire", slow, "24h0m0s"},
		{"lock-acquire", hasty, "10s"},
		{"lock-acquire", heldBy(servertest.Variable("a", "x"), "mine"), "acquire it without an ID"},
		{"lock-release", servertest.Variable("a", ""), "missing lock ID"},
	} {
		if _, err := servertest.ApplyVariable(t, s, c.op, c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %+v: %v, want %q", c.op, c.v, err, c.want)
		}
	}
	for _, path := range []string{"nomad/jobs", "nomad/jobs/a/b/c", "nomad/job-templates/x", "nomadic", "~a_b-c/D", strings.Repeat("a", 128)} {
		servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable(path, "x"))
	}
}

func TestVariables_List(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	ns := &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "other"}},
		WriteRequest: message.WriteRequest{Region: "global"}}
	servertest.Read[message.GenericResponse](t, s, "Namespace.UpsertNamespaces", ns)
	for _, path := range []string{"b", "a/2", "a/1", "a/3"} {
		servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable(path, "x"))
	}
	far := servertest.Variable("a/1", "x")
	far.Namespace = "other"
	servertest.WriteVariable(t, s, variable.OpSet, far)
	for name, c := range map[string]struct {
		q    message.QueryOptions
		want []string
		next string
	}{
		"all":        {message.QueryOptions{}, []string{"default:a/1", "default:a/2", "default:a/3", "default:b"}, ""},
		"prefix":     {message.QueryOptions{Prefix: "a/"}, []string{"default:a/1", "default:a/2", "default:a/3"}, ""},
		"namespaces": {message.QueryOptions{Namespace: "*", Prefix: "a/1"}, []string{"default:a/1", "other:a/1"}, ""},
		"page":       {message.QueryOptions{PerPage: 2}, []string{"default:a/1", "default:a/2"}, "default.a/3"},
		"next page":  {message.QueryOptions{PerPage: 2, NextToken: "default.a/3"}, []string{"default:a/3", "default:b"}, ""},
		"filter":     {message.QueryOptions{Filter: `Path matches "[13]$"`}, []string{"default:a/1", "default:a/3"}, ""},
	} {
		if got, next := paths(t, s, c.q); !slices.Equal(got, c.want) || next != c.next {
			t.Errorf("%s: %v, next %q, want %v, %q", name, got, next, c.want, c.next)
		}
	}
	none := &message.VariablesListRequest{QueryOptions: message.QueryOptions{Region: "global", Namespace: "none"}}
	if err := s.Call(servertest.Context(t), "Variables.List", none, nil); err == nil {
		t.Error("the variables of a namespace that does not exist are listed")
	}
}

func TestVariables_BlockingQueries(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	index := servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a", "x")).Index
	got := make(chan string, 1)
	go func() {
		var out message.VariablesReadResponse
		q := message.QueryOptions{Region: "global", MinQueryIndex: index, MaxQueryTime: time.Minute}
		err := s.Call(servertest.Context(t), "Variables.Read", &message.VariablesReadRequest{Path: "a", QueryOptions: q}, &out)
		if err == nil && out.Data != nil {
			err = errors.New(out.Data.Items["k"])
		}
		got <- fmt.Sprint(err)
	}()
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("b", "x")) // another variable does not wake it
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a", "y"))
	if text := <-got; text != "y" {
		t.Errorf("the reader got %s", text)
	}
}

// Without access control, a task reads all variables with its default identity, as an anonymous caller does. It writes
// none, and sees no holder of a lock.
func TestVariables_WorkloadWithoutACLs(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	token := n.Allocs(1)[0].SignedIdentities["t"]
	all := []string{"nomad/jobs", "nomad/jobs/a", "nomad/jobs/b", "nomad/jobs/b/g", "nomad/jobs/b/g/t", "nomad/jobs/b/h", "nomad/jobs/bb",
		"other"}
	for _, path := range all {
		servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable(path, "x"))
	}
	servertest.WriteVariable(t, s, variable.OpLockAcquire, servertest.Variable("nomad/jobs/b", ""))
	for _, path := range all {
		v, err := readVariable(t, s, path, token)
		if err != nil || v.Items["k"] != "x" || v.LockID() != "" {
			t.Errorf("%s: %+v, %v", path, v, err)
		}
	}
	got, _ := paths(t, s, message.QueryOptions{AuthToken: token, Namespace: "*"})
	for i := range all {
		all[i] = "default:" + all[i]
	}
	if !slices.Equal(got, all) {
		t.Errorf("it lists %v", got)
	}
	if got, _ := paths(t, s, message.QueryOptions{AuthToken: token, Filter: `Path == "nomad/jobs/b" and Lock.ID is not empty`}); len(got) > 0 {
		t.Errorf("a filter sees the lock holder of %v", got)
	}
	write := &message.VariablesApplyRequest{Op: variable.OpSet, Var: servertest.Variable("nomad/jobs/b", "x"),
		WriteRequest: message.WriteRequest{Region: "global", AuthToken: token}}
	if err := s.Call(servertest.Context(t), "Variables.Apply", write, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("it writes: %v", err)
	}
	n.Report(nomad.AllocClientStatusComplete, n.Allocs(1)...)
	if _, err := readVariable(t, s, "nomad/jobs/b", token); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("after the allocation has ended: %v", err)
	}
}

func TestVariables_Locks(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	renew := func(lock string) (*variable.Metadata, error) {
		var out message.VariablesRenewLockResponse
		req := &message.VariablesRenewLockRequest{Path: "a", LockID: lock, WriteRequest: message.WriteRequest{Region: "global"}}
		err := s.Call(servertest.Context(t), "Variables.RenewLock", req, &out)
		return out.VarMeta, err
	}
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a", "x"))
	got := servertest.WriteVariable(t, s, variable.OpLockAcquire, servertest.Variable("a", "")).Output
	lock := got.LockID()
	if lock == "" {
		t.Fatalf("acquire returns %+v, want a lock", got)
	}
	servertest.Equal(t, "TTL", got.Lock.TTL, 15*time.Second)
	servertest.Equal(t, "LockDelay", got.Lock.LockDelay, 15*time.Second)
	servertest.Equal(t, "item", got.Items["k"], "x")
	for name, v := range map[variable.Op]*variable.Decrypted{"lock-acquire": servertest.Variable("a", "y"),
		"set": servertest.Variable("a", "y"), "delete": servertest.Variable("a", ""),
		"cas": indexed(servertest.Variable("a", "y"), got.ModifyIndex), "lock-release": heldBy(servertest.Variable("a", ""), "another")} {
		out := servertest.WriteVariable(t, s, name, v)
		if out.Result != variable.ResultConflict || out.Conflict.Lock == nil || out.Conflict.LockID() != "" || out.Conflict.Items["k"] != "x" {
			t.Errorf("%s of a variable locked by another: %s, %+v", name, out.Result, out.Conflict)
		}
	}
	if m, err := renew(lock); err != nil || m.LockID() != lock {
		t.Errorf("renew: %+v, %v", m, err)
	}
	if _, err := renew("another"); err == nil || !strings.Contains(err.Error(), "not held") {
		t.Errorf("renew by another: %v", err)
	}
	if out := servertest.WriteVariable(t, s, variable.OpSet, heldBy(servertest.Variable("a", "z"), lock)); out.Output.LockID() != lock ||
		out.Output.Items["k"] != "z" {
		t.Errorf("set by the holder: %+v", out.Output)
	}
	if out := servertest.WriteVariable(t, s, variable.OpSet, heldBy(servertest.Variable("a", ""), lock)); out.Output.Items["k"] != "z" ||
		out.Output.Lock.TTL != 15*time.Second {
		t.Errorf("set of nothing by the holder: %+v", out.Output)
	}
	if out := servertest.WriteVariable(t, s, variable.OpLockRelease, heldBy(servertest.Variable("a", ""), lock)); out.Output.Lock != nil ||
		len(out.Output.Items) > 0 {
		t.Errorf("release: %+v", out.Output)
	}
	if _, err := renew(lock); err == nil {
		t.Error("a released lock was renewed")
	}
	if out := servertest.WriteVariable(t, s, variable.OpSet, heldBy(servertest.Variable("a", "y"),
		lock)); out.Result != variable.ResultConflict {
		t.Errorf("set by the former holder: %s", out.Result)
	}
	if other := servertest.WriteVariable(t, s, variable.OpLockAcquire, servertest.Variable("a", "")).Output.LockID(); other == lock ||
		other == "" {
		t.Errorf("acquired again by %q", other)
	}
}

// A full rotation encrypts all variables with the new key. Nothing needs the old key then.
func TestVariables_FullRotation(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.RootKeys(t, s)[rootkey.Active][0]
	for i := range 20 {
		servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable(fmt.Sprint("v", i), fmt.Sprint("x", i)))
	}
	held := servertest.Variable("v3", "")
	held.Lock = &variable.Lock{TTL: time.Hour}
	lock := servertest.WriteVariable(t, s, variable.OpLockAcquire, held).Output.LockID()
	servertest.WriteVariable(t, s, variable.OpLockAcquire, servertest.Variable("nothing", ""))
	servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{Full: true})
	servertest.Eventually(t, func() bool { return slices.Contains(servertest.RootKeys(t, s)[rootkey.Inactive], first) })
	for _, k := range servertest.Read[message.KeyringListRootKeyMetaResponse](t, s, "Keyring.List",
		&message.KeyringListRootKeyMetaRequest{QueryOptions: servertest.Global}).Keys {
		if want := map[bool]int{true: 0, false: 21}[k.KeyID == first]; k.Variables != want {
			t.Errorf("key %s encrypts %d variables, want %d", k.KeyID, k.Variables, want)
		}
	}
	for i := range 20 {
		if v, err := readVariable(t, s, fmt.Sprint("v", i), ""); err != nil || v.Items["k"] != fmt.Sprint("x", i) ||
			i == 3 && v.LockID() != lock {
			t.Errorf("v%d is %+v, %v", i, v, err)
		}
	}
	remove := &message.KeyringDeleteRootKeyRequest{KeyID: first, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := s.Call(servertest.Context(t), "Keyring.Delete", remove, nil); err != nil {
		t.Errorf("unused key: %v", err)
	}
	if v, err := readVariable(t, s, "v5", ""); err != nil || v.Items["k"] != "x5" {
		t.Errorf("without the old key: %+v, %v", v, err)
	}
}

func TestVariables_KeyInUse(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	first := servertest.RootKeys(t, s)[rootkey.Active][0]
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a", "x"))
	servertest.Rotate(t, s, message.KeyringRotateRootKeyRequest{})
	remove := &message.KeyringDeleteRootKeyRequest{KeyID: first, WriteRequest: message.WriteRequest{Region: "global"}}
	if err := s.Call(servertest.Context(t), "Keyring.Delete", remove, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a key that a variable needs is removed: %v", err)
	}
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("a", "y"))
	if err := s.Call(servertest.Context(t), "Keyring.Delete", remove, nil); err != nil {
		t.Errorf("unused key: %v", err)
	}
}

// BenchmarkListVariables lists 10,000 variables by prefix.
func BenchmarkListVariables(b *testing.B) {
	s, _ := servertest.Start(b, nil)
	const count = 10_000
	for i := range count {
		servertest.WriteVariable(b, s, variable.OpSet, servertest.Variable(fmt.Sprintf("bench/%05d", i), "x"))
		if i%20 == 0 {
			servertest.WriteVariable(b, s, variable.OpSet, servertest.Variable(fmt.Sprintf("other/%05d", i), "x"))
		}
	}
	pool := rpc.NewPool(rpc.PoolConfig{})
	defer pool.Close()
	for name, call := range map[string]func(req, out any) error{
		"InProcess": func(req, out any) error { return s.Call(b.Context(), "Variables.List", req, out) },
		"Connection": func(req, out any) error {
			return pool.Call(b.Context(), s.RPCAddr(), "Variables.List", req, out)
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var out message.VariablesListResponse
				req := &message.VariablesListRequest{QueryOptions: message.QueryOptions{Region: "global", Prefix: "bench/"}}
				if err := call(req, &out); err != nil || len(out.Data) != count {
					b.Fatalf("%d variables, %v", len(out.Data), err)
				}
			}
		})
	}
}
