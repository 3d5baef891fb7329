package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Bounds of the time in which the body of a request must arrive. RPC has the same bounds.
const (
	bodyTimeout = 30 * time.Second
	bodyRate    = 256 << 10 // minimum rate of a large body in bytes per second
)

// Bounds of the memory of bodies while their requests are answered. The buffer of a decoder doubles
// when it grows, so each byte of a body counts twice.
const (
	bodiesAll             = 512 << 20 // callers with a valid token; all callers if ACLs are disabled
	bodiesUnauthenticated = 64 << 20  // other callers
	bodyFree              = 4 << 10   // bytes of each body that are not charged
	bodyStep              = 64 << 10  // minimum charge
	maxIgnored            = 64 << 10  // maximum size of a body that the method ignores
)

var (
	// ErrSlowBody means that the body of a request did not arrive in time.
	ErrSlowBody = apierror.Errorf(http.StatusRequestTimeout,
		"the request body did not arrive in time: it must arrive within %v, and after that at %d KiB per second or more", bodyTimeout,
		bodyRate>>10)
	errBodiesBusy = apierror.Errorf(http.StatusServiceUnavailable, "the agent is busy with other large request bodies: try again")
)

// bodyBudgets limits the memory that the bodies of all requests share.
type bodyBudgets struct{ proven, unauthenticated *semaphore.Weighted }

func newBodyBudgets() bodyBudgets {
	return bodyBudgets{semaphore.NewWeighted(bodiesAll), semaphore.NewWeighted(bodiesUnauthenticated)}
}

// intake is the body of a request with a deadline. The bytes that were read are charged to a budget
// until the request is answered.
type intake struct {
	io.ReadCloser
	server *Server
	req    *http.Request
	conn   *http.ResponseController
	waited time.Duration // time in Read; the time of the handler does not count
	got    int64
	ended  atomic.Bool // the rest of the body is not wanted
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

// until sets the read deadline.
func (b *intake) until(t time.Time) {
	b.conn.SetReadDeadline(t) //nolint:errcheck // a writer without deadlines has no connection to wait for
}

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
		return n, ErrSlowBody
	case err == nil:
		err = b.charge()
	}
	return n, err
}

// charge acquires budget for the bytes that were read.
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
		return s.bodies.unauthenticated
	}
	if _, _, err := s.cfg.Callers.Access(req.Context(), token); err != nil {
		return s.bodies.unauthenticated
	}
	return s.bodies.proven
}

// streamBody marks the body of a route that does not keep it in memory.
func streamBody(req *http.Request) {
	if in, ok := req.Body.(*intake); ok {
		in.stream = true
	}
}

// DropBody stops reading the body. It interrupts a Read in progress.
func (r *Request) DropBody() { r.intake.drop() }

// drop stops reading the body. It interrupts a Read in progress.
func (b *intake) drop() {
	if b != nil {
		b.ended.Store(true)
		b.until(time.Now())
	}
}

// ignoreBody discards the body of a GET or HEAD request. Otherwise the deadline of the body would
// end a streaming reply.
func ignoreBody(req *http.Request) error {
	in, ok := req.Body.(*intake)
	if !ok || (req.Method != http.MethodGet && req.Method != http.MethodHead) {
		return nil
	}
	in.stream = true
	switch _, err := io.CopyN(io.Discard, in, maxIgnored+1); {
	case errors.Is(err, ErrSlowBody):
		return err
	case err == nil:
		return tooLarge(maxIgnored)
	}
	return nil
}

// BodyFault returns the error to report for a body that could not be read, nil for other errors.
func BodyFault(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(over.Limit)
	case errors.Is(err, ErrSlowBody):
		return ErrSlowBody
	case errors.Is(err, errBodiesBusy):
		return errBodiesBusy
	}
	return nil
}
