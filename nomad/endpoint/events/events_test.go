package events_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// on returns a condition: the event has the topic and the key.
func on(topic, key string) func(servertest.Event) bool {
	return func(e servertest.Event) bool { return e.Topic == topic && (key == "" || e.Key == key) }
}

// Events are delivered as they happen. Later subscribers get the buffered ones.
func TestEventStream_Job(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	r, err := servertest.Follow(t, s, servertest.EventRequest("default", nil))
	if err != nil {
		t.Fatal(err)
	}
	registered := servertest.Register(t, s, servertest.BatchJob("web", 1))
	alloc := n.Allocs(1)[0]
	n.Report(nomad.AllocClientStatusComplete, alloc)
	seen := map[string]string{}
	updated, processed := false, false
	for _, e := range r.Until(func(e servertest.Event) bool {
		updated = updated || e.Topic == "Allocation" && e.Type == message.TypeAllocationUpdated
		processed = processed || e.Topic == "Evaluation" && e.Type == message.TypeEvalUpdated
		return updated && processed
	}) {
		seen[e.Topic+" "+e.Type] = e.Key
	}
	for what, key := range map[string]string{"Job JobRegistered": "web", "Evaluation JobRegistered": registered.EvalID,
		"Allocation PlanResult":        alloc.ID,
		"Evaluation EvaluationUpdated": registered.EvalID, "Allocation AllocationUpdated": alloc.ID, "Node NodeRegistration": n.Node.ID} {
		if seen[what] != key {
			t.Errorf("the event %s is about %q, want %q; seen: %v", what, seen[what], key, seen)
		}
	}
	for _, secret := range []string{alloc.SignedIdentities["t"], n.Node.SecretID, "SignedIdentities\":{"} {
		if secret == "" || strings.Contains(r.Text.String(), secret) {
			t.Errorf("events contain a secret: %q", secret)
		}
	}
	later, err := servertest.Follow(t, s, servertest.EventRequest("default", servertest.Topics("Job:web", "Allocation:web")))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range later.Until(func(e servertest.Event) bool { return e.Type == message.TypeAllocationUpdated }) {
		if e.Key != "web" && e.Key != alloc.ID {
			t.Errorf("an event outside the subscription: %+v", e)
		}
	}
}

// A subscriber receives the events that it may read, in all namespaces or in one.
func TestEventStream_Filtered(t *testing.T) {
	g := servertest.StartACL(t, nil)
	g.Must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	ofA := g.TokenWith(`namespace "a" { policy = "read" variables { path "open/*" { capabilities = ["list"] } } }`)
	for _, ns := range []string{"b", "a"} {
		job := servertest.BatchJob("j-"+ns, 1)
		job.Namespace = ns
		g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
		for _, path := range []string{"hidden/" + ns, "open/" + ns} {
			v := servertest.Variable(path, "c4n4ry")
			v.Namespace = ns
			g.Must("Variables.Apply", &message.VariablesApplyRequest{Op: variable.OpSet, Var: v}, nil)
		}
	}
	all := servertest.EventRequest("*", servertest.Topics("Job:*", "Evaluation:*", "Variable:*"))
	all.AuthToken = ofA
	r, err := servertest.Follow(t, g.Server, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.Until(on("Variable", "open/a")) {
		if e.Namespace != "a" || strings.HasPrefix(e.Key, "hidden") {
			t.Errorf("a reader of namespace a sees %+v", e)
		}
	}
	if strings.Contains(r.Text.String(), "c4n4ry") {
		t.Error("an event contains the value of a variable")
	}
	for name, c := range map[string]struct {
		req    *message.EventStreamRequest
		secret string
		want   string
	}{
		"another namespace": {servertest.EventRequest("b", servertest.Topics("Job:*")), ofA, `read-job in namespace "b"`},
		"one of two topics": {servertest.EventRequest("a", servertest.Topics("Job:*", "Node:*")), ofA, "read of node"},
		"all topics":        {servertest.EventRequest("a", nil), ofA, "management"},
		"tokens":            {servertest.EventRequest("a", servertest.Topics("ACLToken:*")), ofA, "management"},
		"nothing anywhere":  {servertest.EventRequest("*", servertest.Topics("Job:*")), g.TokenWith(`node { policy = "read" }`), "read-job"},
		"no variables":      {servertest.EventRequest("b", servertest.Topics("Variable:*")), ofA, "variable"},
		"no token":          {servertest.EventRequest("default", servertest.Topics("Job:*")), "", "read-job"},
		"a bad token":       {servertest.EventRequest("default", servertest.Topics("Job:*")), nomad.NewID(), "Permission denied"},
	} {
		c.req.AuthToken = c.secret
		if _, err := servertest.Follow(t, g.Server, c.req); !errors.Is(err, apierror.ErrPermissionDenied) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it refused for %q", name, err, c.want)
		}
	}
	for name, req := range map[string]*message.EventStreamRequest{"a wrong topic": servertest.EventRequest("a",
		servertest.Topics("Jobs:*")), "a wrong index": {Index: -1, Topics: servertest.Topics("Job:*")}} {
		req.AuthToken = g.Root
		if _, err := servertest.Follow(t, g.Server, req); !servertest.IsCoded(err, 400, "") {
			t.Errorf("%s: %v, want a 400", name, err)
		}
	}
}

