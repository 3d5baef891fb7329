package access

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// maxContact is how long ago a server may have heard from the leader for its answer to count
// by itself.
const maxContact = 5 * time.Second

// answer is what every reply to a read embeds.
type answer[T any] interface {
	*T
	ReadMeta() *nomad.QueryMeta
}

// fetch asks any server. It asks the leader when that answer may be old: when the server has
// not heard from the leader for long, or complete reports that something is missing. While no
// server has a leader, a complete answer counts, however old it is; what is missing may be a
// policy that denies something, so an incomplete answer does not.
func fetch[T any, P answer[T]](ctx context.Context, r *Resolver, method string, req interface{ Query() *nomad.QueryOptions }, complete func(*T) bool) (*T, error) {
	out := new(T)
	if err := r.call(ctx, method, req, out); err != nil {
		return nil, err
	}
	if !req.Query().AllowStale || complete(out) && P(out).ReadMeta().LastContact <= maxContact {
		return out, nil
	}
	req.Query().AllowStale = false
	confirmed := new(T)
	err := r.call(ctx, method, req, confirmed)
	switch {
	case err == nil:
		return confirmed, nil
	case complete(out) && !errors.Is(err, nomad.ErrPermissionDenied):
		return out, nil
	}
	return nil, err
}

// always is for answers that have no parts to miss.
func always[T any](*T) bool { return true }
