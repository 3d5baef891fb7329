package authz_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// tokens is a verifier with a fixed set of tokens.
type tokens map[string]*idtoken.Claims

func (v tokens) Verify(raw string, now time.Time) (*idtoken.Claims, error) {
	claims, ok := v[raw]
	if !ok {
		return nil, errors.New("signature does not match")
	}
	if claims.Expiry != 0 && claims.Expiry < now.Unix() {
		return claims, fmt.Errorf("too late: %w", apierror.ErrIdentityExpired)
	}
	return claims, nil
}

const (
	node    = "11111111-1111-4111-8111-111111111111"
	secret  = "22222222-2222-4222-8222-222222222222"
	unknown = "33333333-3333-4333-8333-333333333333"
)

func nodeClaims(pool string, expiry int64) *idtoken.Claims {
	return &idtoken.Claims{NodeIdentityClaims: &idtoken.NodeIdentityClaims{NodeID: node, NodePool: pool},
		RegisteredClaims: idtoken.RegisteredClaims{Expiry: expiry}}
}

func workload(alloc, namespace string) *idtoken.Claims {
	return &idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{Namespace: namespace, AllocationID: alloc}}
}

// authority returns an authority with one node and two allocations, of which the second is
// terminal.
func authority(t *testing.T) *authz.Authority {
	t.Helper()
	store := state.New(slog.New(slog.DiscardHandler))
	must := func(_ *state.Changes, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(store.RegisterNode(10, &message.NodeRegisterRequest{Node: &nomad.Node{ID: node, SecretID: secret, Status: nomad.NodeStatusReady}}))
	job := &nomad.Job{ID: "j", Namespace: "default", Type: nomad.JobTypeBatch, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1}}}
	must(store.RegisterJob(11, &message.JobRegisterRequest{Job: job}))
	alloc := func(id string) *nomad.Allocation {
		return &nomad.Allocation{ID: id, Namespace: "default", JobID: "j", Job: job, TaskGroup: "g", NodeID: node,
			DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending}
	}
	must(store.ApplyPlanResults(12,
		&message.ApplyPlanResultsRequest{Job: job, AllocsUpdated: []*nomad.Allocation{alloc("lives"), alloc("over")}}))
	must(store.UpdateAllocsFromClient(13,
		&message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: "over", ClientStatus: nomad.AllocClientStatusComplete}}}))
	return authz.New(authz.Config{Store: func() *state.Store { return store }, Tokens: tokens{
		"node":      nodeClaims("default", 200),
		"old node":  nodeClaims("default", 50),
		"poolless":  nodeClaims("", 200),
		"intro":     {NodeIntroductionIdentityClaims: &idtoken.NodeIntroductionIdentityClaims{NodePool: "default"}},
		"lives":     workload("lives", "default"),
		"over":      workload("over", "default"),
		"gone":      workload("gone", "default"),
		"elsewhere": workload("lives", "other"),
		"server":    {ServerIdentityClaims: &idtoken.ServerIdentityClaims{ServerID: "s1"}},
	}, Now: func() time.Time { return time.Unix(100, 0) }, Log: slog.New(slog.DiscardHandler)})
}

func TestAuthenticate(t *testing.T) {
	a := authority(t)
	leader, end := a.Lead()
	defer end()
	who := func(id *rbac.AuthenticatedIdentity) string {
		switch {
		case id.ClientID != "":
			return "node"
		case id.Claims != nil && id.Claims.WorkloadIdentityClaims != nil:
			return "workload"
		case id.Claims != nil:
			return "claims"
		case id.ACLToken != nil:
			return id.ACLToken.AccessorID
		}
		return "nobody"
	}
	const denied, expired = "denied", "expired"
	for _, c := range []struct {
		rule  rpc.Rule
		token string
		want  string
	}{
		{rpc.Token, "", authz.ACLsDisabledAccessor},
		{rpc.Token, unknown, authz.ACLsDisabledAccessor},
		{rpc.Token, leader, authz.LeaderAccessor},
		{rpc.Token, "lives", "workload"},
		{rpc.Token, "node", "claims"},
		{rpc.Token, "old node", expired},
		{rpc.Token, "intro", denied},
		{rpc.Token, "over", denied},
		{rpc.Token, "gone", denied},
		{rpc.Token, "elsewhere", denied},
		{rpc.Token, "made up", denied},
		{rpc.Management, "over", denied},
		{rpc.NodeOnly, "", denied},
		{rpc.NodeOnly, secret, "node"},
		{rpc.NodeOnly, unknown, denied},
		{rpc.NodeOnly, leader, denied},
		{rpc.NodeOnly, "node", "node"},
		{rpc.NodeOnly, "old node", expired},
		{rpc.NodeOnly, "poolless", denied},
		{rpc.NodeOnly, "lives", denied},
		{rpc.NodeOnly, "intro", denied},
		{rpc.NodeRegister, "", "anonymous"},
		{rpc.NodeRegister, secret, "node"},
		{rpc.NodeRegister, unknown, denied},
		{rpc.NodeRegister, leader, authz.LeaderAccessor},
		{rpc.NodeRegister, "node", "claims"},
		{rpc.NodeRegister, "intro", "claims"},
		{rpc.NodeRegister, "lives", denied},
		{rpc.NodeStatus, "old node", expired},
	} {
		id, err := a.Authenticate(context.Background(), c.token, c.rule, nil)
		got := ""
		switch {
		case errors.Is(err, apierror.ErrIdentityExpired) && errors.Is(err, apierror.ErrPermissionDenied):
			got = expired
		case errors.Is(err, apierror.ErrPermissionDenied):
			got = denied
		case err == nil:
			got = who(id)
		}
		if got != c.want {
			t.Errorf("%s with %q: %s (%v), want %s", c.rule, c.token, got, err, c.want)
		}
		if err != nil && err.Error() != "Permission denied" {
			t.Errorf("%s with %q: error %q, want no details", c.rule, c.token, err)
		}
	}
}

