// Package svids answers the RPC methods of SPIFFE: it signs the SVIDs of the allocations of the calling
// node and returns the trust bundle.
//
// A node gets SVIDs only for its own allocations that have not ended, and only for tasks with a spiffe
// block. The SPIFFE ID, the DNS names and the lifetime come from the job in state. From the node come the
// public key and the audiences. Private keys of tasks stay on the node, those of the authorities in
// nomad/svid.
package svids

import (
	"context"
	"errors"
	"slices"
	"time"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/spiffe"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/svid"
)

// Service handles the RPC methods of SPIFFE.
type Service struct {
	*handler.Core
	svids *svid.Issuer
}

// New returns a Service.
func New(core *handler.Core, issuer *svid.Issuer) *Service {
	return &Service{Core: core, svids: issuer}
}

// maxWait limits how long a node waits for an allocation that this server does not have yet.
const maxWait = 10 * time.Second

// asked identifies a task in a request, and who asks.
type asked struct {
	caller      *rbac.AuthenticatedIdentity
	alloc, task string
}

// workload is a task of an allocation of the caller.
type workload struct {
	task *nomad.Task
	id   string
}

// SignX509 signs the X.509-SVID of a task.
func (s *Service) SignX509(ctx context.Context, c *rpc.Call, req *message.SpiffeX509Request) (*message.SpiffeX509Response, error) {
	key, err := svid.ReadCSR(req.CSR)
	if err != nil {
		return nil, handler.BadRequest(err)
	}
	var w workload
	out, err := handler.Read(ctx, s.Core, wait(&req.QueryOptions),
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SpiffeX509Response) (err error) {
			w, out.Index, err = s.find(snap, ws, asked{c.Identity, req.AllocID, req.Task})
			return err
		})
	switch {
	case err != nil:
		return nil, err
	case w.task == nil:
		return nil, missing(req.AllocID)
	case !w.task.Spiffe.X509:
		return nil, apierror.Errorf(403, "the spiffe block of task %q has no x509 = true", req.Task)
	}
	der, err := s.svids.SignX509(key, svid.Subject{ID: w.id, DNS: w.task.Spiffe.DNS, TTL: w.task.Spiffe.Lifetime()}, s.Now())
	if err != nil {
		return nil, signing(err)
	}
	out.ID, out.Certificates = w.id, [][]byte{der}
	s.signed("x509", w.id, req.AllocID)
	return out, nil
}

// SignJWT signs a JWT-SVID of a task.
func (s *Service) SignJWT(ctx context.Context, c *rpc.Call, req *message.SpiffeJWTRequest) (*message.SpiffeJWTResponse, error) {
	if err := checkAudience(req.Audience); err != nil {
		return nil, err
	}
	var w workload
	out, err := handler.Read(ctx, s.Core, wait(&req.QueryOptions),
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SpiffeJWTResponse) (err error) {
			w, out.Index, err = s.find(snap, ws, asked{c.Identity, req.AllocID, req.Task})
			return err
		})
	switch {
	case err != nil:
		return nil, err
	case w.task == nil:
		return nil, missing(req.AllocID)
	case !w.task.Spiffe.JWT:
		return nil, apierror.Errorf(403, "the spiffe block of task %q has no jwt = true", req.Task)
	}
	out.ID = w.id
	out.JWT, out.Expires, err = s.svids.SignJWT(svid.Subject{ID: w.id, TTL: w.task.Spiffe.Lifetime()}, req.Audience, s.Now())
	if err != nil {
		return nil, signing(err)
	}
	s.signed("jwt", w.id, req.AllocID)
	return out, nil
}

// Bundle returns the public keys of the trust domain. They are not secret.
func (s *Service) Bundle(ctx context.Context, _ *rpc.Call, req *message.GenericRequest) (*message.SpiffeBundleResponse, error) {
	if s.svids.TrustDomain() == "" {
		return nil, errDisabled
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SpiffeBundleResponse) (err error) {
			for range snap.RootKeys(ws) { // the bundle changes with them
			}
			out.TrustDomain, out.RefreshHint = s.svids.TrustDomain(), svid.RefreshHint
			out.Index = snap.TableIndex(state.TableRootKeys)
			out.Sequence = out.Index
			if out.Authorities, err = s.svids.Authorities(); err != nil {
				return signing(err)
			}
			return nil
		})
}

