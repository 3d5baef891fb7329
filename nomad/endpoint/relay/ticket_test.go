package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// wiretap forwards connections to a server and records what the server sends to the node.
type wiretap struct {
	ln net.Listener
	mu sync.Mutex
	to bytes.Buffer
}

func tap(t *testing.T, addr string) *wiretap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wiretap{ln: ln}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				near.Close()
				return
			}
			go func() { io.Copy(far, near); far.Close() }()
			go func() { io.Copy(near, io.TeeReader(far, w)); near.Close() }()
		}
	}()
	return w
}

// Write records the data.
func (w *wiretap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (w *wiretap) holds(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.to.Bytes(), []byte(text))
}

// rogue is a node that records the credentials that it receives.
type rogue struct {
	*servertest.FakeNode
	tap *wiretap

	mu    sync.Mutex
	shown map[string]string // by method
}

func (r *rogue) note(c *rpc.Call, req rpc.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown[c.Method] = req.Envelope().AuthToken
}

func (r *rogue) credential(method string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown[method]
}

// noting answers a method with an empty reply.
func noting[Req, Resp any, P interface {
	*Req
	rpc.Request
}](r *rogue, name string) rpc.Method {
	return rpc.Handle[Req, Resp, P](name, rpc.Token, rpc.Here, func(_ context.Context, c *rpc.Call, req *Req) (*Resp, error) {
		r.note(c, P(req))
		return new(Resp), nil
	}).Needs(rpc.AnyToken)
}

// notingStream sends one chunk and stays until the server ends the stream.
func notingStream[Req any, P interface {
	*Req
	rpc.Request
}](r *rogue, name string) rpc.Method {
	return rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, func(ctx context.Context, c *rpc.Call, req *Req, st *rpc.Stream) error {
		r.note(c, P(req))
		ctx, cancel := st.UntilClosed(ctx)
		defer cancel()
		if err := st.Encode(&message.StreamErrWrapper{Payload: []byte("first")}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}).Needs(rpc.AnyToken)
}

