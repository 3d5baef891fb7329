package service

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Limits of the calls to the servers.
const (
	// maxBatch is the maximum number of registrations in one call.
	maxBatch = 128
	// parallel is the maximum number of concurrent removals, which are one call each.
	parallel    = 16
	callTimeout = 10 * time.Second
	againMin    = 100 * time.Millisecond
	againMax    = 5 * time.Second
	deniedMax   = 5 * time.Minute // between two tries of what the servers deny
)

// notFound is the text by which servers report that a registration does not exist.
const notFound = "service registration not found"

// Run sends what is queued until ctx ends. A failed call is repeated after 100 ms, then after twice that, up to 5 s.
// What the servers deny is repeated after up to 5 min and holds nothing else up.
func (r *Registrar) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	lanes.Go(func() { r.run(ctx, urgent, r.sendUrgent) })
	lanes.Go(func() { r.run(ctx, regular, r.sendRegular) })
	lanes.Wait()
	return ctx.Err()
}

// run is the loop of a lane.
func (r *Registrar) run(ctx context.Context, l lane, send func(context.Context) error) {
	delay := backoff.Backoff{Min: againMin, Max: againMax}
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake[l]:
		case <-again:
		}
		again = nil
		if err := send(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("update service registrations", "lane", string(l), "pending", r.Pending(), "err", err)
			again = time.After(delay.Next())
			continue
		}
		delay.Reset()
		if retry, ok := r.retryIn(l); ok {
			again = time.After(retry)
		}
	}
}

// sendUrgent removes what tasks wait for.
func (r *Registrar) sendUrgent(ctx context.Context) error {
	return r.remove(ctx, func(e *entry) bool { return e.lane() == urgent })
}

// sendRegular registers in batches. Replaced registrations are removed only when all new ones are registered.
func (r *Registrar) sendRegular(ctx context.Context) error {
	for {
		batch := r.take(maxBatch, func(e *entry) bool { return !e.leaving })
		if len(batch) == 0 {
			break
		}
		err := r.upsert(ctx, batch)
		r.done(batch)
		if err != nil {
			return err
		}
	}
	if r.registering() {
		return nil // a removal of the same ID is under way, which wakes this lane
	}
	return r.remove(ctx, func(e *entry) bool { return e.leaving && !e.urgent })
}

// upsert sends one batch. If the servers refuse it, each registration is sent alone, so that one of them does not affect
// the others. A node may lack the right to some of them.
func (r *Registrar) upsert(ctx context.Context, regs []*catalog.Registration) error {
	err := r.call(ctx, "ServiceRegistration.Upsert", &message.ServiceRegistrationUpsertRequest{Services: regs},
		&message.ServiceRegistrationUpsertResponse{})
	denied := errors.Is(err, apierror.ErrPermissionDenied)
	switch {
	case err == nil:
		for _, reg := range regs {
			r.registered(reg)
		}
		return nil
	case len(regs) > 1 && (invalid(err) || denied):
		for _, reg := range regs {
			if err := r.upsert(ctx, []*catalog.Registration{reg}); err != nil {
				return err
			}
		}
		return nil
	case denied:
		r.denial(regs[0], err)
		return nil
	case !invalid(err):
		return err
	default:
		r.log.Error("the servers refuse a service registration", "alloc", regs[0].AllocID, "service", regs[0].ServiceName, "err", err)
		r.refused(regs[0])
		return nil
	}
}

// invalid reports whether the error is about the registrations, and not about the node or the connection.
func invalid(err error) bool {
	var coded *apierror.Coded
	if errors.As(err, &coded) && (coded.Code == http.StatusBadRequest || coded.Code == http.StatusNotFound) {
		return true
	}
	return strings.Contains(err.Error(), "invalid service registration")
}

// remove removes what is selected, each with a call of its own.
func (r *Registrar) remove(ctx context.Context, selected func(*entry) bool) error {
	regs := r.take(math.MaxInt, selected)
	defer r.done(regs)
	var failed atomic.Pointer[error]
	slots := make(chan struct{}, parallel)
	var calls sync.WaitGroup
	for _, reg := range regs {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			if err := r.removeOne(ctx, reg); err != nil {
				failed.Store(&err)
			}
		})
	}
	calls.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (r *Registrar) removeOne(ctx context.Context, reg *catalog.Registration) error {
	req := &message.ServiceRegistrationDeleteByIDRequest{ID: reg.ID}
	req.Namespace = reg.Namespace
	err := r.call(ctx, "ServiceRegistration.DeleteByID", req, &message.ServiceRegistrationDeleteByIDResponse{})
	switch {
	case errors.Is(err, apierror.ErrPermissionDenied):
		r.denial(reg, err)
	case err != nil && !strings.Contains(err.Error(), notFound):
		return err
	default:
		r.removed(reg)
	}
	return nil
}

func (r *Registrar) call(ctx context.Context, method string, req, resp any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.rpc.Call(ctx, method, req, resp)
}