// errDisabled is returned while the region has no trust domain.
var errDisabled = apierror.Errorf(404, "SPIFFE is disabled: set trust_domain in the spiffe block of the servers")

// find returns the task of an allocation of the caller. Without a result, the index is that of the
// snapshot, so that a request with an index waits for the allocation.
func (s *Service) find(snap *state.Snapshot, ws memdb.WatchSet, a asked) (workload, uint64, error) {
	if s.svids.TrustDomain() == "" {
		return workload{}, 0, errDisabled
	}
	alloc := snap.Alloc(ws, a.alloc)
	if alloc == nil || alloc.Job == nil || alloc.ClientTerminalStatus() {
		return workload{}, snap.Index(), nil
	}
	if err := authz.OwnAlloc(a.caller, alloc); err != nil {
		return workload{}, 0, err
	}
	if snap.Node(nil, alloc.NodeID) == nil {
		return workload{}, 0, apierror.ErrNodeNotFound
	}
	tg := alloc.Job.TaskGroup(alloc.TaskGroup)
	if tg == nil || tg.Task(a.task) == nil {
		return workload{}, 0, apierror.Errorf(404, "allocation %s has no task %q", a.alloc, a.task)
	}
	t := tg.Task(a.task)
	if t.Spiffe == nil {
		return workload{}, 0, apierror.Errorf(403, "task %q has no spiffe block", a.task)
	}
	name, err := spiffe.ID(s.svids.TrustDomain(), alloc.Job, alloc.TaskGroup, a.task)
	if err != nil {
		return workload{}, 0, handler.BadRequest(err)
	}
	for _, dns := range t.Spiffe.DNS {
		if !spiffe.Below(dns, s.svids.DNS()) { // the suffixes may have changed since the registration
			return workload{}, 0, apierror.Errorf(403, "DNS name %q of task %q is not below a suffix in dns of the spiffe block of the servers",
				dns, a.task)
		}
	}
	return workload{t, name}, alloc.CreateIndex, nil
}

// checkAudience rejects an audience that the server would not sign.
func checkAudience(audience []string) error {
	if len(audience) == 0 || len(audience) > spiffe.MaxAudiences {
		return apierror.Errorf(400, "request has %d audiences: use 1 to %d", len(audience), spiffe.MaxAudiences)
	}
	for i, a := range audience {
		switch {
		case a == "" || len(a) > spiffe.MaxAudience:
			return apierror.Errorf(400, "audience %d has %d bytes: use 1 to %d", i+1, len(a), spiffe.MaxAudience)
		case slices.Contains(audience[:i], a):
			return apierror.Errorf(400, "audience %q is a duplicate", a)
		}
	}
	return nil
}

// wait limits the wait of a request with an index.
func wait(q *message.QueryOptions) *message.QueryOptions {
	if q.MaxQueryTime <= 0 || q.MaxQueryTime > maxWait {
		q.MaxQueryTime = maxWait
	}
	return q
}

func missing(alloc string) error {
	return apierror.Errorf(404, "allocation %s does not exist or has ended", alloc)
}

// signing returns the error of a failed signature. Without an open root key, the caller may retry.
func signing(err error) error {
	if errors.Is(err, svid.ErrNoAuthority) {
		return apierror.Errorf(503, "%v", err)
	}
	return err
}

// signed logs and counts a signature.
func (s *Service) signed(kind, id, alloc string) {
	metrics.IncrCounterWithLabels([]string{"nomad", "spiffe", "signed"}, 1, []metrics.Label{{Name: "kind", Value: kind}})
	s.Log.Debug("signed SVID", "kind", kind, "id", id, "alloc", alloc)
}
