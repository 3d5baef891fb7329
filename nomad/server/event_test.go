package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// delivered is one event as a subscriber receives it.
type delivered struct {
	Topic, Type, Key, Namespace string
	Index                       uint64
	Payload                     map[string]any
}

// reader is a subscriber of events.
type reader struct {
	t     *testing.T
	st    *rpc.Stream
	lines chan line
	text  strings.Builder // what until and end have read
}

// line is one line of a stream, or its end.
type line struct {
	events []delivered
	text   []byte
	err    error
}

// follow opens an event stream, or returns the error.
func follow(t *testing.T, s *server.Server, req *message.EventStreamRequest) (*reader, error) {
	t.Helper()
	req.Region = "global"
	st, err := s.Stream(t.Context(), "Event.Stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Encode(req); err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, st: st, lines: make(chan line, 1<<10)}
	if first := r.line(); first.err != nil || string(first.text) != "{}" {
		return nil, cmp.Or(first.err, fmt.Errorf("the first line is %q", first.text))
	}
	go func() {
		defer close(r.lines)
		for {
			next := r.line()
			if r.lines <- next; next.err != nil {
				return
			}
		}
	}()
	return r, nil
}

// line reads one line.
func (r *reader) line() line {
	var w nomad.EventStreamWrapper
	if err := r.st.Decode(&w); err != nil {
		return line{err: err}
	}
	if w.Error != nil && w.Error.Code != nil {
		return line{err: nomad.Errorf(int(*w.Error.Code), "%s", w.Error.Message)}
	}
	if w.Error != nil {
		return line{err: nomad.ErrorFromText(w.Error.Message)}
	}
	var body struct {
		Index  uint64
		Events []delivered
	}
	if err := json.Unmarshal(w.Event.Data, &body); err != nil {
		return line{err: fmt.Errorf("%q: %w", w.Event.Data, err)}
	}
	for _, e := range body.Events {
		if e.Index != body.Index {
			return line{err: fmt.Errorf("event of entry %d in a line of %d", e.Index, body.Index)}
		}
	}
	return line{events: body.Events, text: w.Event.Data}
}

// until reads up to an event for which holds is true, and returns the events.
func (r *reader) until(holds func(delivered) bool) (out []delivered) {
	r.t.Helper()
	ctx := within(r.t)
	for {
		select {
		case <-ctx.Done():
			r.t.Fatalf("the event did not come, but %v", out)
		case got, open := <-r.lines:
			if got.err != nil || !open {
				r.t.Fatalf("the stream ended with %v, after %v", got.err, out)
			}
			r.text.Write(got.text)
			for _, e := range got.events {
				if out = append(out, e); holds(e) {
					return out
				}
			}
		}
	}
}

// end reads to the end of the stream and returns the events before it.
func (r *reader) end() (out []delivered, err error) {
	r.t.Helper()
	ctx := within(r.t)
	for {
		select {
		case <-ctx.Done():
			r.t.Fatal("the stream did not end")
		case got := <-r.lines:
			if got.err != nil {
				return out, got.err
			}
			out = append(out, got.events...)
		}
	}
}

func topics(pairs ...string) map[nomad.Topic][]string {
	out := map[nomad.Topic][]string{}
	for _, p := range pairs {
		topic, key, _ := strings.Cut(p, ":")
		out[nomad.Topic(topic)] = append(out[nomad.Topic(topic)], key)
	}
	return out
}

// on returns a condition: the event has the topic and the key.
func on(topic, key string) func(delivered) bool {
	return func(e delivered) bool { return e.Topic == topic && (key == "" || e.Key == key) }
}

func in(ns string, topics map[nomad.Topic][]string) *message.EventStreamRequest {
	return &message.EventStreamRequest{Topics: topics, QueryOptions: message.QueryOptions{Namespace: ns}}
}

// Events are delivered as they happen. Later subscribers get the buffered ones.
func TestEventsOfAJob(t *testing.T) {
	s, _ := start(t, nil)
	n := join(t, s.RPCAddr())
	r, err := follow(t, s, in("default", nil))
	if err != nil {
		t.Fatal(err)
	}
	registered := register(t, s, batchJob("web", 1))
	alloc := n.allocs(1)[0]
	n.report(nomad.AllocClientStatusComplete, alloc)
	seen := map[string]string{}
	updated, processed := false, false
	for _, e := range r.until(func(e delivered) bool {
		updated = updated || e.Topic == "Allocation" && e.Type == nomad.TypeAllocationUpdated
		processed = processed || e.Topic == "Evaluation" && e.Type == nomad.TypeEvalUpdated
		return updated && processed
	}) {
		seen[e.Topic+" "+e.Type] = e.Key
	}
	for what, key := range map[string]string{"Job JobRegistered": "web", "Evaluation JobRegistered": registered.EvalID, "Allocation PlanResult": alloc.ID,
		"Evaluation EvaluationUpdated": registered.EvalID, "Allocation AllocationUpdated": alloc.ID, "Node NodeRegistration": n.node.ID} {
		if seen[what] != key {
			t.Errorf("the event %s is about %q, want %q; seen: %v", what, seen[what], key, seen)
		}
	}
	for _, secret := range []string{alloc.SignedIdentities["t"], n.node.SecretID, "SignedIdentities\":{"} {
		if secret == "" || strings.Contains(r.text.String(), secret) {
			t.Errorf("events contain a secret: %q", secret)
		}
	}
	later, err := follow(t, s, in("default", topics("Job:web", "Allocation:web")))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range later.until(func(e delivered) bool { return e.Type == nomad.TypeAllocationUpdated }) {
		if e.Key != "web" && e.Key != alloc.ID {
			t.Errorf("an event outside the subscription: %+v", e)
		}
	}
}

// A subscriber receives the events that it may read, in all namespaces or in one.
func TestEventsAreFiltered(t *testing.T) {
	g := guard(t, nil)
	g.must("Namespace.UpsertNamespaces", &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "a"}, {Name: "b"}}}, nil)
	ofA := g.bearer(`namespace "a" { policy = "read" variables { path "open/*" { capabilities = ["list"] } } }`)
	for _, ns := range []string{"b", "a"} {
		job := batchJob("j-"+ns, 1)
		job.Namespace = ns
		g.must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
		for _, path := range []string{"hidden/" + ns, "open/" + ns} {
			v := variable(path, "c4n4ry")
			v.Namespace = ns
			g.must("Variables.Apply", &message.VariablesApplyRequest{Op: nomad.VarOpSet, Var: v}, nil)
		}
	}
	all := in("*", topics("Job:*", "Evaluation:*", "Variable:*"))
	all.AuthToken = ofA
	r, err := follow(t, g.s, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range r.until(on("Variable", "open/a")) {
		if e.Namespace != "a" || strings.HasPrefix(e.Key, "hidden") {
			t.Errorf("a reader of namespace a sees %+v", e)
		}
	}
	if strings.Contains(r.text.String(), "c4n4ry") {
		t.Error("an event contains the value of a variable")
	}
	for name, c := range map[string]struct {
		req    *message.EventStreamRequest
		secret string
		says   string
	}{
		"another namespace": {in("b", topics("Job:*")), ofA, `read-job in namespace "b"`},
		"one of two topics": {in("a", topics("Job:*", "Node:*")), ofA, "read of node"},
		"all topics":        {in("a", nil), ofA, "management"},
		"tokens":            {in("a", topics("ACLToken:*")), ofA, "management"},
		"nothing anywhere":  {in("*", topics("Job:*")), g.bearer(`node { policy = "read" }`), "read-job"},
		"no variables":      {in("b", topics("Variable:*")), ofA, "variable"},
		"no token":          {in("default", topics("Job:*")), "", "read-job"},
		"a bad token":       {in("default", topics("Job:*")), nomad.NewID(), "Permission denied"},
	} {
		c.req.AuthToken = c.secret
		if _, err := follow(t, g.s, c.req); !errors.Is(err, nomad.ErrPermissionDenied) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it refused for %q", name, err, c.says)
		}
	}
	for name, req := range map[string]*message.EventStreamRequest{"a wrong topic": in("a", topics("Jobs:*")), "a wrong index": {Index: -1, Topics: topics("Job:*")}} {
		req.AuthToken = g.root
		if _, err := follow(t, g.s, req); !isCoded(err, 400, "") {
			t.Errorf("%s: %v, want a 400", name, err)
		}
	}
}