func TestServerOnlyIsForThisProcess(t *testing.T) {
	a := authority(t)
	if _, err := a.Authenticate(context.Background(), "", rpc.ServerOnly, nil); err != nil {
		t.Errorf("in process: %v", err)
	}
	if _, err := a.Authenticate(context.Background(), secret, rpc.ServerOnly, &rpc.Conn{}); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("over a connection: %v", err)
	}
}

// Without TLS, only the identity of a server replaces a certificate.
func TestServerOrCertificateWithoutTLS(t *testing.T) {
	a := authority(t)
	leader, end := a.Lead()
	defer end()
	if _, err := a.Authenticate(context.Background(), "", rpc.ServerOrCertificate, nil); err != nil {
		t.Errorf("in process: %v", err)
	}
	for _, token := range []string{"", secret, unknown, leader, "node", "lives", "intro", "made up"} {
		id, err := a.Authenticate(context.Background(), token, rpc.ServerOrCertificate, &rpc.Conn{})
		if !errors.Is(err, apierror.ErrPermissionDenied) || !strings.HasSuffix(err.Error(), "Permission denied") || id.Claims != nil {
			t.Errorf("with %q: %+v, %v, want permission denied", token, id, err)
		}
	}
	id, err := a.Authenticate(context.Background(), "server", rpc.ServerOrCertificate, &rpc.Conn{})
	if err != nil || id.Claims == nil {
		t.Errorf("with the identity of a server: %+v, %v", id, err)
	}
}

func TestLeaderTokenEndsWithTheTerm(t *testing.T) {
	a := authority(t)
	token, end := a.Lead()
	if a.Token() != token {
		t.Errorf("Token() = %q, want %q", a.Token(), token)
	}
	end()
	id, err := a.Authenticate(context.Background(), token, rpc.NodeStatus, nil)
	if !errors.Is(err, apierror.ErrPermissionDenied) || a.Token() != "" {
		t.Errorf("after the term: %+v, %v", id, err)
	}
}

func TestSameNode(t *testing.T) {
	byToken := &rbac.AuthenticatedIdentity{Claims: nodeClaims("default", 0)}
	for name, c := range map[string]struct {
		id   *rbac.AuthenticatedIdentity
		node string
		want error
	}{
		"by secret":    {&rbac.AuthenticatedIdentity{ClientID: node}, node, nil},
		"by token":     {byToken, node, nil},
		"another":      {byToken, unknown, apierror.ErrPermissionDenied},
		"no node":      {byToken, "", apierror.ErrPermissionDenied},
		"nobody":       {&rbac.AuthenticatedIdentity{}, node, apierror.ErrPermissionDenied},
		"a workload":   {&rbac.AuthenticatedIdentity{Claims: workload("lives", "default")}, node, apierror.ErrPermissionDenied},
		"nobody, none": {&rbac.AuthenticatedIdentity{}, "", apierror.ErrPermissionDenied},
	} {
		if err := authz.SameNode(c.id, c.node); !errors.Is(err, c.want) {
			t.Errorf("%s: SameNode() = %v, want %v", name, err, c.want)
		}
		if err := authz.OwnAlloc(c.id, &nomad.Allocation{NodeID: c.node}); !errors.Is(err, c.want) {
			t.Errorf("%s: OwnAlloc() = %v, want %v", name, err, c.want)
		}
	}
}
