package services

import (
	"cmp"
	"context"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxRegistrations is the maximum number of registrations in one request. The services of one allocation are few.
const maxRegistrations = 10_000

// Upsert registers services of allocations on the calling node: all of them, or none.
func (s *Service) Upsert(ctx context.Context, c *rpc.Call,
	req *message.ServiceRegistrationUpsertRequest) (*message.ServiceRegistrationUpsertResponse, error) {
	if n := len(req.Services); n == 0 || n > maxRegistrations {
		return nil, apierror.Errorf(400, "%d service registrations in one request, want 1 to %d", n, maxRegistrations)
	}
	snap := s.Snapshot()
	node := snap.Node(nil, authz.NodeID(c.Identity))
	if node == nil {
		return nil, apierror.ErrNodeNotFound
	}
	rows := make([]*catalog.Registration, 0, len(req.Services))
	for _, r := range req.Services {
		if err := admit(snap, c, r); err != nil {
			return nil, err
		}
		row := canonical(r)
		row.Datacenter = node.Datacenter
		rows = append(rows, row)
	}
	if err := fits(snap, rows); err != nil {
		return nil, err
	}
	index, err := s.upserts.Write(ctx, rows...)
	if err != nil {
		return nil, err
	}
	s.sweep(ctx, rows)
	out := &message.ServiceRegistrationUpsertResponse{}
	out.Index = index
	return out, nil
}

// admit returns an error unless the registration is of a service of an allocation on the calling node.
func admit(snap *state.Snapshot, c *rpc.Call, r *catalog.Registration) error {
	if r == nil {
		return apierror.Errorf(400, "invalid service registration: it is empty")
	}
	if err := rules.ServiceRegistration(r); err != nil {
		return err
	}
	if err := cmp.Or(plain(r), checkFields(r)); err != nil {
		return err
	}
	if err := authz.SameNode(c.Identity, r.NodeID); err != nil {
		return err
	}
	a := snap.Alloc(nil, r.AllocID)
	switch {
	case a == nil:
		return apierror.UnknownAlloc(r.AllocID)
	case authz.OwnAlloc(c.Identity, a) != nil:
		return apierror.ErrPermissionDenied
	case a.JobID != r.JobID || a.Namespace != r.Namespace:
		return apierror.Errorf(400, "service registration %q: allocation %s is of another job", r.ID, a.ID)
	case !strings.HasPrefix(r.ID, catalog.Prefix(a.ID)):
		return apierror.Errorf(400, "service registration %q: the ID does not begin with %q", r.ID, catalog.Prefix(a.ID))
	case a.ClientTerminalStatus():
		return apierror.Errorf(400, "service registration %q: allocation %s has ended", r.ID, a.ID)
	case !declares(snap, a, r.ServiceName):
		return apierror.Errorf(400, "service registration %q: group %q of job %q has no service %q", r.ID, a.TaskGroup, a.JobID, r.ServiceName)
	}
	return nil
}

// declares reports whether the group of the allocation has a service with the name, in the job of the allocation or in
// a stored version: during an update the client may not have the latest one.
func declares(snap *state.Snapshot, a *nomad.Allocation, service string) bool {
	if groupDeclares(a.Job, a.TaskGroup, service) {
		return true
	}
	for _, j := range snap.JobVersions(nil, a.Namespace, a.JobID) {
		if groupDeclares(j, a.TaskGroup, service) {
			return true
		}
	}
	return false
}

func groupDeclares(j *nomad.Job, group, service string) bool {
	if j == nil {
		return false
	}
	tg := j.TaskGroup(group)
	if tg == nil {
		return false
	}
	for _, s := range tg.AllServices() {
		if s.Name == service {
			return true
		}
		if mayBe(s.Name, service) {
			return true
		}
	}
	return false
}

// sweep removes registrations whose allocation ended while they were written. The write that ended it did not see them.
func (s *Service) sweep(ctx context.Context, rows []*catalog.Registration) {
	snap := s.Snapshot()
	for _, r := range rows {
		a := snap.Alloc(nil, r.AllocID)
		if a != nil && !a.ClientTerminalStatus() || snap.Registration(nil, r.Namespace, r.ID) == nil {
			continue
		}
		if _, err := s.remove(context.WithoutCancel(ctx), r.Namespace, r.ID); err != nil {
			s.Log.Warn("remove service registration of an ended allocation", "alloc", r.AllocID, "err", err)
		}
	}
}

// DeleteByID removes a service registration. A node may remove its own.
func (s *Service) DeleteByID(ctx context.Context, c *rpc.Call,
	req *message.ServiceRegistrationDeleteByIDRequest) (*message.ServiceRegistrationDeleteByIDResponse, error) {
	if req.ID == "" {
		return nil, apierror.Errorf(400, "missing service id")
	}
	ns := handler.NamespaceOf(req.Namespace)
	node := authz.NodeID(c.Identity)
	if node == "" {
		if err := handler.ForOperators(c); err != nil {
			return nil, err
		}
	}
	r := s.Snapshot().Registration(nil, ns, req.ID)
	switch {
	case r == nil:
		return nil, catalog.ErrNoRegistration
	case node != "" && r.NodeID != node:
		return nil, apierror.ErrPermissionDenied
	}
	index, err := s.remove(ctx, ns, req.ID)
	if err != nil {
		return nil, err
	}
	out := &message.ServiceRegistrationDeleteByIDResponse{}
	out.Index = index
	return out, nil
}

// remove writes the deletion of a registration.
func (s *Service) remove(ctx context.Context, ns, id string) (uint64, error) {
	req := &message.ServiceRegistrationDeleteByIDRequest{ID: id}
	req.Namespace = ns
	return s.Apply(ctx, message.ServiceRegistrationDeleteByIDRequestType, req)
}
