package rpc

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of the replies of nodes. A node is trusted less than a server: its reply is read and
// decoded by a server, on behalf of anybody who may ask for it. The largest reply of a node is
// the list of a directory, of which 16 MiB hold about 100,000 files. Decoded, they take some
// five times as much.
const (
	maxNodeReply    = 16 << 20
	repliesReading  = 64 << 20  // bytes of all replies that are being read
	repliesDecoded  = 256 << 20 // all decoded replies
	repliesEach     = 128 << 20
	replyTooLarge   = "the reply of the node is larger than %d bytes"
	replyTooComplex = "the reply of the node is too large: decoded it may take %d bytes, at most %d are allowed"
)

// charges are what a call has taken from budgets beside its request. They are given back when
// the answer of the call has been written.
type charges struct {
	mu   sync.Mutex
	ends []func()
}

type chargesKey struct{}

// charging returns a context in which replies of nodes are added to the charges.
func charging(ctx context.Context) (context.Context, *charges) {
	c := &charges{}
	return context.WithValue(ctx, chargesKey{}, c), c
}

// release gives back what was charged.
func (c *charges) release() {
	c.mu.Lock()
	ends := c.ends
	c.ends = nil
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// releaseAfter gives it back when ctx has ended: the caller in this process has the answer
// until then. A context that never ends is not waited for.
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

// add charges n bytes of a budget.
func (c *charges) add(b *budget, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, func() { b.used.Release(n) })
}

// replySizes are the footprints of the types of replies.
var replySizes sync.Map // of reflect.Type to footprint

func replySize(resp any) footprint {
	t := reflect.TypeOf(resp)
	if f, ok := replySizes.Load(t); ok {
		return f.(footprint)
	}
	f := footprintOf(t)
	replySizes.Store(t, f)
	return f
}

// askNode makes one call over a stream to a node and decodes the reply, both within the bounds
// of such replies.
func (s *Server) askNode(ctx context.Context, c *caller, method string, req Request, resp any) (broken bool, err error) {
	in := &intake{limit: maxNodeReply, budget: s.nodeReading, free: readStep}
	defer in.release()
	body, broken, err := c.ask(method, req, in)
	switch {
	case errors.Is(err, errTooLarge):
		return broken, nomad.Errorf(http.StatusBadGateway, replyTooLarge, maxNodeReply)
	case err != nil || resp == nil:
		return broken, err
	}
	cost := replySize(resp).cost(in, len(body))
	if cost > s.nodeReplies.each {
		return false, nomad.Errorf(http.StatusBadGateway, replyTooComplex, cost, s.nodeReplies.each)
	}
	if cost > freeCost {
		if err := s.nodeReplies.take(ctx, cost, s.cfg.Hold); err != nil {
			return false, err
		}
		held, ok := ctx.Value(chargesKey{}).(*charges)
		if !ok { // this server asks for itself
			held = &charges{}
			defer held.release()
		}
		held.add(s.nodeReplies, cost)
	}
	return false, nomad.Decode(body, resp)
}
