package clienttest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
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

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Server serves a client's calls over real connections, from a state with one index.
// Blocking queries block, secrets are compared, and unregistered nodes are not found.
type Server struct {
	RPC      *rpc.Server
	Listener net.Listener
	Stop     func() // ends it with its connections

	Mu         sync.Mutex
	Index      uint64
	turn       chan struct{} // closed when the index changes
	Node       *nomad.Node
	NodeStatus string
	Allocs     map[string]*nomad.Allocation
	Updated    map[string]*nomad.Allocation
	Updates    int // calls of Node.UpdateAlloc
	Registers  []string
	Tokens     map[string]bool // those that this server issued
	Events     []*nomad.NodeEvent
	FailUpdate int // number of calls of Node.UpdateAlloc that fail
	NotReady   error
	RestoredAt uint64       // the index at which the state was restored
	Refuse     []string     // credentials that are not accepted for registration
	Refused    []string     // the refused ones
	Tries      atomic.Int64 // calls of Node.Register

	Proofs        []string // every AuthToken, except of registrations
	NoIdentities  bool     // these servers issue no identities and accept secrets
	IgnoreRenewal bool     // a forced renewal returns no token
	KeepTokens    bool     // a registration returns no token
	Forced        int      // heartbeats that requested one

	Policies map[string]string // of users, by token
	Keys     []*rootkey.PublicKey

	Counts []int // AllocCount of each call of Node.GetClientAllocs

	Services       map[string]*catalog.Registration // by ID
	FailedRemovals int                              // calls of ServiceRegistration.DeleteByID that failed
	FailRemovals   bool                             // calls of ServiceRegistration.DeleteByID fail
}

