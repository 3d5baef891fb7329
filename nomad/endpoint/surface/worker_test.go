package surface_test

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/pki"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/worker"
)

// byCertificate lists the methods for which a server's certificate is sufficient: those that
// the scheduler workers of Nomad 2.0 call. It is written by hand, not taken from the table of
// methods.
var byCertificate = []string{"Eval.Ack", "Eval.Create", "Eval.Dequeue", "Eval.Nack", "Eval.Reblock", "Eval.Update", "Plan.Submit"}

func TestMethods_ByCertificate(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	var open []string
	for _, m := range s.Methods() {
		if m.Rule == rpc.ServerOrCertificate {
			open = append(open, m.Name)
		}
	}
	if slices.Sort(open); !slices.Equal(open, byCertificate) {
		t.Errorf("a certificate is sufficient for %v, want %v", open, byCertificate)
	}
}

// foreign is the connection of a worker of Nomad 2.0: it has a certificate and no token, does
// not call Eval.Finish, and sends plans with the job's ID only.
type foreign struct {
	pool *rpc.Pool
	addr string

	mu     sync.Mutex
	failed bool
	called map[string]int // successful calls by method
}

// Call implements worker.Caller. It loses the first plan, so that the evaluation is returned.
func (f *foreign) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case *message.EvalFinishRequest:
		return apierror.ErrNoMethod
	case *message.EvalDequeueRequest:
		r.SchedulerVersion, r.Timeout = 1, time.Second
	case *message.PlanRequest:
		f.mu.Lock()
		first := !f.failed
		f.failed = true
		f.mu.Unlock()
		if first {
			return errors.New("the first plan is lost")
		}
		req = slim(r)
	}
	req.(interface{ MarkForwarded() }).MarkForwarded()
	err := f.pool.Call(ctx, f.addr, method, req, resp)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.called[method]++
	}
	return err
}

func (f *foreign) calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.called[method]
}

// slim returns the plan with the job's ID in place of the job, and stopped allocations reduced
// to their changes.
func slim(req *message.PlanRequest) *message.PlanRequest {
	p := *req.Plan
	p.Job = nil
	p.NodeAllocation = map[string][]*nomad.Allocation{}
	for node, allocs := range req.Plan.NodeAllocation {
		for _, a := range allocs {
			reduced := *a
			reduced.Job = nil
			p.NodeAllocation[node] = append(p.NodeAllocation[node], &reduced)
		}
	}
	p.NodeUpdate = map[string][]*nomad.Allocation{}
	for node, allocs := range req.Plan.NodeUpdate {
		for _, a := range allocs {
			p.NodeUpdate[node] = append(p.NodeUpdate[node], &nomad.Allocation{ID: a.ID, DesiredDescription: a.DesiredDescription,
				ClientStatus: a.ClientStatus, FollowupEvalID: a.FollowupEvalID})
		}
	}
	return &message.PlanRequest{Plan: &p, WriteRequest: req.WriteRequest}
}

