package rpc

import (
	"context"
	"math"
	"net/http"
	"reflect"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/nomad"
)

// The memory budgets of a server. A request uses memory twice: as bytes while it is read, and
// decoded until its call ends. Both are charged. Unauthenticated callers have smaller budgets.
const (
	readingAll      = 512 << 20 // bytes being read, connections with an authenticated caller
	strangeReading  = 64 << 20  // the same, other connections
	decodedAll      = 512 << 20 // decoded requests of authorized callers
	decodedEach     = 256 << 20
	strangeDecoded  = 32 << 20 // decoded requests of other callers
	strangeEach     = 4 << 20
	freeCost        = 64 << 10 // decoded requests up to this size are not charged
	streamedRequest = 256 << 10
)

// Memory that the codec allocates for one value in addition to its bytes. A scalar is at most
// an interface that points to a string. An untyped container is a map with one group of slots.
const (
	scalarSize  = 32
	untypedSize = 512
	headerSize  = 64
)

// errBusy ends the reading of a request that exceeds the free part of the budget.
var errBusy = nomad.Errorf(http.StatusServiceUnavailable, "the server is busy with other large requests: try again")

// budget is an amount of memory that calls share.
type budget struct {
	each, all int64
	used      *semaphore.Weighted
}

func newBudget(each, all int64) *budget {
	return &budget{each: each, all: all, used: semaphore.NewWeighted(all)}
}

// take waits up to hold for n free bytes.
func (b *budget) take(ctx context.Context, n int64, hold time.Duration) error {
	if n > b.each {
		return tooCostly(n, b.each)
	}
	wait, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	if b.used.Acquire(wait, n) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errBusy
}

func tooCostly(n, most int64) error {
	return nomad.Errorf(http.StatusRequestEntityTooLarge, "the request is too large: it may need %d bytes of memory, at most %d are allowed", n, most)
}

// intake counts the bytes read of one value and charges them to a budget. The zero intake has
// no budget.
type intake struct {
	limit                    int // bytes
	budget                   *budget
	free, paid               int
	values, containers, nils int
}

// pay charges a buffer of n bytes to the budget.
func (in *intake) pay(n int) error {
	if in.budget == nil || n <= in.free+in.paid {
		return nil
	}
	more := max(n-in.paid-in.free, strangeFree)
	if !in.budget.used.TryAcquire(int64(more)) {
		return errBusy
	}
	in.paid += more
	return nil
}

// release returns the charge to the budget.
func (in *intake) release() {
	if in.paid > 0 {
		in.budget.used.Release(int64(in.paid))
		in.paid = 0
	}
}

// footprint is the maximum memory of one container and of one nil in a request that is decoded
// into its Go type.
type footprint struct{ container, null int64 }

// footprintOf finds the largest type into which a container can be decoded.
func footprintOf(t reflect.Type) footprint {
	f := footprint{container: headerSize, null: scalarSize}
	f.add(t, map[reflect.Type]bool{})
	return f
}

func (f *footprint) add(t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		f.add(t.Elem(), seen)
	case reflect.Interface:
		f.container = max(f.container, untypedSize)
	case reflect.Slice, reflect.Array: // append allocates up to twice the elements
		f.element(2 * int64(t.Elem().Size()))
		f.add(t.Elem(), seen)
	case reflect.Map: // the smallest map has room for eight
		f.element(8 * int64(t.Key().Size()+t.Elem().Size()))
		f.add(t.Elem(), seen)
	case reflect.Struct:
		f.container = max(f.container, int64(t.Size())+headerSize)
		for i := range t.NumField() {
			f.add(t.Field(i).Type, seen)
		}
	}
}

func (f *footprint) element(size int64) {
	f.container, f.null = max(f.container, size+headerSize), max(f.null, size)
}

// cost returns an upper bound of the memory of a decoded value that in has read.
func (f footprint) cost(in *intake, size int) int64 {
	n := int64(size) + int64(in.values)*scalarSize + int64(in.containers)*f.container + int64(in.nils)*f.null
	if n < 0 {
		return math.MaxInt64
	}
	return n
}

// intake returns the limits for the next request of a connection. Servers, and peers with a
// certificate of the region, may use more than connections without an authenticated caller.
func (s *Server) intake(c *Conn) *intake {
	in := &intake{limit: maxRequest, budget: s.reading, free: readStep}
	if c.strange() {
		in.budget, in.free = s.strangerReading, strangeFree
	}
	return in
}
