package reconcile

import (
	"context"
	"errors"
	"sync"

	"github.com/open-nomad/open-nomad/internal/consul"
)

// Leave deregisters the services of an owner at the end of the agent, after Run has ended, and all that were removed and
// not acknowledged. It takes at most the time of ctx, and does not try if Consul has never answered.
func (r *Reconciler) Leave(ctx context.Context, owner string) error {
	r.drop(owner)
	r.mu.Lock()
	var jobs []*job
	for _, i := range r.items {
		if i.want == nil && i.presence != absent && r.answered {
			jobs = append(jobs, &job{item: i, last: i.last, sidecar: i.sidecar})
		}
	}
	r.mu.Unlock()
	errs := make([]error, len(jobs))
	free := make(chan struct{}, slots[normal])
	var wg sync.WaitGroup
	for n, j := range jobs {
		free <- struct{}{}
		wg.Go(func() {
			errs[n] = consul.Redact(r.deregister(ctx, j))
			<-free
		})
	}
	wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, j := range jobs {
		if errs[n] == nil {
			delete(r.items, j.item.id)
		}
	}
	return errors.Join(errs...)
}
