package service

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
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
)

// notFound is the text by which servers report that a registration does not exist.
const notFound = "service registration not found"

// Run sends what is queued until ctx ends. A failed call is repeated after 100 ms, then after twice that, up to 5 s.
func (r *Registrar) Run(ctx context.Context) error {
	wait := againMin
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		case <-again:
		}
		again = nil
		if err := r.send(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("update service registrations", "pending", r.Pending(), "err", err)
			again = time.After(wait)
			wait = min(2*wait, againMax)
			continue
		}
		wait = againMin
	}
}

// send sends one round. Replaced registrations are removed only when all new ones are registered.
func (r *Registrar) send(ctx context.Context) error {
	w := r.take()
	urgent := r.remove(ctx, w.urgent)
	err := r.upsertAll(ctx, w.upserts)
	if err == nil {
		err = r.remove(ctx, w.removed)
	}
	return errors.Join(urgent, err)
}

func (r *Registrar) upsertAll(ctx context.Context, regs []*nomad.ServiceRegistration) error {
	for start := 0; start < len(regs); start += maxBatch {
		if err := r.upsert(ctx, regs[start:min(start+maxBatch, len(regs))]); err != nil {
			return err
		}
	}
	return nil
}

// upsert sends one batch. If the servers refuse it, each registration is sent alone, so that one of them does not affect
// the others.
func (r *Registrar) upsert(ctx context.Context, regs []*nomad.ServiceRegistration) error {
	err := r.call(ctx, "ServiceRegistration.Upsert", &message.ServiceRegistrationUpsertRequest{Services: regs}, &message.ServiceRegistrationUpsertResponse{})
	switch {
	case err == nil:
		for _, reg := range regs {
			r.registered(reg)
		}
		return nil
	case len(regs) > 1 && (invalid(err) || errors.Is(err, nomad.ErrPermissionDenied)):
		return r.upsertEach(ctx, regs)
	case !invalid(err):
		return err
	default:
		r.log.Error("the servers refuse a service registration", "alloc", regs[0].AllocID, "service", regs[0].ServiceName, "err", err)
		r.refused(regs[0])
		return nil
	}
}

// upsertEach sends each registration alone. A node may lack the right to some of them, which are tried again later.
func (r *Registrar) upsertEach(ctx context.Context, regs []*nomad.ServiceRegistration) (denied error) {
	for _, reg := range regs {
		err := r.upsert(ctx, []*nomad.ServiceRegistration{reg})
		if err != nil && !errors.Is(err, nomad.ErrPermissionDenied) {
			return err
		}
		denied = cmp.Or(denied, err)
	}
	return denied
}

// invalid reports whether the error is about the registrations, and not about the node or the connection.
func invalid(err error) bool {
	var coded *nomad.CodedError
	if errors.As(err, &coded) && (coded.Code == http.StatusBadRequest || coded.Code == http.StatusNotFound) {
		return true
	}
	return strings.Contains(err.Error(), "invalid service registration")
}

// remove removes registrations, each with a call of its own.
func (r *Registrar) remove(ctx context.Context, regs []*nomad.ServiceRegistration) error {
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

func (r *Registrar) removeOne(ctx context.Context, reg *nomad.ServiceRegistration) error {
	req := &message.ServiceRegistrationDeleteByIDRequest{ID: reg.ID}
	req.Namespace = reg.Namespace
	err := r.call(ctx, "ServiceRegistration.DeleteByID", req, &message.ServiceRegistrationDeleteByIDResponse{})
	if err != nil && !strings.Contains(err.Error(), notFound) {
		return err
	}
	r.removed(reg)
	return nil
}

func (r *Registrar) call(ctx context.Context, method string, req, resp any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.rpc.Call(ctx, method, req, resp)
}
