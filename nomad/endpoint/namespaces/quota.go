package namespaces

import (
	"context"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// quotaPage returns the page of quotas for a request.
func quotaPage(snap *state.Snapshot, ws memdb.WatchSet, req *message.QuotaListRequest) ([]*quota.Spec, string, error) {
	all := page.Only(snap.Quotas(ws), func(q *quota.Spec) bool { return strings.HasPrefix(q.Name, req.Prefix) })
	return page.List[*quota.Spec]{Opts: &req.QueryOptions, Order: page.ByID,
		At: func(q *quota.Spec) page.Cursor { return page.Cursor{ID: q.Name} }}.Page(all)
}

// Quotas returns a page of quotas.
func (s *Service) Quotas(ctx context.Context, _ *rpc.Call, req *message.QuotaListRequest) (*message.QuotaListResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.QuotaListResponse) (err error) {
			out.Index = snap.TableIndex(state.TableQuotas)
			found, next, err := quotaPage(snap, ws, req)
			out.Quotas, out.NextToken = page.Each(found, func(q *quota.Spec) *quota.Spec { return q }), next
			return err
		})
}

// Quota returns a quota, or nil if it does not exist.
func (s *Service) Quota(ctx context.Context, _ *rpc.Call, req *message.QuotaSpecificRequest) (*message.SingleQuotaResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleQuotaResponse) error {
		out.Quota = snap.Quota(ws, req.Name)
		if out.Index = snap.TableIndex(state.TableQuotas); out.Quota != nil {
			out.Index = out.Quota.ModifyIndex
		}
		return nil
	})
}

// usageTables lists the tables that determine quota usages.
var usageTables = []string{state.TableQuotas, state.TableQuotaUsage, state.TableNamespaces, state.TableVariablesQuota}

// Usages returns a page of the usages of quotas in this region.
func (s *Service) Usages(ctx context.Context, _ *rpc.Call, req *message.QuotaListRequest) (*message.QuotaUsageListResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.QuotaUsageListResponse) (err error) {
			out.Index = snap.TableIndex(usageTables...)
			found, next, err := quotaPage(snap, ws, req)
			out.Usages, out.NextToken = page.Each(found, func(q *quota.Spec) *quota.Usage { return s.usageOf(snap, ws, q) }), next
			return err
		})
}

// Usage returns the usage of a quota in this region, or nil if the quota does not exist.
func (s *Service) Usage(ctx context.Context, _ *rpc.Call, req *message.QuotaSpecificRequest) (*message.SingleQuotaUsageResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.SingleQuotaUsageResponse) error {
			out.Index = snap.TableIndex(usageTables...)
			if q := snap.Quota(ws, req.Name); q != nil {
				out.Usage = s.usageOf(snap, ws, q)
			}
			return nil
		})
}

// usageOf returns the usage of a quota in this region. The usage in other regions is not
// available here.
func (s *Service) usageOf(snap *state.Snapshot, ws memdb.WatchSet, q *quota.Spec) *quota.Usage {
	out := &quota.Usage{Name: q.Name, Used: map[string]*quota.Limit{}, CreateIndex: q.CreateIndex,
		ModifyIndex: snap.TableIndex(usageTables...)}
	limit := q.Limit(s.Region)
	if limit == nil {
		return out
	}
	usage := snap.QuotaUsed(ws, q.Name)
	variables := int((snap.QuotaVariables(ws, q.Name) + nomad.BytesInMegabyte - 1) / nomad.BytesInMegabyte)
	n := func(v int64) *int { i := int(v); return &i }
	out.Used[limit.Key()] = &quota.Limit{Region: limit.Region, Hash: limit.Hash, VariablesLimit: &variables,
		RegionLimit: &quota.Resources{CPU: n(usage.CPU), Cores: n(usage.Cores), MemoryMB: n(usage.MemoryMB), MemoryMaxMB: n(usage.MemoryMaxMB),
			Allocs: n(usage.Allocs), Storage: &quota.StorageResources{VariablesMB: variables}}}
	return out
}

// UpsertQuotas stores quotas.
func (s *Service) UpsertQuotas(ctx context.Context, _ *rpc.Call, req *message.QuotaUpsertRequest) (*message.GenericResponse, error) {
	if len(req.Quotas) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one quota")
	}
	entry := &message.QuotaUpsertRequest{}
	for _, q := range req.Quotas {
		if err := rules.Quota(q); err != nil {
			return nil, err
		}
		stored := codec.Copy(q)
		if err := stored.SetHashes(); err != nil {
			return nil, err
		}
		entry.Quotas = append(entry.Quotas, stored)
	}
	return s.write(ctx, message.QuotaUpsertRequestType, entry)
}

// DeleteQuotas deletes quotas that no namespace uses.
func (s *Service) DeleteQuotas(ctx context.Context, _ *rpc.Call, req *message.QuotaDeleteRequest) (*message.GenericResponse, error) {
	if len(req.Names) == 0 {
		return nil, apierror.Errorf(400, "must specify at least one quota to delete")
	}
	snap := s.Snapshot()
	for _, name := range req.Names {
		if snap.Quota(nil, name) == nil {
			return nil, apierror.Errorf(404, "quota %q not found", name)
		}
	}
	return s.write(ctx, message.QuotaDeleteRequestType, &message.QuotaDeleteRequest{Names: req.Names})
}
