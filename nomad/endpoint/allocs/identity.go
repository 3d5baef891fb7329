package allocs

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
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
				named, reason := identityOf(alloc, ask.WIHandle)
				if named == nil {
					reject(out, ask, reason)
					continue
				}
				about := subject(snap, alloc, ask.WIHandle, named)
				about.Digests = digests(alloc, ask.WIHandle, req.ArtifactDigests)
				todo = append(todo, signed{ask, s.Issuer.Workload(about, s.Now()), about.ClaimsDigests()})
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

// identityOf returns the identity that a handle names, or the reason why there is none.
func identityOf(alloc *nomad.Allocation, h message.WIHandle) (*nomad.WorkloadIdentity, string) {
	tg := alloc.Job.TaskGroup(alloc.TaskGroup)
	if tg == nil {
		return nil, message.WIRejectionReasonMissingTask
	}
	if h.WorkloadType == message.WorkloadTypeService {
		services := slices.Clone(tg.Services)
		for _, t := range tg.Tasks {
			services = append(services, t.Services...)
		}
		for _, svc := range services {
			if svc.Name == h.WorkloadIdentifier && svc.Identity != nil && svc.Identity.Name == h.IdentityName &&
				interpolates(svc.Name, h.InterpolatedWorkloadIdentifier) {
				return svc.Identity, ""
			}
		}
		return nil, message.WIRejectionReasonMissingIdentity
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

// interpolates reports whether the node may interpolate a service name to the other name.
// Only the text in ${} may differ, and the result must be a valid name: it becomes a claim, which decides on rights
// elsewhere. An empty name means that the node sent none.
func interpolates(name, to string) bool {
	if to == "" || to == name {
		return true
	}
	if !catalog.ConsulName(to) { // native services have a part of these names
		return false
	}
	literals := placeholder().Split(name, -1)
	for n, text := range literals {
		literals[n] = regexp.QuoteMeta(text)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(literals, `.*`) + `$`).MatchString(to)
}

// placeholder matches a variable that the node interpolates.
var placeholder = pattern.Lazy(`\$\{[^{}]*\}`)
