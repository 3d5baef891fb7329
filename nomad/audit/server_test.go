package audit_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testdisk"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// auditLine holds the fields of an event that these tests read.
type auditLine struct {
	Payload struct {
		Stage, Type string
		Auth        struct {
			Kind, Name string
			AccessorID string `json:"accessor_id"`
		}
		Request struct {
			ID, Operation, Endpoint, Object string
			Namespace                       struct{ ID string }
			Meta                            struct{ Forwarded bool } `json:"request_meta"`
		}
		Identity *struct {
			ID, Subject, KID, TTL string
			Audience              []string
			AllocID               string `json:"alloc_id"`
		}
		Response *struct {
			Status int `json:"status_code"`
			Error  string
		}
	}
}

// audited runs a server with an audit log. events returns the events since the last call, text
// the complete log.
func audited(t *testing.T, change func(*server.Config)) (s *server.Server, events func() []auditLine, text func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(audit.Node{Name: "s"}, slog.New(slog.DiscardHandler))
	if err := log.Set(&audit.Config{Path: path, Mode: 0o600, Enforced: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s, _ = servertest.Start(t, func(c *server.Config) {
		c.Audit = log
		if change != nil {
			change(c)
		}
	})
	text = func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := 0
	events = func() (out []auditLine) {
		lines := slices.Collect(strings.Lines(text()))
		for _, line := range lines[seen:] {
			var e auditLine
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		seen = len(lines)
		return out
	}
	return s, events, text
}

// only returns the events of a type for an endpoint.
func only(events []auditLine, kind, endpoint string) (out []auditLine) {
	for _, e := range events {
		if e.Payload.Type == kind && e.Payload.Request.Endpoint == endpoint {
			out = append(out, e)
		}
	}
	return out
}

// A call over the network is recorded twice, with its caller and its result. In-process calls
// are not recorded, because the HTTP API records them.
func TestAudit_Calls(t *testing.T) {
	s, events, text := audited(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	servertest.WriteVariable(t, s, variable.OpSet, servertest.Variable("app/db", "s3cret-value"))
	if got := only(events(), "RPCEvent", "Variables.Apply"); len(got) != 0 {
		t.Errorf("an in-process call is recorded: %+v", got)
	}
	global := message.QueryOptions{Region: "global", Namespace: "default"}
	bad := global
	bad.AuthToken = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	forged := global
	forged.Forwarded = true
	write := message.WriteRequest{Region: "global"}
	for _, tt := range []struct {
		name, method         string
		req, resp            any
		kind, op, object, ns string
		status               int
		forwarded            bool
	}{
		{"read", "Variables.Read", &message.VariablesReadRequest{Path: "app/db", QueryOptions: global}, new(message.VariablesReadResponse),
			"management", "read", "app/db", "default", 200, false},
		{"list", "Variables.List", &message.VariablesListRequest{QueryOptions: message.QueryOptions{Region: "global", Namespace: "default",
			Prefix: "app"}}, new(message.VariablesListResponse), "management", "read", "app", "default", 200, false},
		{"write", "Variables.Apply", &message.VariablesApplyRequest{Op: variable.OpSet, WriteRequest: write, Var: &variable.Decrypted{
			Metadata: variable.Metadata{Namespace: "default", Path: "app/two"}, Items: variable.Items{"k": "s3cret-value"}}},
			new(message.VariablesApplyResponse), "management", "write", "app/two", "default", 200, false},
		{"bad token", "Job.List", &message.JobListRequest{QueryOptions: bad}, new(message.JobListResponse), "invalid", "read", "", "default",
			403, false},
		{"claims to be forwarded", "Job.List", &message.JobListRequest{QueryOptions: forged}, new(message.JobListResponse), "management",
			"read", "", "default", 200, true},
		{"fault", "Job.Register", &message.JobRegisterRequest{WriteRequest: write}, new(message.JobRegisterResponse), "management", "write",
			"", "", 400, false},
		{"for servers only", "Eval.Dequeue", &message.EvalDequeueRequest{WriteRequest: write}, new(message.EvalDequeueResponse), "invalid",
			"write", "", "", 403, false},
		{"node", "Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
			WriteRequest: n.Write(n.JWT)},
			new(message.NodeUpdateResponse), "node", "write", "", "", 200, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := n.Call(tt.method, tt.req, tt.resp)
			if (err == nil) != (tt.status == 200) {
				t.Fatal(err)
			}
			got := only(events(), "RPCEvent", tt.method)
			if len(got) != 2 {
				t.Fatalf("%d events", len(got))
			}
			a, b := got[0].Payload, got[1].Payload
			servertest.Equal(t, "first stage", a.Stage, "OperationReceived")
			servertest.Equal(t, "second stage", b.Stage, "OperationComplete")
			servertest.Equal(t, "request of the first stage", a.Request, b.Request)
			servertest.Equal(t, "response of the first stage", a.Response, nil)
			if a.Request.ID == "" {
				t.Error("the request has no ID")
			}
			r := b.Request
			servertest.Equal(t, "kind", b.Auth.Kind, tt.kind)
			servertest.Equal(t, "operation", r.Operation, tt.op)
			servertest.Equal(t, "object", r.Object, tt.object)
			servertest.Equal(t, "namespace", r.Namespace.ID, tt.ns)
			servertest.Equal(t, "forwarded", r.Meta.Forwarded, tt.forwarded)
			servertest.Equal(t, "status", b.Response.Status, tt.status)
			servertest.Equal(t, "without an error", b.Response.Error == "", err == nil)
		})
	}
	for what, secret := range map[string]string{"a value": "s3cret", "a signature": "c2lnbmF0", "the secret ID": n.Node.SecretID,
		"a token": n.JWT} {
		if strings.Contains(text(), secret) {
			t.Errorf("the log contains %s", what)
		}
	}
}

// Every signed token is recorded, and the log contains none of them.
func TestAudit_Identities(t *testing.T) {
	s, events, text := audited(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	node := only(events(), "IdentityEvent", "node")
	if len(node) == 0 || !strings.HasPrefix(node[0].Payload.Identity.Subject, "node:global:default:"+n.Node.ID) ||
		node[0].Payload.Identity.TTL != "24h0m0s" {
		t.Errorf("the identity of the node: %+v", node)
	}
	intro := servertest.Introduce(t, s, message.ACLCreateClientIntroductionTokenRequest{NodeName: "new"})
	if got := only(events(), "IdentityEvent", "introduction"); len(got) != 1 || got[0].Payload.Identity.TTL != "5m0s" ||
		!strings.Contains(got[0].Payload.Identity.Subject, ":new:") {
		t.Errorf("the introduction: %+v", got)
	}
	job := servertest.BatchJob("j", 2)
	servertest.Register(t, s, job)
	allocs := n.Allocs(2)
	got := only(events(), "IdentityEvent", "workload")
	if len(got) != 2 {
		t.Fatalf("%d identities of 2 allocations", len(got))
	}
	for _, e := range got {
		id := e.Payload.Identity
		i := slices.IndexFunc(allocs, func(a *nomad.Allocation) bool { return a.ID == id.AllocID })
		if i < 0 || id.KID != allocs[i].SigningKeyID ||
			id.Subject != "global:default:j:"+allocs[i].TaskGroup+":"+job.TaskGroups[0].Tasks[0].Name+":default" ||
			!slices.Equal(id.Audience, []string{"nomadproject.io"}) || id.ID == "" || e.Payload.Request.Namespace.ID != "default" ||
			e.Payload.Auth.Kind != "server" {
			t.Errorf("recorded: %+v %+v", e.Payload, id)
		}
	}
	var out message.AllocIdentitiesResponse
	n.Must("Alloc.SignIdentities", &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT},
		Identities: []*message.WorkloadIdentityRequest{{AllocID: allocs[0].ID,
			WIHandle: message.WIHandle{IdentityName: "aws", WorkloadIdentifier: job.TaskGroups[0].Tasks[0].Name}}}}, &out)
	if len(out.SignedIdentities) != 1 {
		t.Fatalf("%+v", out)
	}
	if got := only(events(), "IdentityEvent", "workload"); len(got) != 1 || got[0].Payload.Identity.TTL != "1h0m0s" ||
		got[0].Payload.Identity.Audience[0] != "aws" {
		t.Errorf("the named identity: %+v", got)
	}
	secrets := []string{intro, n.JWT, out.SignedIdentities[0].JWT}
	for _, a := range allocs {
		for _, token := range a.SignedIdentities {
			secrets = append(secrets, token)
		}
	}
	for _, secret := range secrets {
		if _, signature, _ := strings.Cut(secret[strings.Index(secret, ".")+1:], "."); signature == "" || strings.Contains(text(), signature) {
			t.Error("the log contains a token")
		}
	}
}

// A forwarded call is recorded by the first server, not by the leader.
func TestAudit_ForwardedOnce(t *testing.T) {
	logs := map[string]string{}
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		path := filepath.Join(t.TempDir(), "audit.log")
		c.Audit = audit.New(audit.Node{Name: c.Name}, slog.New(slog.DiscardHandler))
		if err := c.Audit.Set(&audit.Config{Path: path, Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Audit.Close() })
		logs[c.Name] = path
	})
	servertest.Eventually(t, func() bool { return servertest.AllAnswer(all) })
	for name, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Workers of followers call the leader all the time, with the servers' own tokens.
		if strings.Contains(string(b), "Eval.Dequeue") {
			t.Errorf("%s has recorded a forwarded call", name)
		}
	}
}

