//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The load: enough for overlapping operations on every object, and no more.
const (
	clientsEach = 3                     // for every server
	opWithin    = 5 * time.Second       // after that its outcome is unknown
	opPause     = 30 * time.Millisecond // of a client, between two operations
	jobsAtOnce  = 3                     // written at a time, in addition to one variable
	jobEpoch    = 10 * time.Second      // after that others replace them
	varPrefix   = "var-"                // of the key of a variable
)

// Workload is a set of clients that read and write the same objects through all servers.
type Workload struct {
	History *History

	cluster *Cluster
	seed    uint64
	value   atomic.Int64 // the last value written
	clients atomic.Int64

	mu      sync.Mutex
	objects map[string]object
}

// NewWorkload returns clients of every server of a cluster.
func NewWorkload(c *Cluster, seed uint64) *Workload {
	w := &Workload{History: NewHistory(), cluster: c, seed: seed, objects: map[string]object{}}
	w.value.Store(1000)
	return w
}

// Run reads and writes until ctx ends, and waits for pending operations.
func (w *Workload) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range clientsEach {
		for _, s := range w.cluster.Servers {
			wg.Go(func() { w.client(ctx, s, rand.New(rand.NewPCG(w.seed, uint64(i)<<8+uint64(s.Addr[8])))) })
		}
	}
	wg.Wait()
}

// client does one operation after the other through a server.
func (w *Workload) client(ctx context.Context, s *Server, rng *rand.Rand) {
	known := map[string]seen{}
	id := int(w.clients.Add(1))
	tick := time.NewTicker(opPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		op := w.choose(rng, known)
		op.Client, op.Server = id, s.Name
		if w.do(s, op, known) == Unknown {
			id = int(w.clients.Add(1)) // the old one still waits, in the history
		}
	}
}

// choose returns the next operation.
func (w *Workload) choose(rng *rand.Rand, known map[string]seen) Op {
	epoch := time.Duration(w.History.Now()) / jobEpoch
	op := Op{Key: fmt.Sprintf("%s%d", varPrefix, epoch), Kind: Read}
	if i := rng.IntN(jobsAtOnce + 1); i < jobsAtOnce {
		op.Key = fmt.Sprintf("job-%d-%d", epoch, i)
	}
	_, knows := known[op.Key]
	switch n := rng.IntN(100); {
	case n < 45 && knows:
		op.Kind = CAS
	case n < 52:
		op.Kind = Write
	}
	if op.Kind != Read {
		op.Expect, op.Value = 0, w.value.Add(1)
	}
	return op
}

// do executes one operation and records it.
func (w *Workload) do(s *Server, op Op, known map[string]seen) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), opWithin)
	defer cancel()
	o, was := w.object(op.Key), known[op.Key]
	delete(known, op.Key)
	var is seen
	var err error
	op.Call = w.History.Now()
	switch op.Kind {
	case Read:
		is, err = o.read(ctx, s.Client, false)
		op.Got = is.value
	case CAS:
		op.Expect = was.value
		is, err = o.cas(ctx, s.Client, was, op.Value)
	case Write:
		is, err = o.write(ctx, s.Client, op.Value)
	}
	op.Return, op.Index = w.History.Now(), is.index
	switch {
	case err == nil:
		op.Outcome, known[op.Key] = Done, is
	case errors.Is(err, errRefused):
		op.Outcome = Refused
	case op.Kind == Read, certainlyNot(err):
		return Refused
	default:
		op.Outcome, op.Err = Unknown, err.Error()
	}
	w.History.Add(op)
	return op.Outcome
}

// object returns the object of a key.
func (w *Workload) object(key string) object {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok := w.objects[key]; ok {
		return o
	}
	var o object = job(key)
	if strings.HasPrefix(key, varPrefix) {
		o = variable(key)
	}
	w.objects[key] = o
	return o
}

// ReadAll reads every object once more through the server, as part of the history. It retries reads
// that fail, since a busy machine may cause another election.
func (w *Workload) ReadAll(ctx context.Context, s *Server) error {
	id := int(w.clients.Add(1))
	for _, key := range w.keys() {
		err := within(ctx, readyWithin, key+" can be read through "+s.Name, func(context.Context) error {
			known := map[string]seen{}
			w.do(s, Op{Client: id, Server: s.Name, Key: key, Kind: Read}, known)
			if _, ok := known[key]; !ok {
				return errors.New("no answer")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Workload) keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]string, 0, len(w.objects))
	for key := range w.objects {
		out = append(out, key)
	}
	return out
}

// Compare waits until a server has the same state as another one.
func (w *Workload) Compare(ctx context.Context, s, with *Server) error {
	for _, key := range w.keys() {
		var want seen
		err := within(ctx, readyWithin, key+" can be read through "+with.Name, func(ctx context.Context) (err error) {
			want, err = w.object(key).read(ctx, with.Client, false)
			return err
		})
		if err != nil {
			return err
		}
		err = within(ctx, readyWithin, s.Name+" has what "+with.Name+" has", func(ctx context.Context) error {
			is, err := w.object(key).read(ctx, s.Client, true)
			if err == nil && is != want {
				err = fmt.Errorf("%s is %d at %d, not %d at %d", key, is.value, is.index, want.value, want.index)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Acknowledged returns the number of acknowledged writes.
func (w *Workload) Acknowledged() (writes, reads, open int) {
	for _, o := range w.History.Ops() {
		switch {
		case o.Outcome == Unknown:
			open++
		case o.Kind == Read:
			reads++
		case o.Outcome == Done:
			writes++
		}
	}
	return writes, reads, open
}