// joinRogue joins a rogue node with some attributes to a server.
func joinRogue(t *testing.T, s *server.Server, attributes map[string]string) *rogue {
	t.Helper()
	r := &rogue{shown: map[string]string{}, tap: tap(t, s.RPCAddr())}
	answers, err := rpc.NewServer(rpc.Config{Auth: rpc.TrustPeer{}, Methods: []rpc.Method{
		noting[message.AllocStatsRequest, message.AllocStatsResponse](r, "Allocations.Stats"),
		noting[message.AllocChecksRequest, message.AllocChecksResponse](r, "Allocations.Checks"),
		noting[message.AllocSandboxRequest, message.AllocSandboxResponse](r, "Allocations.Sandbox"),
		noting[message.AllocRestartRequest, message.GenericResponse](r, "Allocations.Restart"),
		noting[message.AllocSignalRequest, message.GenericResponse](r, "Allocations.Signal"),
		noting[message.AllocSpecificRequest, message.GenericResponse](r, "Allocations.GarbageCollect"),
		noting[message.NodeSpecificRequest, message.GenericResponse](r, "Allocations.GarbageCollectAll"),
		noting[message.FsListRequest, message.FsListResponse](r, "FileSystem.List"),
		noting[message.FsStatRequest, message.FsStatResponse](r, "FileSystem.Stat"),
		noting[message.NodeSpecificRequest, message.ClientStatsResponse](r, "ClientStats.Stats"),
		noting[message.NodeIdentityGetReq, message.NodeIdentityGetResp](r, "NodeIdentity.Get"),
		noting[message.NodeSpecificRequest, message.NodeMetaResponse](r, "NodeMeta.Read"),
		noting[message.NodeMetaApplyRequest, message.NodeMetaResponse](r, "NodeMeta.Apply"),
		noting[message.NodeIdentityRenewReq, message.NodeIdentityRenewResp](r, "NodeIdentity.Renew"),
		notingStream[message.MonitorRequest](r, "Agent.Monitor"),
		notingStream[message.MonitorExportRequest](r, "Agent.MonitorExport"),
		notingStream[message.AllocExecRequest](r, "Allocations.Exec"),
		notingStream[message.FsLogsRequest](r, "FileSystem.Logs"),
		notingStream[message.FsStreamRequest](r, "FileSystem.Stream"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := rpc.NewPool(rpc.PoolConfig{Serve: answers})
	t.Cleanup(func() { pool.Close() })
	node := servertest.MockNode()
	for k, v := range attributes {
		node.Attributes[k] = v
	}
	r.FakeNode = &servertest.FakeNode{T: t, Pool: pool, Addr: r.tap.ln.Addr().String(), Node: node}
	if err := r.Register(""); err != nil {
		t.Fatal(err)
	}
	r.Heartbeat(r.JWT, false)
	return r
}

// ticketed holds the attributes of a node whose agent supports tickets.
var ticketed = map[string]string{nomad.NodeTicketAttribute: nomad.NodeTicketVersion}

// rogueHouse returns a server with ACLs and a rogue node that runs an allocation.
func rogueHouse(t *testing.T, attributes map[string]string, change func(*server.Config)) (*servertest.ACLServer, *rogue, string) {
	t.Helper()
	g := servertest.StartACL(t, change)
	r := joinRogue(t, g.Server, attributes)
	g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob("j", 1)}, nil)
	return g, r, r.Allocs(1)[0].ID
}

// everyRelay returns a request for every method that a node answers.
func everyRelay(alloc, node string) map[string]rpc.Request {
	return map[string]rpc.Request{
		"ClientAllocations.Stats":             &message.AllocStatsRequest{AllocID: alloc},
		"ClientAllocations.Checks":            &message.AllocChecksRequest{AllocID: alloc},
		"ClientAllocations.Sandbox":           &message.AllocSandboxRequest{AllocID: alloc},
		"ClientAllocations.Restart":           &message.AllocRestartRequest{AllocID: alloc},
		"ClientAllocations.Signal":            &message.AllocSignalRequest{AllocID: alloc, Signal: "SIGHUP"},
		"ClientAllocations.GarbageCollect":    &message.AllocSpecificRequest{AllocID: alloc},
		"ClientAllocations.GarbageCollectAll": &message.NodeSpecificRequest{NodeID: node},
		"FileSystem.List":                     &message.FsListRequest{AllocID: alloc, Path: "/"},
		"FileSystem.Stat":                     &message.FsStatRequest{AllocID: alloc, Path: "/"},
		"ClientStats.Stats":                   &message.NodeSpecificRequest{NodeID: node},
		"NodeIdentity.Get":                    &message.NodeIdentityGetReq{NodeID: node},
		"NodeMeta.Apply":                      &message.NodeMetaApplyRequest{NodeID: node},
		"NodeMeta.Read":                       &message.NodeSpecificRequest{NodeID: node},
		"NodeIdentity.Renew":                  &message.NodeIdentityRenewReq{NodeID: node},
		"Agent.Monitor":                       &message.MonitorRequest{NodeID: node},
		"Agent.MonitorExport":                 &message.MonitorExportRequest{NodeID: node, OnDisk: true},
		"Allocations.Exec":                    &message.AllocExecRequest{AllocID: alloc, Task: "t", Cmd: []string{"x"}},
		"FileSystem.Logs":                     &message.FsLogsRequest{AllocID: alloc, Task: "t", LogType: "stdout"},
		"FileSystem.Stream":                   &message.FsStreamRequest{AllocID: alloc, Path: "/x"},
	}
}

// streams lists the streaming methods.
var streams = map[string]bool{"Allocations.Exec": true, "FileSystem.Logs": true, "FileSystem.Stream": true, "Agent.Monitor": true,
	"Agent.MonitorExport": true}

// relays makes a call that a node answers. Of a stream it reads the first chunk and returns the
// stream.
func relay(g *servertest.ACLServer, secret, method string, req rpc.Request) (*rpc.Stream, error) {
	g.Helper()
	if !streams[method] {
		return nil, g.Call(secret, method, req, nil)
	}
	req.(interface{ Query() *message.QueryOptions }).Query().AuthToken = secret
	st, err := g.Server.Stream(servertest.Context(g.T), method)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() { st.Close() })
	if err := st.Encode(req); err != nil {
		return nil, err
	}
	var first message.StreamErrWrapper
	if err := st.Decode(&first); err != nil {
		return nil, err
	}
	if e := first.Error; e != nil && e.Code != nil {
		return nil, apierror.Errorf(int(*e.Code), "%s", e.Message)
	} else if e != nil {
		return nil, apierror.FromText(e.Message)
	}
	return st, nil
}

// nodeName returns the node's name for a relayed method.
func nodeName(method string) string {
	return strings.Replace(method, "ClientAllocations", "Allocations", 1)
}

// A node never gets the secret of a caller, whatever the call.
func TestTicket_NoTokenOfTheCaller(t *testing.T) {
	g, r, alloc := rogueHouse(t, ticketed, nil)
	all := g.TokenWith("namespace \"*\" { \n policy = \"write\" \n capabilities = [\"alloc-node-exec\"] \n }\n" +
		"node { policy = \"write\" }\nagent { policy = \"read\" }")
	workload := r.Allocs(1)[0].SignedIdentities["t"]
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: "of-j",
		JobACL: &rbac.JobACL{Namespace: "default", JobID: "j"},
		Rules: "namespace \"default\" { \n policy = \"write\" \n capabilities = [\"alloc-node-exec\"] \n }\n" +
			"node { policy = \"write\" }\nagent { policy = \"read\" }"}}}, nil)
	for who, secret := range map[string]string{"management": g.Root, "a token": all, "a workload": workload} {
		for method, req := range everyRelay(alloc, r.Node.ID) {
			if _, err := relay(g, secret, method, req); err != nil {
				t.Errorf("%s calls %s: %v", who, method, err)
			}
			if got := r.credential(nodeName(method)); got == "" || strings.Contains(got, secret) {
				t.Errorf("%s: for the call of %s the node gets %q", method, who, got)
			}
		}
		if who != "a workload" && r.tap.holds(secret) { // the node has the identities of its own allocations
			t.Errorf("the node received the secret of %s", who)
		}
	}
}

