package wire

import (
	"context"
	"math"
	"net/http"
	"reflect"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Memory that the codec allocates for one value in addition to its bytes. A scalar is at most
// an interface that points to a string. An untyped container is a map with one group of slots.
const (
	scalarSize  = 32
	untypedSize = 512
	headerSize  = 64
)

// ErrBusy ends the reading of a request that exceeds the free part of the budget.
var ErrBusy = apierror.Errorf(http.StatusServiceUnavailable, "the server is busy with other large requests: try again")

// Budget is an amount of memory that calls share.
type Budget struct {
	each int64
	used *semaphore.Weighted
}

// NewBudget returns a budget of all bytes, of which one call may take each.
func NewBudget(each, all int64) *Budget {
	return &Budget{each: each, used: semaphore.NewWeighted(all)}
}

// Each returns how many bytes one call may take.
func (b *Budget) Each() int64 { return b.each }

// TryTake takes n bytes if they are free at once.
func (b *Budget) TryTake(n int64) bool { return b.used.TryAcquire(n) }

// Release returns n bytes to the budget.
func (b *Budget) Release(n int64) { b.used.Release(n) }

// Take waits up to hold for n free bytes. It refuses more than Each.
func (b *Budget) Take(ctx context.Context, n int64, hold time.Duration) error {
	if n > b.each {
		return TooCostly(n, b.each)
	}
	wait, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	if b.used.Acquire(wait, n) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return ErrBusy
}

// TooCostly is the error for a request that may need n bytes of memory when most are allowed.
func TooCostly(n, most int64) error {
	return apierror.Errorf(http.StatusRequestEntityTooLarge,
		"the request is too large: it may need %d bytes of memory, at most %d are allowed", n, most)
}

// chargeStep is the smallest charge for a request that is being read.
const chargeStep = 4 << 10

// Intake counts the bytes read of one value and charges them to a budget. The zero Intake has
// no budget.
type Intake struct {
	Limit  int // bytes
	Budget *Budget
	Free   int // bytes that are not charged

	paid                     int
	values, containers, nils int
}

// pay charges a buffer of n bytes to the budget.
func (in *Intake) pay(n int) error {
	if in.Budget == nil || n <= in.Free+in.paid {
		return nil
	}
	more := max(n-in.paid-in.Free, chargeStep)
	if !in.Budget.TryTake(int64(more)) {
		return ErrBusy
	}
	in.paid += more
	return nil
}

// Release returns the charge to the budget.
func (in *Intake) Release() {
	if in.paid > 0 {
		in.Budget.Release(int64(in.paid))
		in.paid = 0
	}
}

// Footprint is the maximum memory of one container and of one nil in a request that is decoded
// into its Go type.
type Footprint struct{ container, null int64 }

// FootprintOf finds the largest type into which a container can be decoded.
func FootprintOf(t reflect.Type) Footprint {
	f := Footprint{container: headerSize, null: scalarSize}
	f.add(t, map[reflect.Type]bool{})
	return f
}

func (f *Footprint) add(t reflect.Type, seen map[reflect.Type]bool) {
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

func (f *Footprint) element(size int64) {
	f.container, f.null = max(f.container, size+headerSize), max(f.null, size)
}

// Cost returns an upper bound of the memory of a decoded value of size bytes that in has read.
func (f Footprint) Cost(in *Intake, size int) int64 {
	n := int64(size) + int64(in.values)*scalarSize + int64(in.containers)*f.container + int64(in.nils)*f.null
	if n < 0 {
		return math.MaxInt64
	}
	return n
}