// A subscriber that loses a right gets no events that need it from that log entry on. The
// stream ends with the token.
func TestEventStream_EndsWithTheRight(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *servertest.ACLServer, own *rbac.Token)
		want   string // "" for a stream that is only closed
	}{
		"the token is deleted": {func(g *servertest.ACLServer, own *rbac.Token) {
			g.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{own.AccessorID}}, nil)
		}, "Permission denied"},
		"the policy is deleted": {func(g *servertest.ACLServer, _ *rbac.Token) {
			g.Must("ACL.DeletePolicies", &message.ACLPolicyDeleteRequest{Names: []string{"readers"}}, nil)
		}, "read-job"},
		"the policy changes": {func(g *servertest.ACLServer, _ *rbac.Token) { g.CreatePolicy("readers", "other", nil) }, "read-job"},
	} {
		t.Run(name, func(t *testing.T) {
			g := servertest.StartACL(t, nil)
			g.CreatePolicy("readers", "default", nil)
			own := g.CreateToken(servertest.ClientToken("readers"))
			req := servertest.EventRequest("default", servertest.Topics("Job:*"))
			req.AuthToken = own.SecretID
			r, err := servertest.Follow(t, g.Server, req)
			if err != nil {
				t.Fatal(err)
			}
			g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("before", 1)}, nil)
			r.Until(on("Job", "before"))
			c.change(g, own)
			g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("after", 1)}, nil)
			seen, err := r.End()
			for _, e := range seen {
				if e.Key == "after" {
					t.Errorf("an event arrived after the right was revoked: %+v", e)
				}
			}
			if !errors.Is(err, io.EOF) && (!errors.Is(err, apierror.ErrPermissionDenied) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the stream ended with %v, want %q", err, c.want)
			}
		})
	}
}

// An expired token ends the stream, even without any event.
func TestEventStream_EndsWithTheToken(t *testing.T) {
	g := servertest.StartACL(t, func(c *server.Config) { c.Access.TokenMinTTL = time.Millisecond })
	var short *rbac.Token
	var r *servertest.EventReader
	servertest.Eventually(t, func() (begun bool) {
		short = g.CreateToken(&rbac.Token{Type: "management", ExpirationTTL: 2 * time.Second})
		req := servertest.EventRequest("default", nil)
		req.AuthToken = short.SecretID
		var err error
		if r, err = servertest.Follow(t, g.Server, req); err != nil && !short.HasExpired(time.Now()) {
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := r.End(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v", err)
	}
	if !short.HasExpired(time.Now()) {
		t.Error("the stream ended before the token did")
	}
}

// A restore ends the streams, because the following events belong to another history.
func TestEventStream_EndsWithARestore(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	archive := servertest.Save(t, s)
	r, err := servertest.Follow(t, s, servertest.EventRequest("default", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := servertest.Restore(t, func() (*rpc.Stream, error) { return s.Stream(t.Context(), "Operator.SnapshotRestore") }, archive,
		"EOF"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.End(); err == nil || !strings.Contains(err.Error(), "restored") {
		t.Errorf("the stream ended with %v, want that there was a restore", err)
	}
}

func TestEventStream_Disabled(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.EventBuffer = -1 })
	if _, err := servertest.Follow(t, s, servertest.EventRequest("default", nil)); err == nil ||
		!strings.Contains(err.Error(), "enable_event_broker") {
		t.Errorf("the stream was answered with %v, want the name of the setting", err)
	}
}

// Any server of the region serves events, not only the leader.
func TestEventStream_Follower(t *testing.T) {
	leader, followers := servertest.Split(t, servertest.Cluster(t, 3, nil))
	r, err := servertest.Follow(t, followers[0].Server, servertest.EventRequest("default", servertest.Topics("Job:*")))
	if err != nil {
		t.Fatal(err)
	}
	servertest.Register(t, leader.Server, servertest.BatchJob("web", 1))
	r.Until(on("Job", "web"))
}

// A stream that is asked for an index above the newest entry, such as by a consumer of the cluster before it was rebuilt,
// begins with the next event and reports the newest entry. The entry after the newest one is not above it.
func TestEventStream_IndexAboveNewest(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	servertest.Register(t, s, servertest.BatchJob("first", 0))
	open := func(index uint64) (*rpc.Stream, message.EventStreamWrapper) {
		st, err := s.Stream(t.Context(), "Event.Stream")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		var first message.EventStreamWrapper
		req := &message.EventStreamRequest{Topics: map[message.Topic][]string{message.TopicJob: nil}, Index: int(index)}
		req.Region = "global"
		if err := errors.Join(st.Encode(req), st.Decode(&first)); err != nil || first.Error != nil {
			t.Fatalf("%v, %+v", err, first.Error)
		}
		return st, first
	}
	above, first := open(1 << 40)
	if first.Newest == 0 || first.Newest >= 1<<40 || string(first.Event.Data) != "{}" {
		t.Fatalf("the first message is %+v, want the newest entry", first)
	}
	next, again := open(first.Newest + 1)
	if again.Newest > 0 {
		t.Errorf("the entry after the newest one counts as above it: %+v", again)
	}
	servertest.Register(t, s, servertest.BatchJob("second", 0))
	for _, st := range []*rpc.Stream{above, next} {
		for seen := false; !seen; { // the evaluation of the first job can end later
			var w message.EventStreamWrapper
			if err := st.Decode(&w); err != nil || w.Event == nil {
				t.Fatalf("the stream ended before the event of the second job: %v, %+v", err, w.Error)
			}
			seen = strings.Contains(string(w.Event.Data), `"Key":"second"`)
		}
	}
}
