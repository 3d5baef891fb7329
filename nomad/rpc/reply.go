package rpc

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Limits for the replies of nodes. Nodes are less trusted than servers, and a server decodes
// their replies on behalf of any caller with the right to ask. The largest reply is a directory
// listing: 16 MiB hold about 100,000 files, which take about five times as much memory when
// decoded.
const (
	maxNodeReply    = 16 << 20
	repliesReading  = 64 << 20  // bytes of all replies that are being read
	repliesDecoded  = 256 << 20 // all decoded replies
	repliesEach     = 128 << 20
	replyTooLarge   = "the reply of the node is larger than %d bytes"
	replyTooComplex = "the reply of the node is too large: it may need %d bytes of memory, at most %d are allowed"
)

// charges holds what a call has taken from budgets in addition to its request. It is released
// after the answer of the call was written.
type charges struct {
	mu   sync.Mutex
	ends []func()
}

type chargesKey struct{}

// charging returns a context that collects the charges for replies of nodes.
func charging(ctx context.Context) (context.Context, *charges) {
	c := &charges{}
	return context.WithValue(ctx, chargesKey{}, c), c
}

// release returns the charges to their budgets.
func (c *charges) release() {
	c.mu.Lock()
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// releaseAfter releases the charges when ctx ends, because an in-process caller uses the answer
// until then. It does not wait for a context that never ends.
func (c *charges) releaseAfter(ctx context.Context) {
	c.mu.Lock()
	none := len(c.ends) == 0
	c.mu.Unlock()
	switch {
	case none:
	case ctx.Done() == nil:
		c.release()
	default:
		context.AfterFunc(ctx, c.release)
	}
}

// add records a charge of n bytes to a budget.
func (c *charges) add(b *wire.Budget, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, func() { b.Release(n) })
}

// replySizes caches the footprints of reply types.
var replySizes sync.Map // reflect.Type to footprint

func replySize(resp any) wire.Footprint {
	t := reflect.TypeOf(resp)
	if f, ok := replySizes.Load(t); ok {
		return f.(wire.Footprint)
	}
	f := wire.FootprintOf(t)
	replySizes.Store(t, f)
	return f
}

// exchange is a call to a node and what receives the reply.
type exchange struct {
	method string
	req    Request
	resp   any // nil to drop the reply
}

// askNode makes one call over a stream to a node and decodes the reply, within the limits for
// such replies.
func (s *Server) askNode(ctx context.Context, c *wire.Caller, x exchange) (broken bool, err error) {
	in := &wire.Intake{Limit: maxNodeReply, Budget: s.nodeReading, Free: wire.ReadStep}
	defer in.Release()
	body, broken, err := c.Ask(x.method, x.req, in)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return broken, apierror.Errorf(http.StatusBadGateway, replyTooLarge, maxNodeReply)
	case err != nil || x.resp == nil:
		return broken, err
	}
	cost := replySize(x.resp).Cost(in, len(body))
	if cost > s.nodeReplies.Each() {
		return false, apierror.Errorf(http.StatusBadGateway, replyTooComplex, cost, s.nodeReplies.Each())
	}
	if cost > freeCost {
		if err := s.nodeReplies.Take(ctx, cost, s.cfg.Hold); err != nil {
			return false, err
		}
		held, ok := ctx.Value(chargesKey{}).(*charges)
		if !ok { // this server itself is the caller
			held = &charges{}
			defer held.release()
		}
		held.add(s.nodeReplies, cost)
	}
	return false, codec.Decode(body, x.resp)
}
