package surface_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// about sets the fields of a request by name, so that it refers to existing objects. Lists and
// maps of pointers stay empty.
func about(v reflect.Value, words map[string]string, depth int) {
	if depth > 4 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			about(v.Elem(), words, depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			word, known := words[name]
			list, lists := words[strings.TrimSuffix(name, "s")]
			switch {
			case !f.CanSet():
			case f.Kind() == reflect.String && known && f.String() == "":
				f.SetString(word)
			case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String && lists && f.Len() == 0:
				f.Set(reflect.ValueOf([]string{list}).Convert(f.Type()))
			case f.Kind() == reflect.Bool && (name == "All" || name == "AllAllocs" || name == "Resources" || name == "Diffs" ||
				name == "IncludeChildren"):
				f.SetBool(true)
			case f.Kind() == reflect.Struct:
				about(f, words, depth+1)
			}
		}
	}
}

// answer returns the complete answer of a method in its wire format.
func (x access) answer(t *testing.T, m rpc.Method, token string, words map[string]string) string {
	t.Helper()
	req := x.request(m)
	about(reflect.ValueOf(req), words, 0)
	if r, ok := req.(*message.NodeRegisterRequest); ok {
		r.Node.SecretID = nomad.NewID() // only the node has the right one
	}
	switch r := req.(type) {
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().AuthToken, r.Query().Namespace = "global", token, "default"
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().AuthToken, r.Write().Namespace = "global", token, "default"
	case interface{ Caller() *message.NodeCall }:
		r.Caller().Region, r.Caller().AuthToken = "global", token
	}
	ctx, cancel := context.WithTimeout(servertest.Context(t), 10*time.Second)
	defer cancel()
	if m.Stream {
		st, err := x.b.Pool.Stream(ctx, x.s.RPCAddr(), m.Name)
		if err != nil {
			return err.Error()
		}
		defer st.Close()
		if err := st.Encode(req); err != nil {
			return err.Error()
		}
		if m.Name == "Event.Stream" { // a stream without end: buffered events arrive at once
			defer time.AfterFunc(500*time.Millisecond, func() { st.Close() }).Stop()
		}
		said, _ := io.ReadAll(io.LimitReader(st, 1<<20)) // everything before an error
		return string(said)
	}
	resp := m.NewResponse()
	if resp == nil {
		resp = new(any)
	}
	if err := x.b.Pool.Call(ctx, x.s.RPCAddr(), m.Name, req, resp); err != nil {
		return err.Error()
	}
	out, err := codec.Encode(resp)
	if err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
	return string(out)
}

// order returns 1 for methods that write.
func order(m rpc.Method) int {
	if m.NewRequest().Envelope().Write {
		return 1
	}
	return 0
}

