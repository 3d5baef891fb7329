package allocs

import (
	"cmp"
	"context"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// signed is an identity to sign.
type signed struct {
	request *message.WorkloadIdentityRequest
	claims  *idtoken.Claims
	digests bool // the claims contain the digests of artifacts
}

// SignIdentities signs the named identities of a node's running allocations. It waits
// until this server has the allocations in its state, and for a signing key. Any server can
// handle it.
func (s *Service) SignIdentities(ctx context.Context, c *rpc.Call,
	req *message.AllocIdentitiesRequest) (*message.AllocIdentitiesResponse, error) {
	if len(req.Identities) == 0 {
		return nil, apierror.Errorf(400, "no identities requested")
	}
	var todo []signed
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.AllocIdentitiesResponse) error {
			todo = nil
			find := &finder{snap, s.Region, map[workload]*taskenv.Names{}}
			for _, ask := range req.Identities {
				if ask == nil {
					return apierror.Errorf(400, "empty identity request")
				}
				alloc := snap.Alloc(ws, ask.AllocID)
				if alloc == nil || alloc.Job == nil || alloc.ClientTerminalStatus() {
					out.Index = max(out.Index, snap.Index()) // allocations created up to this index are in the snapshot
					reject(out, ask, message.WIRejectionReasonMissingAlloc)
					continue
				}
				if err := own(snap, c.Identity, alloc); err != nil {
					return err
				}
				out.Index = max(out.Index, alloc.CreateIndex)
				named, reason := find.identityOf(alloc, ask.WIHandle)
				if named == nil {
					reject(out, ask, reason)
					continue
				}
				about := subject(snap, alloc, ask.WIHandle, named)
				about.Digests = digests(alloc, ask.WIHandle, req.ArtifactDigests)
				todo = append(todo, signed{ask, s.Issuer.Workload(about, s.Now()), s.Issuer.ClaimsDigests(about)})
			}
			return nil
		})
	if err != nil || len(todo) == 0 {
		return out, err
	}
	return out, s.signAll(ctx, todo, out)
}

// subject returns the subject of an identity. Only the identities of tasks include the node.
func subject(snap *state.Snapshot, alloc *nomad.Allocation, h message.WIHandle, named *nomad.WorkloadIdentity) identity.Subject {
	s := identity.Subject{Alloc: alloc, Job: alloc.Job, Handle: h, Identity: named, Namespace: snap.Namespace(nil, alloc.Namespace)}
	if h.WorkloadType == message.WorkloadTypeTask {
		s.Node = snap.Node(nil, alloc.NodeID)
	}
	return s
}

// digests returns the digests of a task's artifacts, as the node of the allocation reported them:
// with this request, or with the status of the allocation.
func digests(alloc *nomad.Allocation, h message.WIHandle, reported map[string]map[string]string) map[string]string {
	if h.WorkloadType != message.WorkloadTypeTask {
		return nil
	}
	if now := reported[h.WorkloadIdentifier]; len(now) > 0 {
		return now
	}
	if task := alloc.TaskStates[h.WorkloadIdentifier]; task != nil {
		return task.ArtifactDigests
	}
	return nil
}

// signAll signs the claims and adds the tokens to the response.
func (s *Service) signAll(ctx context.Context, todo []signed, out *message.AllocIdentitiesResponse) error {
	ctx, cancel := s.Signing(ctx)
	defer cancel()
	claims := make([]*idtoken.Claims, len(todo))
	for i, t := range todo {
		claims[i] = t.claims
	}
	tokens, err := s.Issuer.MintAll(ctx, claims)
	if err != nil {
		return err
	}
	for i, t := range todo {
		one := &message.SignedWorkloadIdentity{WorkloadIdentityRequest: *t.request, JWT: tokens[i].Reveal()}
		if t.claims.Expiry > 0 {
			one.Expiration = time.Unix(t.claims.Expiry, 0).UTC()
		}
		out.SignedIdentities = append(out.SignedIdentities, one)
		if t.digests {
			out.DigestClaims = append(out.DigestClaims, t.request.WIHandle)
		}
	}
	return nil
}

func reject(out *message.AllocIdentitiesResponse, ask *message.WorkloadIdentityRequest, reason string) {
	out.Rejections = append(out.Rejections, &message.WorkloadIdentityRejection{WorkloadIdentityRequest: *ask, Reason: reason})
}

// finder finds the identities of a request.
type finder struct {
	snap   *state.Snapshot
	region string
	names  map[workload]*taskenv.Names
}

// workload is a task of an allocation, or its group if task is empty.
type workload struct{ alloc, task string }

// identityOf returns the identity that a handle names, or the reason why there is none.
func (f *finder) identityOf(alloc *nomad.Allocation, h message.WIHandle) (*nomad.WorkloadIdentity, string) {
	tg := alloc.Job.TaskGroup(alloc.TaskGroup)
	if tg == nil {
		return nil, message.WIRejectionReasonMissingTask
	}
	if h.WorkloadType == message.WorkloadTypeService {
		return f.ofService(alloc, tg, h)
	}
	task := tg.Task(h.WorkloadIdentifier)
	if task == nil {
		return nil, message.WIRejectionReasonMissingTask
	}
	for _, id := range task.Identities {
		if id.Name == h.IdentityName {
			return id, ""
		}
	}
	return nil, message.WIRejectionReasonMissingIdentity
}

// ofService returns the identity of a service of a group or of one of its tasks.
func (f *finder) ofService(alloc *nomad.Allocation, tg *nomad.TaskGroup, h message.WIHandle) (*nomad.WorkloadIdentity, string) {
	reason := message.WIRejectionReasonMissingIdentity
	find := func(task *nomad.Task, services []*nomad.Service) *nomad.WorkloadIdentity {
		for _, s := range services {
			if s.Name != h.WorkloadIdentifier || s.Identity == nil || s.Identity.Name != h.IdentityName {
				continue
			}
			if f.named(alloc, task, h) {
				return s.Identity
			}
			reason = message.WIRejectionReasonServiceName
		}
		return nil
	}
	if id := find(&nomad.Task{}, tg.Services); id != nil {
		return id, ""
	}
	for _, t := range tg.Tasks {
		if id := find(t, t.Services); id != nil {
			return id, ""
		}
	}
	return nil, reason
}

// named reports whether a service may have the name that the node has interpolated. It must be a valid name: it becomes a
// claim, which decides on rights elsewhere. An empty name means that the node sent none: the claims then have the name of the
// job, with its references.
func (f *finder) named(alloc *nomad.Allocation, task *nomad.Task, h message.WIHandle) bool {
	name, to := h.WorkloadIdentifier, h.InterpolatedWorkloadIdentifier
	switch {
	case to == "":
		return true
	case to != name && !catalog.ConsulName(to): // native services have a part of these names
		return false
	}
	key := workload{alloc.ID, task.Name}
	if f.names[key] == nil {
		node := cmp.Or(f.snap.Node(nil, alloc.NodeID), &nomad.Node{ID: alloc.NodeID})
		f.names[key] = taskenv.NewNames(taskenv.Subject{Node: node, Region: f.region, Alloc: alloc, Task: task})
	}
	return f.names[key].Allows(name, to)
}
