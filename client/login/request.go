package login

import (
	"context"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Requests limits the requests to a product at a time.
type Requests chan struct{}

// NewRequests returns a limit of n.
func NewRequests(n int) Requests { return make(Requests, n) }

// Do makes a request once fewer than the limit run.
func (r Requests) Do(ctx context.Context, request func() error) error {
	select {
	case r <- struct{}{}:
		defer func() { <-r }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return request()
}

// IsID reports whether a text can be the ID of a token. It becomes part of keys and logs.
func IsID(text string) bool { return id().MatchString(text) }

var id = pattern.Lazy(`^[!-~]{1,256}$`)