// Nodes that do not support tickets are not called, unless the operator allows it or the caller
// has no token.
func TestTicket_NodesWithout(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		g, r, alloc := rogueHouse(t, nil, func(c *server.Config) { c.TokensToNodes = allowed })
		for method, req := range everyRelay(alloc, r.Node.ID) {
			_, err := relay(g, g.Root, method, req)
			if refused := servertest.IsCoded(err, 409, "relay_tokens_to_nodes"); refused == allowed || allowed && err != nil {
				t.Errorf("allowed %v: %s = %v", allowed, method, err)
			}
			if shown := r.credential(nodeName(method)) == g.Root; shown != allowed {
				t.Errorf("allowed %v: for %s the node gets the token: %v", allowed, method, shown)
			}
		}
		if r.tap.holds(g.Root) != allowed {
			t.Errorf("allowed %v: the node received the token: %v", allowed, !allowed)
		}
	}
}

// Without ACLs, a node that does not support tickets is called, but gets no token.
func TestTicket_ACLsDisabled(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	g := servertest.NewACLServer(t, s)
	r := joinRogue(t, s, nil)
	servertest.Register(t, s, servertest.BatchJob("j", 1))
	alloc := r.Allocs(1)[0].ID
	secret := nomad.NewID()
	for method, req := range everyRelay(alloc, r.Node.ID) {
		if _, err := relay(g, secret, method, req); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if r.tap.holds(secret) {
		t.Error("the node received the token")
	}
}

// A relayed stream ends when its caller loses the right to it, whatever the node does.
func TestRelay_StreamsEndWithTheRight(t *testing.T) {
	const rules = "namespace \"default\" { \n policy = \"write\" \n capabilities = [\"alloc-node-exec\"] \n }\nagent { policy = \"read\" }"
	g, r, alloc := rogueHouse(t, ticketed, nil)
	policy := func(name, rules string, job *rbac.JobACL) {
		g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: name, Rules: rules, JobACL: job}}}, nil)
	}
	for method := range streams {
		for name, c := range map[string]func() (secret string, end func()){
			"token deleted": func() (string, func()) {
				policy("deleted", rules, nil)
				k := g.CreateToken(servertest.ClientToken("deleted"))
				return k.SecretID, func() {
					g.Must("ACL.DeleteTokens", &message.ACLTokenDeleteRequest{AccessorIDs: []string{k.AccessorID}}, nil)
				}
			},
			"policy changed": func() (string, func()) {
				policy("changed", rules, nil)
				return g.CreateToken(servertest.ClientToken("changed")).SecretID,
					func() { policy("changed", `namespace "default" { policy = "deny" }`, nil) }
			},
			"role removed": func() (string, func()) {
				policy("of-role", rules, nil)
				role := g.CreateRole(&rbac.Role{Name: "r-" + nomad.NewID(), Policies: servertest.PolicyLinks("of-role")})
				k := g.CreateToken(&rbac.Token{Name: "r", Type: rbac.ClientToken, Roles: []*rbac.TokenRoleLink{{ID: role.ID}}})
				return k.SecretID, func() {
					g.Must("ACL.DeleteRolesByID", &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{role.ID}}, nil)
				}
			},
			"workload ended": func() (string, func()) {
				id := "w" + nomad.NewID()[:8]
				policy("of-"+id, rules, &rbac.JobACL{Namespace: "default", JobID: id})
				var out message.JobRegisterResponse
				g.Must("Job.Register", &message.JobRegisterRequest{Job: servertest.BatchJob(id, 1)}, &out)
				var own *nomad.Allocation
				servertest.Eventually(t, func() bool {
					for _, a := range r.Allocs(2) {
						if a.JobID == id {
							own = a
						}
					}
					return own != nil
				})
				return own.SignedIdentities["t"], func() { r.Report(nomad.AllocClientStatusComplete, own) }
			},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				secret, end := c()
				st, err := relay(g, secret, method, everyRelay(alloc, r.Node.ID)[method])
				if err != nil {
					t.Fatal(err)
				}
				end()
				if _, err := io.Copy(io.Discard, st); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the stream ends with %v", err)
				}
			})
		}
	}
}