// StartServer starts a server, which ends with the test.
func StartServer(t *testing.T) *Server {
	t.Helper()
	f := &Server{Index: 10, turn: make(chan struct{}), Allocs: map[string]*nomad.Allocation{},
		Updated: map[string]*nomad.Allocation{}, Tokens: map[string]bool{}, Services: map[string]*catalog.Registration{}}
	var err error
	f.RPC, err = rpc.NewServer(rpc.Config{Auth: recorder{f}, Log: slog.New(slog.DiscardHandler), Methods: []rpc.Method{
		rpc.Handle("Node.Register", rpc.NodeRegister, rpc.Here, f.register),
		rpc.Handle("Node.UpdateStatus", rpc.NodeStatus, rpc.Here, f.updateStatus),
		rpc.Handle("Node.GetClientAllocs", rpc.NodeOnly, rpc.Here, f.clientAllocs),
		rpc.Handle("Alloc.GetAllocs", rpc.NodeOnly, rpc.Here, f.getAllocs),
		rpc.Handle("Node.UpdateAlloc", rpc.NodeOnly, rpc.Here, f.updateAlloc),
		rpc.Handle("Node.EmitEvents", rpc.NodeOnly, rpc.Here, f.emitEvents),
		rpc.Handle("ServiceRegistration.Upsert", rpc.NodeOnly, rpc.Here, f.upsertServices),
		rpc.Handle("ServiceRegistration.DeleteByID", rpc.Token, rpc.Here, f.deleteService).Needs(rpc.AnyToken),
		rpc.Handle("ServiceRegistration.Instances", rpc.Token, rpc.Here, f.instances).Needs(rpc.AnyToken),
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
	if f.Listener, err = net.Listen("tcp", testnet.Take(t).Addr(4647)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.RPC.Serve(ctx, f.Listener) // ends with ctx
	}()
	f.Stop = func() { cancel(); <-ended }
	t.Cleanup(f.Stop)
	return f
}

// Addr returns its address.
func (f *Server) Addr() string { return f.Listener.Addr().String() }

// Edit changes the state and the index.
func (f *Server) Edit(change func()) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	change()
	f.Index++
	close(f.turn)
	f.turn = make(chan struct{})
}

// Place adds an allocation to the node.
func (f *Server) Place(a *nomad.Allocation) {
	f.Edit(func() {
		a.AllocModifyIndex = f.Index + 1
		f.Allocs[a.ID] = a
	})
}

// recorder accepts every credential and records it.
type recorder struct{ f *Server }

func (w recorder) Authenticate(ctx context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	if rule != rpc.NodeRegister {
		w.f.Mu.Lock()
		w.f.Proofs = append(w.f.Proofs, token)
		w.f.Mu.Unlock()
	}
	return rpc.TrustPeer{}.Authenticate(ctx, token, rule, conn)
}

func (recorder) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

// token returns a string in the form of a JWT.
func (f *Server) token(n int) *string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	t := part(`{"alg":"EdDSA","kid":"key-1"}`) + "." + part(fmt.Sprintf(`{"nomad_node_id":"n","jti":"%d","exp":1795345970}`, n)) + ".c2ln"
	f.Tokens[t] = true
	return &t
}

func (f *Server) register(_ context.Context, c *rpc.Call, req *message.NodeRegisterRequest) (*message.NodeUpdateResponse, error) {
	f.Tries.Add(1)
	f.Mu.Lock()
	if err := f.NotReady; err != nil {
		defer f.Mu.Unlock()
		return nil, err
	}
	if slices.Contains(f.Refuse, req.AuthToken) {
		defer f.Mu.Unlock()
		f.Refused = append(f.Refused, req.AuthToken)
		return nil, apierror.ErrPermissionDenied
	}
	f.Mu.Unlock()
	var resp *message.NodeUpdateResponse
	f.Edit(func() {
		f.Registers = append(f.Registers, req.AuthToken)
		f.Node, f.NodeStatus = req.Node, req.Node.Status
		resp = &message.NodeUpdateResponse{HeartbeatTTL: time.Minute, Servers: []*nomad.NodeServerInfo{{RPCAdvertiseAddr: f.Addr()}}}
		if f.NoIdentities {
			f.Tokens[req.Node.SecretID] = true
		} else if !f.KeepTokens {
			resp.SignedIdentity = f.token(len(f.Registers))
		}
	})
	c.Conn.BindNode(req.Node.ID)
	return resp, nil
}

func (f *Server) updateStatus(_ context.Context, _ *rpc.Call, req *message.NodeUpdateStatusRequest) (*message.NodeUpdateResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.Node == nil || f.Node.ID != req.NodeID {
		return nil, apierror.ErrNodeNotFound
	}
	if !f.Tokens[req.AuthToken] {
		return nil, apierror.ErrPermissionDenied
	}
	f.NodeStatus = req.Status
	resp := &message.NodeUpdateResponse{HeartbeatTTL: 50 * time.Millisecond}
	if req.ForceIdentityRenewal {
		f.Forced++
	}
	bySecret := req.AuthToken == f.Node.SecretID && !f.NoIdentities
	if req.ForceIdentityRenewal && !f.IgnoreRenewal || bySecret {
		resp.SignedIdentity = f.token(100)
	}
	return resp, nil
}

func (f *Server) clientAllocs(ctx context.Context, _ *rpc.Call,
	req *message.NodeSpecificRequest) (*message.NodeClientAllocsResponse, error) {
	f.Mu.Lock()
	f.Counts = append(f.Counts, req.AllocCount)
	f.Mu.Unlock()
	for {
		f.Mu.Lock()
		if f.Node == nil || f.Node.SecretID != req.SecretID {
			f.Mu.Unlock()
			return nil, apierror.ErrPermissionDenied
		}
		resp := &message.NodeClientAllocsResponse{Allocs: map[string]uint64{}}
		resp.Index, resp.RestoreIndex = f.Index, f.RestoredAt
		for id, a := range f.Allocs {
			resp.Allocs[id] = a.AllocModifyIndex
		}
		turn := f.turn
		f.Mu.Unlock()
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

func (f *Server) getAllocs(_ context.Context, _ *rpc.Call, req *message.AllocsGetRequest) (*message.AllocsGetResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	resp := &message.AllocsGetResponse{}
	resp.Index = f.Index
	for _, id := range req.AllocIDs {
		if a := f.Allocs[id]; a != nil {
			resp.Allocs = append(resp.Allocs, a)
		}
	}
	return resp, nil
}

func (f *Server) updateAlloc(_ context.Context, _ *rpc.Call, req *message.AllocUpdateRequest) (*message.GenericResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Updates++
	if f.FailUpdate > 0 {
		f.FailUpdate--
		return nil, errors.New("not now")
	}
	if !f.Tokens[req.AuthToken] {
		return nil, apierror.ErrPermissionDenied
	}
	for _, a := range req.Alloc {
		f.Updated[a.ID] = a
	}
	return &message.GenericResponse{}, nil
}

func (f *Server) upsertServices(_ context.Context, _ *rpc.Call,
	req *message.ServiceRegistrationUpsertRequest) (*message.ServiceRegistrationUpsertResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, r := range req.Services {
		f.Services[r.ID] = r
	}
	return &message.ServiceRegistrationUpsertResponse{}, nil
}

func (f *Server) deleteService(_ context.Context, _ *rpc.Call,
	req *message.ServiceRegistrationDeleteByIDRequest) (*message.ServiceRegistrationDeleteByIDResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	switch {
	case f.FailRemovals:
		f.FailedRemovals++
		return nil, errors.New("not now")
	case f.Services[req.ID] == nil:
		return nil, catalog.ErrNoRegistration
	}
	delete(f.Services, req.ID)
	return &message.ServiceRegistrationDeleteByIDResponse{}, nil
}

func (f *Server) instances(_ context.Context, _ *rpc.Call, req *message.ServiceInstancesRequest) (*message.ServiceInstancesResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := &message.ServiceInstancesResponse{}
	for _, r := range f.Services {
		if r.NodeID == req.NodeID {
			out.Instances = append(out.Instances, &catalog.Instance{Registration: *r})
		}
	}
	return out, nil
}

// whoAmI accepts the tokens that it issued, and those of users, whose policy is named like the
// user.
func (f *Server) whoAmI(_ context.Context, _ *rpc.Call, req *message.GenericRequest) (*message.ACLWhoAmIResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	id := &rbac.AuthenticatedIdentity{ACLToken: &rbac.Token{Type: rbac.ClientToken, Policies: []string{req.AuthToken}}}
	switch _, user := f.Policies[req.AuthToken]; {
	case f.Tokens[req.AuthToken]:
		id = &rbac.AuthenticatedIdentity{ClientID: "n"}
	case req.AuthToken == "all":
		id.ACLToken.Type = rbac.ManagementToken
	case !user:
		return nil, apierror.ErrPermissionDenied
	}
	return &message.ACLWhoAmIResponse{Identity: id}, nil
}

// getPolicies returns the policies of users.
func (f *Server) getPolicies(_ context.Context, _ *rpc.Call, req *message.ACLPolicySetRequest) (*message.ACLPolicySetResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	out := &message.ACLPolicySetResponse{Policies: map[string]*rbac.Policy{}}
	for _, name := range req.Names {
		out.Policies[name] = &rbac.Policy{Name: name, Rules: f.Policies[name]}
	}
	return out, nil
}

// listPublic returns the keys that verify tickets.
func (f *Server) listPublic(context.Context, *rpc.Call, *message.GenericRequest) (*message.KeyringListPublicResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return &message.KeyringListPublicResponse{PublicKeys: f.Keys}, nil
}

// statElsewhere and streamElsewhere answer for other nodes.
func (f *Server) statElsewhere(context.Context, *rpc.Call, *message.FsStatRequest) (*message.FsStatResponse, error) {
	return &message.FsStatResponse{Info: &message.AllocFileInfo{Name: "elsewhere"}}, nil
}

func (f *Server) streamElsewhere(_ context.Context, _ *rpc.Call, _ *message.FsStreamRequest, s *rpc.Stream) error {
	return s.Encode(&message.StreamErrWrapper{Payload: []byte("elsewhere")})
}

func (f *Server) emitEvents(_ context.Context, _ *rpc.Call, req *message.EmitNodeEventsRequest) (*message.EmitNodeEventsResponse, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, e := range req.NodeEvents {
		f.Events = append(f.Events, e...)
	}
	return &message.EmitNodeEventsResponse{}, nil
}

// Until waits for a condition on the state.
func (f *Server) Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testpace.Until(t, what, func() bool {
		f.Mu.Lock()
		defer f.Mu.Unlock()
		return holds()
	})
}

// Signer adds a key to a server and returns it for signing tickets.
func (f *Server) Signer(t *testing.T, id string) jwt.Key {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwt.NewKey(id, private)
	if err != nil {
		t.Fatal(err)
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Keys = append(f.Keys, &rootkey.PublicKey{KeyID: id, PublicKey: public, Algorithm: jwt.EdDSA})
	return key
}

// Status returns the last status that the client sent of an allocation. The caller holds Mu.
func (f *Server) Status(a *nomad.Allocation) string {
	if u := f.Updated[a.ID]; u != nil {
		return u.ClientStatus
	}
	return ""
}