// A scheduler worker with a server's certificate and no identity places jobs, stops them, and
// blocks evaluations that wait for capacity. It gets no core evaluations.
func TestWorker_ServerCertificate(t *testing.T) {
	ca := testpki.New(t)
	// The server's own workers process core evaluations only.
	s, _ := servertest.Start(t, func(c *server.Config) { c.Schedulers = []string{"none"}; servertest.WithTLS(t, ca)(c) })
	pool := func(name string) *rpc.Pool {
		p := rpc.NewPool(over(t, ca, name))
		t.Cleanup(func() { p.Close() })
		return p
	}
	n := servertest.JoinWith(t, pool(servertest.ClientCert), s.RPCAddr())
	f := &foreign{pool: pool(servertest.ServerCert), addr: s.RPCAddr(), called: map[string]int{}}
	w := worker.New(worker.Config{RPC: f, Store: s.State, Region: "global", Log: servertest.Logger()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() { cancel(); <-done }()

	reg := servertest.Register(t, s, servertest.BatchJob("b", 2))
	for _, a := range n.Allocs(2) {
		if a.SignedIdentities["t"] == "" || a.Job == nil || a.Job.ID != "b" {
			t.Errorf("the allocation has identities for %d tasks and the job %+v", len(a.SignedIdentities), a.Job)
		}
	}
	status := func(id string) string {
		return servertest.Read[message.SingleEvalResponse](t, s, "Eval.GetEval",
			&message.EvalSpecificRequest{EvalID: id, QueryOptions: servertest.Global}).Eval.Status
	}
	servertest.Eventually(t, func() bool { return status(reg.EvalID) == nomad.EvalStatusComplete })

	// A job that does not fit waits for a node, and continues to wait if the node is too small.
	large := servertest.BatchJob("large", 3)
	large.TaskGroups[0].Tasks[0].Resources = &nomad.Resources{CPU: 3000, MemoryMB: 100}
	servertest.Register(t, s, large)
	n.Allocs(3)
	servertest.Eventually(t, func() bool { return f.calls("Eval.Create") > 0 })
	small := servertest.JoinWith(t, n.Pool, s.RPCAddr())
	small.Allocs(1)
	servertest.Eventually(t, func() bool { return f.calls("Eval.Reblock") > 0 })

	servertest.Read[message.JobDeregisterResponse](t, s, "Job.Deregister",
		&message.JobDeregisterRequest{JobID: "b", WriteRequest: message.WriteRequest{Region: "global"}})
	servertest.Eventually(t, func() bool {
		for _, a := range servertest.Read[message.NodeAllocsResponse](t, s, "Node.GetAllocs",
			&message.NodeSpecificRequest{NodeID: n.Node.ID, QueryOptions: servertest.Global}).Allocs {
			if a.JobID == "b" && a.DesiredStatus != nomad.AllocDesiredStatusStop {
				return false
			}
		}
		return true
	})
	for _, method := range byCertificate {
		servertest.Eventually(t, func() bool { return f.calls(method) > 0 })
	}
}

// A certificate is not sufficient for core evaluations, which contain the leader's token, nor
// to create one.
func TestWorker_NoCoreEvaluations(t *testing.T) {
	ca := testpki.New(t)
	s, _ := servertest.Start(t, func(c *server.Config) { c.Workers = -1; servertest.WithTLS(t, ca)(c) })
	p := rpc.NewPool(over(t, ca, servertest.ServerCert))
	defer p.Close()
	call := func(method string, req, resp any) error {
		return servertest.Retry(t, func(ctx context.Context) error { return p.Call(ctx, s.RPCAddr(), method, req, resp) })
	}
	servertest.Read[message.GenericResponse](t, s, "System.GarbageCollect", &message.GenericRequest{QueryOptions: servertest.Global})
	dequeue := func(schedulers ...string) *message.EvalDequeueRequest {
		return &message.EvalDequeueRequest{Schedulers: schedulers, Timeout: 50 * time.Millisecond,
			WriteRequest: message.WriteRequest{Region: "global"}}
	}
	for _, kind := range []string{nomad.JobTypeCore, "_failed"} {
		var got message.EvalDequeueResponse
		if err := call("Eval.Dequeue", dequeue(kind), &got); err != nil || got.Eval != nil {
			t.Errorf("Eval.Dequeue of %s = %+v, %v, want no evaluation", kind, got.Eval, err)
		}
	}
	// It exists: a server with an identity gets it.
	own := dequeue(nomad.JobTypeCore)
	own.AuthToken, own.Timeout = ownToken(t, s), time.Minute
	var got message.EvalDequeueResponse
	if err := call("Eval.Dequeue", own, &got); err != nil || got.Eval == nil || got.Eval.LeaderACL == "" {
		t.Errorf("Eval.Dequeue by identity = %+v, %v, want a core evaluation", got.Eval, err)
	}
	core := nomad.NewCoreEval(nomad.CoreJobForceGC, 1, time.Now())
	for _, method := range []string{"Eval.Create", "Eval.Update", "Eval.Reblock"} {
		err := call(method, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{core}, EvalToken: got.Token,
			WriteRequest: message.WriteRequest{Region: "global"}}, nil)
		refusedWith(t, method+" of a core evaluation", err, "identity of a server")
	}
	err := call("Plan.Submit", &message.PlanRequest{Plan: &nomad.Plan{NodeAllocation: map[string][]*nomad.Allocation{"n": {nil}}},
		WriteRequest: message.WriteRequest{Region: "global"}}, nil)
	if err == nil || !strings.Contains(err.Error(), "is null") {
		t.Errorf("Plan.Submit with an absent allocation: %v", err)
	}
}

// refusedWith checks that a call was refused and that the error names the missing right.
func refusedWith(t *testing.T, what string, err error, missing string) {
	t.Helper()
	if !errors.Is(err, apierror.ErrPermissionDenied) || !strings.HasSuffix(err.Error(), "Permission denied") ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("%s: %v, want permission denied for %q", what, err, missing)
	}
}