// A subscriber that loses a right gets no events that need it from that log entry on. The
// stream ends with the token.
func TestEventsEndWithTheRight(t *testing.T) {
	for name, c := range map[string]struct {
		change func(g *guarded, own *acls.Token)
		says   string // "" for a stream that is only closed
	}{
		"the token is deleted": {func(g *guarded, own *acls.Token) {
			g.must("ACL.DeleteTokens", &acls.TokenDeleteRequest{AccessorIDs: []string{own.AccessorID}}, nil)
		}, "Permission denied"},
		"the policy is deleted": {func(g *guarded, _ *acls.Token) {
			g.must("ACL.DeletePolicies", &acls.PolicyDeleteRequest{Names: []string{"readers"}}, nil)
		}, "read-job"},
		"the policy changes": {func(g *guarded, _ *acls.Token) { g.policy("readers", "other", nil) }, "read-job"},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t, nil)
			g.policy("readers", "default", nil)
			own := g.token(client("readers"))
			req := in("default", topics("Job:*"))
			req.AuthToken = own.SecretID
			r, err := follow(t, g.s, req)
			if err != nil {
				t.Fatal(err)
			}
			g.must("Job.Register", &message.JobRegisterRequest{Job: batchJob("before", 1)}, nil)
			r.until(on("Job", "before"))
			c.change(g, own)
			g.must("Job.Register", &message.JobRegisterRequest{Job: batchJob("after", 1)}, nil)
			seen, err := r.end()
			for _, e := range seen {
				if e.Key == "after" {
					t.Errorf("an event arrived after the right was revoked: %+v", e)
				}
			}
			if !errors.Is(err, io.EOF) && (!errors.Is(err, nomad.ErrPermissionDenied) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("the stream ended with %v, want %q", err, c.says)
			}
		})
	}
}

