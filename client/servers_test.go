package client_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// fakeServer serves a client's calls over real connections, from a state with one index.
// Blocking queries block, secrets are compared, and unregistered nodes are not found.
type fakeServer struct {
	rpc  *rpc.Server
	ln   net.Listener
	stop func() // ends it with its connections

	mu         sync.Mutex
	index      uint64
	turn       chan struct{} // closed when the index changes
	node       *nomad.Node
	status     string
	allocs     map[string]*nomad.Allocation
	updated    map[string]*nomad.Allocation
	updates    int // calls of Node.UpdateAlloc
	registers  []string
	tokens     map[string]bool // those that this server issued
	events     []*nomad.NodeEvent
	failUpdate int // number of calls of Node.UpdateAlloc that fail
	notReady   error
	restoredAt uint64       // the index at which the state was restored
	refuse     []string     // credentials that are not accepted for registration
	refused    []string     // the refused ones
	tries      atomic.Int64 // calls of Node.Register

	proofs        []string // every AuthToken, except of registrations
	noIdentities  bool     // these servers issue no identities and accept secrets
	ignoreRenewal bool     // a forced renewal returns no token
	keepTokens    bool     // a registration returns no token
	forced        int      // heartbeats that requested one

	policies map[string]string // of users, by token
	keys     []*nomad.KeyringPublicKey

	counts []int // AllocCount of each call of Node.GetClientAllocs
}

// startServer starts a server.
func startServer(t *testing.T) *fakeServer {
	t.Helper()
	f := &fakeServer{index: 10, turn: make(chan struct{}), allocs: map[string]*nomad.Allocation{},
		updated: map[string]*nomad.Allocation{}, tokens: map[string]bool{}}
	var err error
	f.rpc, err = rpc.NewServer(rpc.Config{Auth: watchful{f}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("Node.Register", rpc.NodeRegister, rpc.Here, f.register),
		rpc.Handle("Node.UpdateStatus", rpc.NodeStatus, rpc.Here, f.updateStatus),
		rpc.Handle("Node.GetClientAllocs", rpc.NodeOnly, rpc.Here, f.clientAllocs),
		rpc.Handle("Alloc.GetAllocs", rpc.NodeOnly, rpc.Here, f.getAllocs),
		rpc.Handle("Node.UpdateAlloc", rpc.NodeOnly, rpc.Here, f.updateAlloc),
		rpc.Handle("Node.EmitEvents", rpc.NodeOnly, rpc.Here, f.emitEvents),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Here, f.whoAmI).Needs(rpc.AnyToken),
		rpc.Handle("ACL.GetPolicies", rpc.Token, rpc.Here, f.getPolicies).Needs(rpc.AnyToken),
		rpc.Handle("Keyring.ListPublic", rpc.Anonymous, rpc.Here, f.listPublic),
		rpc.Handle("FileSystem.Stat", rpc.Token, rpc.Here, f.statElsewhere).Needs(rpc.AnyToken),
		rpc.HandleStream("FileSystem.Stream", rpc.Token, rpc.Here, f.streamElsewhere).Needs(rpc.AnyToken),
	}})
	if err != nil {
		t.Fatal(err)
	}
	// After its end no other process may listen here, so that calls are refused.
	if f.ln, err = net.Listen("tcp", testnet.Take(t).Addr(4647)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.rpc.Serve(ctx, f.ln) // ends with ctx
	}()
	f.stop = func() { cancel(); <-ended }
	t.Cleanup(f.stop)
	return f
}

func (f *fakeServer) addr() string { return f.ln.Addr().String() }

// edit changes the state and the index.
func (f *fakeServer) edit(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.index++
	close(f.turn)
	f.turn = make(chan struct{})
}

// place adds an allocation to the node.
func (f *fakeServer) place(a *nomad.Allocation) {
	f.edit(func() {
		a.AllocModifyIndex = f.index + 1
		f.allocs[a.ID] = a
	})
}

// watchful accepts every credential and records it.
type watchful struct{ f *fakeServer }

func (w watchful) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*nomad.AuthenticatedIdentity, error) {
	if rule != rpc.NodeRegister {
		w.f.mu.Lock()
		w.f.proofs = append(w.f.proofs, token)
		w.f.mu.Unlock()
	}
	return rpc.TrustPeer{}.Authenticate(ctx, token, rule, conn)
}

func (watchful) Access(ctx context.Context, id *nomad.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

// token returns a string in the form of a JWT.
func (f *fakeServer) token(n int) *string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	t := part(`{"alg":"EdDSA","kid":"key-1"}`) + "." + part(fmt.Sprintf(`{"nomad_node_id":"n","jti":"%d","exp":1795345970}`, n)) + ".c2ln"
	f.tokens[t] = true
	return &t
}

func (f *fakeServer) register(_ context.Context, c *rpc.Call, req *message.NodeRegisterRequest) (*message.NodeUpdateResponse, error) {
	f.tries.Add(1)
	f.mu.Lock()
	if err := f.notReady; err != nil {
		defer f.mu.Unlock()
		return nil, err
	}
	if slices.Contains(f.refuse, req.AuthToken) {
		defer f.mu.Unlock()
		f.refused = append(f.refused, req.AuthToken)
		return nil, nomad.ErrPermissionDenied
	}
	f.mu.Unlock()
	var resp *message.NodeUpdateResponse
	f.edit(func() {
		f.registers = append(f.registers, req.AuthToken)
		f.node, f.status = req.Node, req.Node.Status
		resp = &message.NodeUpdateResponse{HeartbeatTTL: time.Minute, Servers: []*nomad.NodeServerInfo{{RPCAdvertiseAddr: f.addr()}}}
		if f.noIdentities {
			f.tokens[req.Node.SecretID] = true
		} else if !f.keepTokens {
			resp.SignedIdentity = f.token(len(f.registers))
		}
	})
	c.Conn.BindNode(req.Node.ID)
	return resp, nil
}