// worked makes a request for each method in byCertificate.
func worked(t *testing.T, s *server.Server, try func(method string, req any)) {
	t.Helper()
	x := access{s: s}
	for _, m := range s.Methods() {
		if slices.Contains(byCertificate, m.Name) {
			req := x.request(m)
			req.(interface{ Write() *message.WriteRequest }).Write().Region = "global"
			try(m.Name, req)
		}
	}
}

// Certificates that do not identify a server of the region are refused, with and without
// verify_server_hostname. A connection without TLS in upgrade mode is refused too. Tokens of
// nodes and workloads do not change that. The server's certificate is accepted for the same
// requests.
func TestWorker_WrongCertificates(t *testing.T) {
	ca := testpki.New(t)
	for _, verify := range []bool{true, false} {
		s, _ := servertest.Start(t, func(c *server.Config) {
			cfg := ca.Agent(servertest.ServerCert).Config()
			cfg.Server, cfg.VerifyServerHostname, cfg.UpgradeMode = true, verify, true
			c.TLS = testpki.Open(t, cfg)
			c.RPCMaxConnsPerClient = -1
		})
		node := rpc.NewPool(over(t, ca, servertest.ClientCert))
		defer node.Close()
		n := servertest.JoinWith(t, node, s.RPCAddr())
		servertest.Register(t, s, servertest.BatchJob("b", 1))
		tokens := map[string]string{"no token": "", "a node": n.JWT, "a node's secret": n.Node.SecretID,
			"a workload": n.Allocs(1)[0].SignedIdentities["t"]}
		commonName := ca.Issue(pki.CertOptions{DNSNames: []string{servertest.ClientCert}, CommonName: servertest.ServerCert, Client: true})
		for cert, c := range map[string]struct {
			shown   []tls.Certificate
			missing string // text of the refusal; "" if the handshake fails or the call is admitted
		}{
			noCert:  {nil, ""},
			otherCA: {[]tls.Certificate{pairOf(t, testpki.New(t), servertest.ServerCert)}, ""},
			"expired": {[]tls.Certificate{loaded(t,
				ca.Issue(pki.CertOptions{DNSNames: []string{servertest.ServerCert}, Client: true, Server: true, At: time.Now().AddDate(0, 0, -2),
					Days: 1}))}, ""},
			clientHere:      {[]tls.Certificate{pairOf(t, ca, servertest.ClientCert)}, `is for "client.global.nomad"`},
			serverThere:     {[]tls.Certificate{pairOf(t, ca, farCert)}, `is for "server.far.nomad"`},
			"a common name": {[]tls.Certificate{loaded(t, commonName)}, `is for "client.global.nomad"`},
			"a longer name": {[]tls.Certificate{pairOf(t, ca, "server.global.nomad.example.nomad")},
				`is for "server.global.nomad.example.nomad"`},
			"a wildcard of servers": {[]tls.Certificate{loaded(t, ca.Agent(servertest.ClientCert, "*.global.nomad"))},
				`is for "client.global.nomad"`},
			noRole:     {[]tls.Certificate{pairOf(t, ca, "cli.global.nomad")}, `is for "cli.global.nomad"`},
			serverHere: {[]tls.Certificate{pairOf(t, ca, servertest.ServerCert)}, ""},
		} {
			for who, token := range tokens {
				worked(t, s, func(method string, req any) {
					req.(interface{ Write() *message.WriteRequest }).Write().AuthToken = token
					err := servertest.Retry(t, func(ctx context.Context) error { return rawCall(ctx, c.shown, s.RPCAddr(), method, req) })
					what := method + " with " + cert + " and " + who
					switch {
					case cert == serverHere:
						if unanswered(err) || errors.Is(err, apierror.ErrPermissionDenied) {
							t.Errorf("verify %t: %s: %v", verify, what, err)
						}
					case c.missing == "" || cert == noRole && verify:
						if !unanswered(err) {
							t.Errorf("verify %t: %s: %v, want no connection", verify, what, err)
						}
					default:
						refusedWith(t, what, err, c.missing)
						refusedWith(t, what, err, "certificate for server.global.nomad is needed")
					}
				})
			}
		}
		plain := rpc.NewPool(rpc.PoolConfig{Region: "global"})
		defer plain.Close()
		worked(t, s, func(method string, req any) {
			err := servertest.Retry(t, func(ctx context.Context) error { return plain.Call(ctx, s.RPCAddr(), method, req, nil) })
			refusedWith(t, method+" in upgrade mode", err, "the connection has no TLS")
		})
	}
}

