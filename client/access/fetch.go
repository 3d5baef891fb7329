package access

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// maxContact is the maximum time since a server's last contact with the leader for its answer
// to be used without confirmation.
const maxContact = 5 * time.Second

// answer is implemented by every response to a read.
type answer[T any] interface {
	*T
	ReadMeta() *message.QueryMeta
}

// question is a read of a method whose response is a T.
type question[T any] struct {
	method   string
	req      interface{ Query() *message.QueryOptions }
	complete func(*T) bool // reports whether the response has all parts
}

// fetch asks any server first. It asks the leader as well in two cases: the server's last contact
// with the leader is too old, or a part of the answer is missing. If the leader does not answer,
// fetch returns a complete answer of any age. For an incomplete one it returns the error, since the
// missing part may be a policy that denies something.
func fetch[T any, P answer[T]](ctx context.Context, r *Resolver, q question[T]) (*T, error) {
	out := new(T)
	if err := r.call(ctx, q.method, q.req, out); err != nil {
		return nil, err
	}
	if !q.req.Query().AllowStale || q.complete(out) && P(out).ReadMeta().LastContact <= maxContact {
		return out, nil
	}
	q.req.Query().AllowStale = false
	confirmed := new(T)
	err := r.call(ctx, q.method, q.req, confirmed)
	switch {
	case err == nil:
		return confirmed, nil
	case q.complete(out) && !errors.Is(err, apierror.ErrPermissionDenied):
		return out, nil
	}
	return nil, err
}

// always is the complete function of questions whose responses have no parts.
func always[T any](*T) bool { return true }
