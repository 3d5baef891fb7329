package authz

import (
	"context"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Watch returns a function that waits until the rights of a caller may have changed. Changes of
// its token, node or allocation, and of a policy, role or root key end the wait. So do the
// expiration of its token and the end of ctx. A change of acl.Workload.Keys does not, since it would need a watch of all
// nodes: a query that waits has it checked before its answer. Nil means that the rights cannot be watched and must be
// polled.
func (a *Authority) Watch(id *rbac.AuthenticatedIdentity) (wait func(ctx context.Context)) {
	store, ends := a.store(), endOf(id)
	left := ends.Sub(a.now())
	if IsLeader(id) || !ends.IsZero() && left <= 0 {
		return nil
	}
	snap, ws := store.Snapshot(), memdb.NewWatchSet()
	ws.Add(store.Abandoned())
	if t := id.ACLToken; t != nil {
		snap.ACLToken(ws, t.AccessorID)
	}
	if node := NodeID(id); node != "" {
		snap.Node(ws, node)
	}
	if id.Claims != nil {
		snap.RootKeys(ws)
		if w := id.Claims.WorkloadIdentityClaims; w != nil {
			snap.Alloc(ws, w.AllocationID)
		}
	}
	if a.enforce {
		snap.ACLPolicies(ws)
		snap.ACLRoles(ws)
	}
	return func(ctx context.Context) {
		if !ends.IsZero() {
			timed, cancel := context.WithTimeout(ctx, left)
			defer cancel()
			ctx = timed
		}
		ws.WatchCtx(ctx) //nolint:errcheck // the end of ctx is one of the events
	}
}

// endOf returns the expiration time of a credential, zero for none.
func endOf(id *rbac.AuthenticatedIdentity) time.Time {
	switch {
	case id.ACLToken != nil && id.ACLToken.ExpirationTime != nil:
		return *id.ACLToken.ExpirationTime
	case id.Claims != nil && id.Claims.Expiry != 0:
		return time.Unix(id.Claims.Expiry, 0)
	}
	return time.Time{}
}