// Servers do not accept a ticket for any call.
func TestTicket_IsNotAToken(t *testing.T) {
	g, r, alloc := rogueHouse(t, ticketed, nil)
	if _, err := relay(g, g.Root, "FileSystem.Logs", everyRelay(alloc, r.Node.ID)["FileSystem.Logs"]); err != nil {
		t.Fatal(err)
	}
	shown := r.credential("FileSystem.Logs")
	_, bare, ok := strings.Cut(shown, ":")
	if !ok {
		t.Fatalf("the node gets %q", shown)
	}
	for _, credential := range []string{shown, bare} {
		for _, m := range g.Server.Methods() {
			if m.Rule == rpc.Anonymous || m.Stream {
				continue
			}
			req := m.NewRequest()
			servertest.SetToken(req, credential)
			err := r.Call(m.Name, req, nil)
			if err == nil || !errors.Is(err, apierror.ErrPermissionDenied) && !strings.Contains(err.Error(), "not available yet") {
				t.Errorf("%s answers the bearer of a ticket: %v", m.Name, err)
			}
		}
		for method := range streams {
			if _, err := relay(g, credential, method, everyRelay(alloc, r.Node.ID)[method]); !errors.Is(err, apierror.ErrPermissionDenied) {
				t.Errorf("%s answers the bearer of a ticket: %v", method, err)
			}
		}
	}
}