// No method reveals the tokens of allocations to anyone but their node. No method reveals
// secrets of nodes or keys, and no log line contains one.
func TestSecrets_InNoAnswer(t *testing.T) {
	s, log := servertest.StartTracing(t, func(c *server.Config) { c.RPCMaxConnsPerClient = -1 })
	x := access{s: s, a: servertest.Join(t, s.RPCAddr())}
	job := servertest.BatchJob("b", 1)
	servertest.Register(t, s, job)
	x.alloc = x.a.Allocs(1)[0]
	x.b = servertest.Join(t, s.RPCAddr())
	x.far, _ = servertest.Start(t, func(c *server.Config) { c.Region = "far" })
	intro := servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{})
	words := map[string]string{"AllocID": x.alloc.ID, "NodeID": x.a.Node.ID, "JobID": job.ID, "EvalID": x.alloc.EvalID,
		"DeploymentID": x.alloc.DeploymentID, "Name": nomad.NodePoolDefault, "ID": x.alloc.ID, "TaskGroup": x.alloc.TaskGroup}
	sig := func(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }
	hidden := map[string]string{"a token of a task": sig(x.alloc.SignedIdentities["t"]), "a node's identity": sig(x.a.JWT),
		"a node's secret": x.a.Node.SecretID, "an introduction": sig(intro)}
	for key := range s.State().Snapshot().RootKeys(nil) {
		for _, w := range key.WrappedKeys {
			hidden["a wrapping key"], hidden["a wrapped key"] = string(w.KeyEncryptionKey), string(w.WrappedDataEncryptionKey.Ciphertext)
		}
	}
	if len(hidden) != 6 {
		t.Fatal("there is no root key")
	}
	done := map[string]bool{}
	methods := s.Methods()
	slices.SortStableFunc(methods, func(a, b rpc.Method) int { // writing methods come last
		return cmp.Or(order(a)-order(b), strings.Compare(a.Name, b.Name))
	})
	got := false
	for _, m := range methods {
		if order(m) == 1 && !got { // the control: the node gets its tokens
			got = x.a.Allocs(1)[0].SignedIdentities["t"] != ""
		}
		if strings.HasPrefix(m.Name, "Operator.Snapshot") { // an archive is for callers that may restore it
			continue
		}
		for who, token := range map[string]string{"nobody": "", "a task": x.alloc.SignedIdentities["t"], "another node": x.b.JWT,
			"another node's secret": x.b.Node.SecretID} {
			said := x.answer(t, m, token, words)
			done[m.Name] = done[m.Name] || strings.Contains(said, x.alloc.ID) || strings.Contains(said, x.a.Node.ID) ||
				strings.Contains(said, x.alloc.EvalID)
			for what, text := range hidden {
				if strings.Contains(said, text) || strings.Contains(said, base64.StdEncoding.EncodeToString([]byte(text))) {
					t.Errorf("%s reveals to %s %s", m.Name, who, what)
				}
			}
			if strings.Contains(said, "eyJhbGciOi") && m.Name != "ACL.CreateClientIntroductionToken" && m.Name != "Node.Register" {
				t.Errorf("%s reveals to %s what looks like a token", m.Name, who)
			}
		}
	}
	for _, name := range []string{"Alloc.List", "Alloc.GetAlloc", "Node.List", "Node.GetNode", "Node.GetAllocs", "Job.Allocations",
		"Job.Statuses", "Job.Evaluations", "Eval.List", "Eval.GetEval", "Eval.Allocations", "NodePool.ListNodes"} {
		if !done[name] {
			t.Errorf("%s answered nobody", name)
		}
	}
	if !got {
		t.Error("the node does not get the tokens of its allocations")
	}
	text := log.String()
	for what, secret := range hidden {
		for _, form := range []string{secret, fmt.Sprintf("%x", secret), base64.StdEncoding.EncodeToString([]byte(secret)),
			strings.Trim(fmt.Sprint([]byte(secret)), "[]")} {
			if strings.Contains(text, form) {
				t.Errorf("the log contains %s", what)
			}
		}
	}
	if !strings.Contains(text, "level=DEBUG") || strings.Contains(text, "eyJhbGciOi") {
		t.Errorf("the log (%d bytes) has no debug lines, or contains what looks like a token", len(text))
	}
}

// The identity of a purged node is accepted for registration only. It reveals nothing about the
// node's former allocations.
func TestSecrets_PurgedNode(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("b", 1))
	alloc := n.Allocs(1)[0]
	q := message.QueryOptions{Region: "global", AuthToken: n.JWT}
	get := &message.AllocsGetRequest{AllocIDs: []string{alloc.ID}, QueryOptions: q}
	sign := &message.AllocIdentitiesRequest{QueryOptions: q,
		Identities: []*message.WorkloadIdentityRequest{{AllocID: alloc.ID, WIHandle: message.WIHandle{
			IdentityName:       "aws",
			WorkloadIdentifier: "t",
		}}}}
	list := &message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: q}
	beat := &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.Write(n.JWT)}
	for method, req := range map[string]any{"Alloc.GetAllocs": get, "Alloc.SignIdentities": sign, "Node.GetClientAllocs": list,
		"Node.UpdateStatus": beat} {
		if err := n.Call(method, req, nil); err != nil {
			t.Errorf("%s before: %v", method, err)
		}
	}
	servertest.Read[message.NodeUpdateResponse](t, s, "Node.Deregister",
		&message.NodeDeregisterRequest{NodeID: n.Node.ID, WriteRequest: n.Write("")})
	servertest.Eventually(t, func() bool { return !servertest.Connected(t, s, n.Node.ID) })
	for rpc.Lost(n.Call("Alloc.GetAllocs", get, nil)) {
		// The node has not noticed yet that its session was closed.
	}
	for method, req := range map[string]any{"Alloc.GetAllocs": get, "Node.GetClientAllocs": list, "Alloc.SignIdentities": sign} {
		if err := n.Call(method, req, nil); !errors.Is(err, apierror.ErrPermissionDenied) {
			t.Errorf("%s after: %v", method, err)
		}
	}
	if err := n.Call("Node.UpdateStatus", beat, nil); !errors.Is(err, apierror.ErrNodeNotFound) {
		t.Errorf("Node.UpdateStatus after: %v", err)
	}
	if err := n.Call("Node.Register", &message.NodeRegisterRequest{Node: n.Node, WriteRequest: n.Write(n.JWT)}, nil); err != nil {
		t.Errorf("the node cannot return: %v", err)
	}
}
