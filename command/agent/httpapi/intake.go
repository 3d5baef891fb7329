package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/nomad"
)

// Bounds of the time in which the body of a request must arrive. Those of RPC are the same.
const (
	bodyTimeout = 30 * time.Second
	bodyRate    = 256 << 10 // bytes a second that a large body must reach
)

// Bounds of the memory that bodies take while their requests are answered. The buffer of a
// decoder doubles when it grows, so each byte of a body counts twice.
const (
	bodiesAll     = 512 << 20 // callers with a good token; all callers without access control
	bodiesStrange = 64 << 20  // other callers
	bodyFree      = 4 << 10   // bytes of each body that are not charged
	bodyStep      = 64 << 10  // the least charge
	maxIgnored    = 64 << 10  // bytes of a body that the method does not use
)

var (
	errSlowBody = nomad.Errorf(http.StatusRequestTimeout,
		"the request body did not arrive in time: it must arrive within %v, a large one with %d KiB a second after that", bodyTimeout, bodyRate>>10)
	errBodiesBusy = nomad.Errorf(http.StatusServiceUnavailable, "the agent is busy with other large request bodies: try again")
)

// bodyBudgets is the memory that the bodies of all requests of an agent share.
type bodyBudgets struct{ proven, strange *semaphore.Weighted }

func newBodyBudgets() bodyBudgets {
	return bodyBudgets{semaphore.NewWeighted(bodiesAll), semaphore.NewWeighted(bodiesStrange)}
}

// intake is the body of a request. It must arrive in time, and what is read of it is
// charged to a budget until the request is answered.
type intake struct {
	io.ReadCloser
	server *Server
	req    *http.Request
	conn   *http.ResponseController
	waited time.Duration // in Read: time that the handler takes does not count
	got    int64
	ended  atomic.Bool // nobody wants the rest
	stream bool        // the route does not keep the body in memory
	budget *semaphore.Weighted
	paid   int64
}

// newIntake replaces the body of req. The caller calls release when the request is answered.
func (s *Server) newIntake(w http.ResponseWriter, req *http.Request) (release func()) {
	if req.Body == nil || req.Body == http.NoBody {
		return func() {}
	}
	in := &intake{ReadCloser: req.Body, server: s, req: req, conn: http.NewResponseController(w)}
	// net/http reads the rest of a body that the handler does not read.
	in.until(time.Now().Add(bodyTimeout))
	req.Body = in
	return in.release
}

// until sets the read deadline. A writer without deadlines has no connection to wait for.
func (b *intake) until(t time.Time) { b.conn.SetReadDeadline(t) } //nolint:errcheck // see above

// Read implements io.Reader.
func (b *intake) Read(p []byte) (int, error) {
	begun := time.Now()
	b.until(begun.Add(bodyTimeout + time.Duration(b.got)*time.Second/bodyRate - b.waited))
	if b.ended.Load() {
		b.until(begun)
	}
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(begun)
	b.got += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		b.until(time.Time{}) // net/http watches the connection from now on
	case errors.Is(err, os.ErrDeadlineExceeded) && !b.ended.Load():
		return n, errSlowBody
	case err == nil:
		err = b.charge()
	}
	return n, err
}

// charge takes room in a budget for what was read.
func (b *intake) charge() error {
	cost := 2 * (b.got - bodyFree)
	if b.stream || cost <= b.paid {
		return nil
	}
	if b.budget == nil {
		b.budget = b.server.budgetOf(b.req)
	}
	more := max(cost-b.paid, bodyStep)
	if !b.budget.TryAcquire(more) {
		return errBodiesBusy
	}
	b.paid += more
	return nil
}

func (b *intake) release() {
	if b.paid > 0 {
		b.budget.Release(b.paid)
		b.paid = 0
	}
}

// budgetOf returns the budget for the bodies of a caller.
func (s *Server) budgetOf(req *http.Request) *semaphore.Weighted {
	if !s.cfg.ACL {
		return s.bodies.proven
	}
	token := Token(req)
	if token == "" || s.cfg.Callers == nil {
		return s.bodies.strange
	}
	if _, _, err := s.cfg.Callers.Access(req.Context(), token); err != nil {
		return s.bodies.strange
	}
	return s.bodies.proven
}

// streamBody marks the body of a route that does not keep it in memory.
func streamBody(req *http.Request) {
	if in, ok := req.Body.(*intake); ok {
		in.stream = true
	}
}

// drop ends the reading of a body, also one that runs.
func (b *intake) drop() {
	if b != nil {
		b.ended.Store(true)
		b.until(time.Now())
	}
}

// ignoreBody reads the body of a request whose method does not use one. Otherwise the
// deadline of the body would end a reply that streams.
func ignoreBody(req *http.Request) error {
	in, ok := req.Body.(*intake)
	if !ok || (req.Method != http.MethodGet && req.Method != http.MethodHead) {
		return nil
	}
	in.stream = true
	switch _, err := io.CopyN(io.Discard, in, maxIgnored+1); {
	case errors.Is(err, errSlowBody):
		return err
	case err == nil:
		return tooLarge(maxIgnored)
	}
	return nil
}

// bodyFault returns the answer for a body that could not be read, nil for other errors.
func bodyFault(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(over.Limit)
	case errors.Is(err, errSlowBody):
		return errSlowBody
	case errors.Is(err, errBodiesBusy):
		return errBodiesBusy
	}
	return nil
}
