package jobwait

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
)

// Limits of the queries.
const (
	maxBlock = time.Minute
	// quiet is the minimum time between two reports, so that many changes are one report.
	quiet = 250 * time.Millisecond
	// maxFailed is the number of failed requests in a row that are tried again, after pause:
	// a server that restarts or has no leader does not end the wait.
	maxFailed = 20
	pause     = time.Second
)

// find returns the job whose ID is prefix, or the only one whose ID begins with it.
func (w *watch) find(ctx context.Context, prefix string) (*api.Job, error) {
	q := (&api.QueryOptions{Prefix: prefix, Namespace: w.env.Namespace()}).WithContext(ctx)
	jobs, _, err := w.client.Jobs().List(q)
	if err != nil {
		return nil, fmt.Errorf("Error querying job prefix %q: %w", prefix, err)
	}
	found := jobs
	for _, j := range jobs {
		if j.ID == prefix {
			found = append(found[:0:0], j)
			break
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("No job(s) with prefix or ID %q found", prefix)
	case len(found) > 1:
		return nil, fmt.Errorf("Prefix %q matched %d jobs: give the whole ID, and -namespace", prefix, len(found))
	}
	job, _, err := w.client.Jobs().Info(found[0].ID, (&api.QueryOptions{Namespace: found[0].Namespace}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying job %q: %w", found[0].ID, err)
	}
	return job, nil
}

// options make a query block until a change after index. With index 0 it returns at once.
func (w *watch) options(ctx context.Context, index uint64) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: w.ns, WaitIndex: index, WaitTime: maxBlock}).WithContext(ctx)
}

// read reads the state of the job. It tries again when servers fail.
func (w *watch) read(ctx context.Context) (*state, error) {
	var err error
	for range maxFailed {
		var s *state
		if s, err = w.readOnce(ctx); err == nil || permanent(err) || ctx.Err() != nil {
			return s, err
		}
		if backoff.Sleep(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
	return nil, err
}

func (w *watch) readOnce(ctx context.Context) (*state, error) {
	s, jobs, q := &state{}, w.client.Jobs(), w.options(ctx, 0)
	var err error
	if s.evals, _, err = jobs.Evaluations(w.id, q); err != nil {
		return nil, fmt.Errorf("Error querying evaluations of job %q: %w", w.id, err)
	}
	deployments, _, err := jobs.Deployments(w.id, false, q)
	if err != nil {
		return nil, fmt.Errorf("Error querying deployments of job %q: %w", w.id, err)
	}
	for _, d := range deployments {
		if d.JobVersion == w.version && (s.deployment == nil || s.deployment.CreateIndex < d.CreateIndex) {
			s.deployment = d
		}
	}
	if s.allocs, _, err = jobs.Allocations(w.id, false, q); err != nil {
		return nil, fmt.Errorf("Error querying allocations of job %q: %w", w.id, err)
	}
	s.job, _, err = jobs.Info(w.id, q)
	if api.StatusCode(err) == http.StatusNotFound {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("Error querying job %q: %w", w.id, err)
	}
	return s, nil
}

// query is a query that blocks until a change after the index in its options.
type query func(*api.QueryOptions) (*api.QueryMeta, error)

// changes starts the blocking queries. changed has a value after a change, failed the error of
// a query that cannot succeed.
func (w *watch) changes(ctx context.Context) (changed <-chan struct{}, failed <-chan error) {
	signal, errs := wake.New(), make(chan error, 1)
	jobs := w.client.Jobs()
	for _, ask := range []query{
		func(q *api.QueryOptions) (*api.QueryMeta, error) {
			_, meta, err := jobs.Info(w.id, q)
			return meta, err
		},
		func(q *api.QueryOptions) (*api.QueryMeta, error) {
			_, meta, err := jobs.Evaluations(w.id, q)
			return meta, err
		},
		func(q *api.QueryOptions) (*api.QueryMeta, error) {
			_, meta, err := jobs.Deployments(w.id, false, q)
			return meta, err
		},
		func(q *api.QueryOptions) (*api.QueryMeta, error) {
			_, meta, err := jobs.Allocations(w.id, false, q)
			return meta, err
		},
	} {
		go w.follow(ctx, ask, signal, errs) // ends with ctx, at the end of until
	}
	return signal, errs
}

// follow repeats a blocking query. The first answer wakes too: it may be newer than the
// state that was read before.
func (w *watch) follow(ctx context.Context, ask query, changed wake.Signal, errs chan<- error) {
	var at uint64
	bad := 0
	for ctx.Err() == nil {
		meta, err := ask(w.options(ctx, at))
		wait := quiet
		switch {
		case err == nil:
			bad, at = 0, meta.LastIndex
		case api.StatusCode(err) == http.StatusNotFound: // the job was purged
			changed.Send()
			return
		case permanent(err) || bad == maxFailed:
			select {
			case errs <- fmt.Errorf("Error waiting for job %q: %w", w.id, err):
			default: // another query failed first
			}
			return
		default:
			bad, at, wait = bad+1, 0, pause
		}
		changed.Send()
		backoff.Sleep(ctx, wait) // the loop ends with ctx
	}
}

// permanent reports whether an error remains: the agent answered, and not that it failed.
func permanent(err error) bool {
	code := api.StatusCode(err)
	return code >= 400 && code < 500 && code != http.StatusTooManyRequests || errors.Is(err, context.Canceled)
}