func (f *fakeServer) updateStatus(_ context.Context, _ *rpc.Call, req *message.NodeUpdateStatusRequest) (*message.NodeUpdateResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.node == nil || f.node.ID != req.NodeID {
		return nil, nomad.ErrNodeNotFound
	}
	if !f.tokens[req.AuthToken] {
		return nil, nomad.ErrPermissionDenied
	}
	f.status = req.Status
	resp := &message.NodeUpdateResponse{HeartbeatTTL: 50 * time.Millisecond}
	if req.ForceIdentityRenewal {
		f.forced++
	}
	bySecret := req.AuthToken == f.node.SecretID && !f.noIdentities
	if req.ForceIdentityRenewal && !f.ignoreRenewal || bySecret {
		resp.SignedIdentity = f.token(100)
	}
	return resp, nil
}

func (f *fakeServer) clientAllocs(ctx context.Context, _ *rpc.Call, req *message.NodeSpecificRequest) (*message.NodeClientAllocsResponse, error) {
	f.mu.Lock()
	f.counts = append(f.counts, req.AllocCount)
	f.mu.Unlock()
	for {
		f.mu.Lock()
		if f.node == nil || f.node.SecretID != req.SecretID {
			f.mu.Unlock()
			return nil, nomad.ErrPermissionDenied
		}
		resp := &message.NodeClientAllocsResponse{Allocs: map[string]uint64{}}
		resp.Index, resp.RestoreIndex = f.index, f.restoredAt
		for id, a := range f.allocs {
			resp.Allocs[id] = a.AllocModifyIndex
		}
		turn := f.turn
		f.mu.Unlock()
		if resp.Index > req.MinQueryIndex || req.MinQueryIndex > resp.Index+1<<15 { // the latter as after the longest wait
			return resp, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *fakeServer) getAllocs(_ context.Context, _ *rpc.Call, req *message.AllocsGetRequest) (*message.AllocsGetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &message.AllocsGetResponse{}
	resp.Index = f.index
	for _, id := range req.AllocIDs {
		if a := f.allocs[id]; a != nil {
			resp.Allocs = append(resp.Allocs, a)
		}
	}
	return resp, nil
}

func (f *fakeServer) updateAlloc(_ context.Context, _ *rpc.Call, req *message.AllocUpdateRequest) (*message.GenericResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.updates++
	if f.failUpdate > 0 {
		f.failUpdate--
		return nil, errors.New("not now")
	}
	if !f.tokens[req.AuthToken] {
		return nil, nomad.ErrPermissionDenied
	}
	for _, a := range req.Alloc {
		f.updated[a.ID] = a
	}
	return &message.GenericResponse{}, nil
}

// whoAmI accepts the tokens that it issued, and those of users, whose policy is named like the
// user.
func (f *fakeServer) whoAmI(_ context.Context, _ *rpc.Call, req *message.GenericRequest) (*message.ACLWhoAmIResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := &nomad.AuthenticatedIdentity{ACLToken: &nomad.ACLToken{Type: nomad.ACLClientToken, Policies: []string{req.AuthToken}}}
	switch _, person := f.policies[req.AuthToken]; {
	case f.tokens[req.AuthToken]:
		id = &nomad.AuthenticatedIdentity{ClientID: "n"}
	case req.AuthToken == "all":
		id.ACLToken.Type = nomad.ACLManagementToken
	case !person:
		return nil, nomad.ErrPermissionDenied
	}
	return &message.ACLWhoAmIResponse{Identity: id}, nil
}

// getPolicies returns the policies of users.
func (f *fakeServer) getPolicies(_ context.Context, _ *rpc.Call, req *message.ACLPolicySetRequest) (*message.ACLPolicySetResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &message.ACLPolicySetResponse{Policies: map[string]*nomad.ACLPolicy{}}
	for _, name := range req.Names {
		out.Policies[name] = &nomad.ACLPolicy{Name: name, Rules: f.policies[name]}
	}
	return out, nil
}

// listPublic returns the keys that verify tickets.
func (f *fakeServer) listPublic(context.Context, *rpc.Call, *message.GenericRequest) (*message.KeyringListPublicResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &message.KeyringListPublicResponse{PublicKeys: f.keys}, nil
}

// statElsewhere and streamElsewhere answer for other nodes.
func (f *fakeServer) statElsewhere(context.Context, *rpc.Call, *message.FsStatRequest) (*message.FsStatResponse, error) {
	return &message.FsStatResponse{Info: &nomad.AllocFileInfo{Name: "elsewhere"}}, nil
}

func (f *fakeServer) streamElsewhere(_ context.Context, _ *rpc.Call, _ *message.FsStreamRequest, s *rpc.Stream) error {
	return s.Encode(&nomad.StreamErrWrapper{Payload: []byte("elsewhere")})
}

func (f *fakeServer) emitEvents(_ context.Context, _ *rpc.Call, req *message.EmitNodeEventsRequest) (*message.EmitNodeEventsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range req.NodeEvents {
		f.events = append(f.events, e...)
	}
	return &message.EmitNodeEventsResponse{}, nil
}

// until waits for a condition on the state.
func (f *fakeServer) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testpace.Until(t, what, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return holds()
	})
}
