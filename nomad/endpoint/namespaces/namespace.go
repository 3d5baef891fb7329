package namespaces

import (
	"context"
	"fmt"
	"iter"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var records = handler.Records[nomad.Namespace, nomad.Namespace]{
	Tables: []string{state.TableNamespaces},
	Get:    (*state.Snapshot).Namespace,
	At:     func(n *nomad.Namespace) page.Cursor { return page.Cursor{ID: n.Name} },
	Order:  page.ByID,
	Index:  func(n *nomad.Namespace) uint64 { return n.ModifyIndex },
	Stub:   func(n *nomad.Namespace) *nomad.Namespace { return n },
}

// List returns the namespaces in which the caller has a right.
func (s *Service) List(ctx context.Context, c *rpc.Call, req *message.NamespaceListRequest) (*message.NamespaceListResponse, error) {
	readable := func(n *nomad.Namespace) bool { return c.Access.Allows(acl.InAny(acl.Namespaces, n.Name)) }
	found, meta, err := records.List(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet) iter.Seq[*nomad.Namespace] {
			return page.Only(snap.Namespaces(ws), readable)
		})
	return &message.NamespaceListResponse{Namespaces: found, QueryMeta: meta}, err
}

// Get returns a namespace, or nil if it does not exist.
func (s *Service) Get(ctx context.Context, c *rpc.Call, req *message.NamespaceSpecificRequest) (*message.SingleNamespaceResponse, error) {
	if err := c.Access.Need(acl.InAny(acl.Namespaces, req.Name)); err != nil {
		return nil, err
	}
	found, meta, err := records.One(ctx, s.Core, &req.QueryOptions, req.Name)
	return &message.SingleNamespaceResponse{Namespace: found, QueryMeta: meta}, err
}

// GetSet returns the existing ones of the named namespaces. Other regions replicate with it.
func (s *Service) GetSet(ctx context.Context, _ *rpc.Call, req *message.NamespaceSetRequest) (*message.NamespaceSetResponse, error) {
	found, meta, err := records.Set(ctx, s.Core, &req.QueryOptions, req.Namespaces)
	return &message.NamespaceSetResponse{Namespaces: found, QueryMeta: meta}, err
}

// Upsert stores namespaces.
func (s *Service) Upsert(ctx context.Context, _ *rpc.Call, req *message.NamespaceUpsertRequest) (*message.GenericResponse, error) {
	if len(req.Namespaces) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one namespace")
	}
	for _, n := range req.Namespaces {
		if err := check(n); err != nil {
			return nil, err
		}
		if n.Isolation != nil {
			if err := s.OnlyOurs(fmt.Sprintf("isolation of namespace %q", n.Name)); err != nil {
				return nil, err
			}
		}
		if n.Privileged != "" {
			if err := s.OnlyOurs(fmt.Sprintf("privileged of namespace %q", n.Name)); err != nil {
				return nil, err
			}
		}
		if n.Quota != "" && s.Snapshot().Quota(nil, n.Quota) == nil {
			return nil, apierror.Errorf(400, "namespace %q has the quota %q, which does not exist: create it first", n.Name, n.Quota)
		}
	}
	return s.write(ctx, message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: req.Namespaces})
}

// check rejects a namespace that is invalid or uses features that are not implemented
// yet.
func check(n *nomad.Namespace) error {
	if err := rules.Namespace(n); err != nil {
		return err
	}
	if n.VaultConfiguration != nil || n.ConsulConfiguration != nil {
		return handler.NotImplemented("Vault and Consul configuration of namespaces")
	}
	if n.Privileged != "" && n.Privileged != nomad.PrivilegedExplicit {
		return apierror.Errorf(400, "namespace %q: privileged is %q: it must be %q or empty", n.Name, n.Privileged, nomad.PrivilegedExplicit)
	}
	return checkIsolation(n)
}

// checkIsolation rejects unknown isolation levels, and a block that enforces nothing.
func checkIsolation(n *nomad.Namespace) error {
	i := n.Isolation
	if i == nil {
		return nil
	}
	for _, o := range []struct{ option, level string }{{"minimum", i.Minimum}, {"warn", i.Warn}} {
		if o.level == "" {
			continue
		}
		if _, err := drivers.ParseLevel(o.level); err != nil {
			return apierror.Errorf(400, "isolation of namespace %q: %s: %v", n.Name, o.option, err)
		}
	}
	if i.Enforce && i.Minimum == "" {
		return apierror.Errorf(400, "isolation of namespace %q: enforce has no effect without a minimum: set minimum", n.Name)
	}
	return nil
}

// Delete deletes namespaces that have no jobs and no running allocations.
func (s *Service) Delete(ctx context.Context, _ *rpc.Call, req *message.NamespaceDeleteRequest) (*message.GenericResponse, error) {
	if len(req.Namespaces) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one namespace to delete")
	}
	snap := s.Snapshot()
	for _, name := range req.Namespaces {
		if snap.Namespace(nil, name) == nil {
			return nil, apierror.Errorf(404, "namespace %q not found", name)
		}
		for a := range snap.AllocsByNamespace(nil, name) {
			if !a.TerminalStatus() {
				return nil, apierror.Errorf(400, "namespace %q has the non-terminal allocation %s of the job %q", name, a.ID, a.JobID)
			}
		}
	}
	return s.write(ctx, message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: req.Namespaces})
}

// write applies a log entry for namespaces or quotas.
func (s *Service) write(ctx context.Context, t message.CommandType, entry any) (*message.GenericResponse, error) {
	index, err := s.Apply(ctx, t, entry)
	return handler.Written(index, handler.BadRequest(err))
}