// loaded reads a certificate and its key from files.
func loaded(t *testing.T, f testpki.Files) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// A client gains nothing by calling a follower, although the leader would see the follower's
// certificate. The follower refuses the call and does not forward calls that are authenticated
// by a certificate alone. The caller's name matters even without verify_server_hostname.
func TestWorker_CertificateIsNotForwarded(t *testing.T) {
	ca := testpki.New(t)
	all := servertest.Cluster(t, 3, func(c *server.Config) {
		cfg := ca.Agent(servertest.ServerCert).Config()
		cfg.Server, cfg.VerifyServerHostname = true, false
		c.TLS = testpki.Open(t, cfg)
	})
	leader, followers := servertest.Split(t, all)
	far := servertest.StartMember(t, "far", func(c *server.Config) {
		cfg := ca.Agent(farCert).Config()
		cfg.Region, cfg.Server, cfg.VerifyServerHostname = "far", true, false
		c.Region, c.BootstrapExpect, c.StartJoin, c.TLS = "far", 1, []string{leader.GossipAddr()}, testpki.Open(t, cfg)
	})
	servertest.Eventually(t, func() bool { return len(far.Members()) == 4 })
	open := func(name string) *rpc.Pool {
		p := rpc.NewPool(over(t, ca, name))
		t.Cleanup(func() { p.Close() })
		return p
	}
	client, upstream := open(servertest.ClientCert), open(servertest.ServerCert)
	for _, relayed := range []bool{false, true} {
		worked(t, leader.Server, func(method string, req any) {
			if relayed {
				req.(interface{ MarkForwarded() }).MarkForwarded()
			}
			call := func(p *rpc.Pool, m servertest.Member) error {
				return servertest.Retry(t, func(ctx context.Context) error { return p.Call(ctx, m.RPCAddr(), method, req, nil) })
			}
			refusedWith(t, method+" of a client by a follower", call(client, followers[0]), "certificate for server.global.nomad is needed")
			refusedWith(t, method+" of a client by another region", call(client, far), "certificate for server.far.nomad is needed")
			refusedWith(t, method+" of a server by another region", call(upstream, far), "certificate for server.far.nomad is needed")
			refusedWith(t, method+" of a server by a follower", call(upstream, followers[0]), "not the leader")
			if err := call(upstream, leader); errors.Is(err, apierror.ErrPermissionDenied) || unanswered(err) {
				t.Errorf("%s of a server at the leader: %v", method, err)
			}
		})
	}
	// The workers of followers send an identity, and their calls are forwarded.
	n := servertest.JoinWith(t, client, followers[0].RPCAddr())
	servertest.Register(t, followers[1].Server, servertest.BatchJob("b", 1))
	n.Allocs(1)
}

// Replaced certificates are refused after a reload: those of a replaced CA, and those of
// servers that no longer use TLS.
func TestWorker_CertificateAfterReload(t *testing.T) {
	ca, next := testpki.New(t), testpki.New(t)
	var store *certs.Store
	s, _ := servertest.Start(t, func(c *server.Config) { servertest.WithTLS(t, ca)(c); store = c.TLS })
	p := rpc.NewPool(over(t, ca, servertest.ServerCert))
	defer p.Close()
	ack := &message.EvalAckRequest{WriteRequest: message.WriteRequest{Region: "global"}}
	call := func() error {
		return servertest.Retry(t, func(ctx context.Context) error { return p.Call(ctx, s.RPCAddr(), "Eval.Ack", ack, nil) })
	}
	if err := call(); err == nil || unanswered(err) || errors.Is(err, apierror.ErrPermissionDenied) {
		t.Fatalf("before: %v", err)
	}
	cfg := next.Agent(servertest.ServerCert).Config()
	cfg.Server = true
	if err := store.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if err := call(); !unanswered(err) {
		t.Errorf("after: %v, want no connection", err)
	}
}
