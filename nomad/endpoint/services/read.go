package services

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// List returns the names of the services of a namespace with their tags. For the namespace "*" it lists those in
// namespaces with the read-job right.
func (s *Service) List(ctx context.Context, c *rpc.Call,
	req *message.ServiceRegistrationListRequest) (*message.ServiceRegistrationListResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ServiceRegistrationListResponse) error {
			out.Index = snap.TableIndex(state.TableRegistrations)
			all := snap.RegistrationsIn(ws, ns)
			if ns == nomad.AllNamespacesSentinel {
				may := handler.Grants(c, acl.ReadJob)
				all = page.Only(snap.Registrations(ws), func(r *catalog.Registration) bool { return may(r.Namespace) })
			}
			out.Services = stubs(all)
			return nil
		})
}

// stubs returns the services by namespace and name, with the tags of all their registrations: an empty list, not null,
// without tags.
func stubs(all iter.Seq[*catalog.Registration]) []*catalog.NamespaceServices {
	tags := map[string]map[string][]string{}
	for r := range all {
		if tags[r.Namespace] == nil {
			tags[r.Namespace] = map[string][]string{}
		}
		tags[r.Namespace][r.ServiceName] = append(tags[r.Namespace][r.ServiceName], r.Tags...)
	}
	out := []*catalog.NamespaceServices{}
	for _, ns := range slices.Sorted(maps.Keys(tags)) {
		stub := &catalog.NamespaceServices{Namespace: ns}
		for _, name := range slices.Sorted(maps.Keys(tags[ns])) {
			union := append([]string{}, slices.Compact(slices.Sorted(slices.Values(tags[ns][name])))...)
			stub.Services = append(stub.Services, &catalog.ServiceStub{ServiceName: name, Tags: union})
		}
		out = append(out, stub)
	}
	return out
}

// GetService returns a page of the registrations of one service, or those that the request chooses from the page.
func (s *Service) GetService(ctx context.Context, _ *rpc.Call,
	req *message.ServiceRegistrationByNameRequest) (*message.ServiceRegistrationByNameResponse, error) {
	if req.ServiceName == "" {
		return nil, apierror.Errorf(400, "missing service name")
	}
	pick, err := parseChoice(req.Choose)
	if err != nil {
		return nil, err
	}
	ns := handler.NamespaceOf(req.Namespace)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ServiceRegistrationByNameResponse) error {
			out.Index = snap.TableIndex(state.TableRegistrations)
			found, next, err := listing(&req.QueryOptions).Page(snap.RegistrationsByName(ws, ns, req.ServiceName))
			if err != nil {
				return err
			}
			out.Services, out.NextToken = pick(copies(found)), next
			return nil
		})
}

// OfJob returns the registrations of the allocations of a job. It returns nil if the job does not exist.
func (s *Service) OfJob(ctx context.Context, _ *rpc.Call,
	req *message.JobServiceRegistrationsRequest) (*message.JobServiceRegistrationsResponse, error) {
	ns := handler.NamespaceOf(req.Namespace)
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.JobServiceRegistrationsResponse) error {
			out.Index = snap.TableIndex(state.TableRegistrations)
			if snap.Job(ws, ns, req.JobID) == nil {
				return nil
			}
			found, next, err := listing(&req.QueryOptions).Page(snap.RegistrationsByJob(ws, ns, req.JobID))
			out.Services, out.NextToken = copies(found), next
			return err
		})
}

// OfAlloc returns the registrations of an allocation. It returns nil if the allocation does not exist or is hidden from
// a caller with all rights.
func (s *Service) OfAlloc(ctx context.Context, c *rpc.Call,
	req *message.AllocServiceRegistrationsRequest) (*message.AllocServiceRegistrationsResponse, error) {
	out, err := handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.AllocServiceRegistrationsResponse) error {
			if req.AllocID == "" {
				return apierror.ErrMissingAllocID
			}
			out.Index = snap.TableIndex(state.TableRegistrations)
			a := snap.Alloc(ws, req.AllocID)
			if a == nil || !c.Access.Allows(acl.InNamespace(a.Namespace, acl.ReadJob)) {
				return nil
			}
			found, next, err := listing(&req.QueryOptions).Page(snap.RegistrationsByAlloc(ws, req.AllocID))
			out.Services, out.NextToken = copies(found), next
			return err
		})
	if err != nil || out.Services != nil {
		return out, err
	}
	c.Access.MarkChecked()
	return out, handler.NotFoundOrHidden(c, apierror.UnknownAlloc(req.AllocID), acl.ReadJob)
}

// listing describes a page of registrations of one namespace, ordered by ID.
func listing(q *message.QueryOptions) page.List[*catalog.Registration] {
	return page.List[*catalog.Registration]{Opts: q, Order: page.ByNamespace, At: position}
}

// position returns the position of a registration in a list.
func position(r *catalog.Registration) page.Cursor {
	return page.Cursor{Namespace: cmp.Or(r.Namespace, nomad.DefaultNamespace), ID: r.ID}
}

// copies returns copies of registrations, because a client in the same process may modify them.
func copies(found []*catalog.Registration) []*catalog.Registration {
	return page.Each(found, (*catalog.Registration).Copy)
}