// With a full disk, an enforced audit log refuses requests of users and workloads, and no token
// is issued. Nodes continue.
func TestAudit_FullDisk(t *testing.T) {
	small := testdisk.New(t, "256k", false).Dir
	log := audit.New(audit.Node{Name: "s"}, slog.New(slog.DiscardHandler))
	if err := log.Set(&audit.Config{Path: filepath.Join(small, "audit.log"), Mode: 0o600, Enforced: true}); err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s, stop := servertest.Start(t, func(c *server.Config) { c.Audit = log })
	defer stop()
	n := servertest.Join(t, s.RPCAddr())
	servertest.Register(t, s, servertest.BatchJob("before", 1))
	alloc := n.Allocs(1)[0]
	full := filepath.Join(small, "rest")
	if err := os.WriteFile(full, make([]byte, 256<<10), 0o600); err == nil {
		t.Fatal("the disk was not full")
	}
	for log.Record(&audit.Event{Type: audit.RPC, Stage: audit.Received}) == nil {
		// the rest of the last page
	}
	write := message.WriteRequest{Region: "global"}
	err := n.Call("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("during", 1), WriteRequest: write},
		new(message.JobRegisterResponse))
	if err == nil || !strings.Contains(err.Error(), audit.ErrRefused.Message) {
		t.Errorf("an unrecorded call: %v", err)
	}
	if out := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob",
		&message.JobSpecificRequest{JobID: "during", QueryOptions: message.QueryOptions{Region: "global"}}); out.Job != nil {
		t.Error("a refused request was executed")
	}
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, new(message.NodeUpdateResponse))
	ask := &message.AllocIdentitiesRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: n.JWT},
		Identities: []*message.WorkloadIdentityRequest{{AllocID: alloc.ID, WIHandle: message.WIHandle{
			IdentityName:       "aws",
			WorkloadIdentifier: "t",
		}}}}
	if err := n.Call("Alloc.SignIdentities", ask, new(message.AllocIdentitiesResponse)); err == nil ||
		!strings.Contains(err.Error(), "audit log") {
		t.Errorf("an unrecorded token: %v", err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	n.Must("Alloc.SignIdentities", ask, new(message.AllocIdentitiesResponse))
	n.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("after", 1), WriteRequest: write},
		new(message.JobRegisterResponse))
}