// An expired token ends the stream, even without any event.
func TestEventsEndWithTheTimeOfTheToken(t *testing.T) {
	g := guard(t, func(c *server.Config) { c.Access.TokenMinTTL = time.Millisecond })
	var short *acls.Token
	var r *reader
	eventually(t, func() (begun bool) {
		short = g.token(&acls.Token{Type: "management", ExpirationTTL: 2 * time.Second})
		req := in("default", nil)
		req.AuthToken = short.SecretID
		var err error
		if r, err = follow(t, g.s, req); err != nil && !short.HasExpired(time.Now()) {
			t.Fatal(err)
		}
		return err == nil
	})
	if _, err := r.end(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream ended with %v", err)
	}
	if !short.HasExpired(time.Now()) {
		t.Error("the stream ended before the token did")
	}
}

// A restore ends the streams, because the following events belong to another history.
func TestEventsEndWithARestore(t *testing.T) {
	s, _ := start(t, nil)
	archive := saved(t, s)
	r, err := follow(t, s, in("default", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := restore(t, func() (*rpc.Stream, error) { return s.Stream(t.Context(), "Operator.SnapshotRestore") }, archive, "EOF"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.end(); err == nil || !strings.Contains(err.Error(), "restored") {
		t.Errorf("the stream ended with %v, want that there was a restore", err)
	}
}

func TestEventsCanBeTurnedOff(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { c.EventBuffer = -1 })
	if _, err := follow(t, s, in("default", nil)); err == nil || !strings.Contains(err.Error(), "enable_event_broker") {
		t.Errorf("the stream was answered with %v, want the name of the setting", err)
	}
}

// Any server of the region serves events, not only the leader.
func TestEventsOfAFollower(t *testing.T) {
	leader, followers := split(t, cluster(t, 3, nil))
	r, err := follow(t, followers[0].Server, in("default", topics("Job:*")))
	if err != nil {
		t.Fatal(err)
	}
	register(t, leader.Server, batchJob("web", 1))
	r.until(on("Job", "web"))
}

// A stream that is asked for an index above the newest entry, such as by a consumer of the cluster before it was rebuilt,
// begins with the next event and reports the newest entry. The entry after the newest one is not above it.
func TestEventStream_IndexAboveNewest(t *testing.T) {
	s, _ := start(t, nil)
	register(t, s, batchJob("first", 0))
	open := func(index uint64) (*rpc.Stream, nomad.EventStreamWrapper) {
		st, err := s.Stream(t.Context(), "Event.Stream")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		var first nomad.EventStreamWrapper
		req := &message.EventStreamRequest{Topics: map[nomad.Topic][]string{nomad.TopicJob: nil}, Index: int(index)}
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
	register(t, s, batchJob("second", 0))
	for _, st := range []*rpc.Stream{above, next} {
		for seen := false; !seen; { // the evaluation of the first job can end later
			var w nomad.EventStreamWrapper
			if err := st.Decode(&w); err != nil || w.Event == nil {
				t.Fatalf("the stream ended before the event of the second job: %v, %+v", err, w.Error)
			}
			seen = strings.Contains(string(w.Event.Data), `"Key":"second"`)
		}
	}
}
