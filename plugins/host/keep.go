package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of restarts.
const (
	maxBackoff   = 2 * time.Minute
	stable       = 2 * time.Minute // a process that ran this long resets the back-off
	recoverTries = 3
	recoverPause = time.Second
)

// Fingerprint implements drivers.Driver. It keeps a process of the program running until ctx ends.
func (d *Driver) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	go func() {
		defer close(ch)
		d.keep(ctx, use{
			attach: d.recoverAll,
			watch:  func(ctx context.Context, p *process) error { return d.watch(ctx, p, ch) },
		}, func(err error) {
			send(ctx, ch, drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: err.Error()})
		})
	}()
	return ch
}

// keep keeps a process running until ctx ends. It calls faulty for each process that ended or did not
// start.
func (i *instance) keep(ctx context.Context, u use, faulty func(error)) {
	again := backoff.Backoff{Min: i.cfg.Backoff, Max: maxBackoff}
	for {
		begun := time.Now()
		err := i.run(ctx, u)
		if ctx.Err() != nil || i.isClosed() {
			return // the process stays until close: tasks may still be stopped
		}
		if time.Since(begun) >= stable {
			again.Reset()
		}
		wait := again.Next()
		i.log.Warn("the program of a plugin is started again", "err", err, "in", wait)
		faulty(errors.New(wire.Clip(err.Error())))
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

func (i *instance) isClosed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.closed
}

func send(ctx context.Context, ch chan<- drivers.Fingerprint, f drivers.Fingerprint) {
	select {
	case <-ctx.Done():
	case ch <- f:
	}
}

// use is what a kind of plugin does with a process.
type use struct {
	attach func(ctx context.Context, p *process) error // before it serves calls
	watch  func(ctx context.Context, p *process) error // until it is faulty
}

// run serves with one process until that ends, or until ctx ends, when the process stays.
func (i *instance) run(ctx context.Context, u use) error {
	p, err := i.next(ctx)
	if err != nil {
		return errors.Join(err, i.serve(nil, err))
	}
	serving := false
	if err = u.attach(ctx, p); err == nil {
		err = i.serve(p, nil)
		serving = err == nil
	}
	if serving {
		if err = u.watch(ctx, p); ctx.Err() != nil || i.isClosed() {
			return err // close stops the process
		}
	}
	err = p.explain(err)
	if i.serve(nil, err) != nil && serving {
		return err // as above
	}
	p.stop()
	return err
}

// next returns the process that SetConfig has started, or a new one.
func (i *instance) next(ctx context.Context) (*process, error) {
	i.mu.Lock()
	p := i.spare
	i.spare = nil
	why, started := i.why, i.config != nil
	i.mu.Unlock()
	switch {
	case !started:
		return nil, fmt.Errorf("the %s is not configured: %w", i.program.noun(), why)
	case p == nil:
		return i.start(ctx)
	case p.over():
		err := p.explain(errors.New("the program has ended"))
		p.stop()
		return nil, err
	}
	return p, nil
}

// recoverAll has a new process take over the tasks of the previous one. A task that it does not
// recover is gone: WaitTask reports that.
func (d *Driver) recoverAll(ctx context.Context, p *process) error {
	d.mu.Lock()
	tasks := maps.Clone(d.tasks)
	d.mu.Unlock()
	maps.DeleteFunc(tasks, func(_ string, h *proto.TaskHandle) bool { return h == nil })
	for _, id := range slices.Sorted(maps.Keys(tasks)) {
		err := d.recoverTask(ctx, p, tasks[id])
		for try := 1; err != nil && try < recoverTries; try++ {
			if p.over() || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(recoverPause):
			}
			err = d.recoverTask(ctx, p, tasks[id])
		}
		if err != nil {
			d.log.Error("the restarted driver does not recover a task", "task", id, "err", err)
		}
	}
	return nil
}

// watch passes on the fingerprints of a process until their stream ends. The first must come within
// the time limit.
func (d *Driver) watch(ctx context.Context, p *process, ch chan<- drivers.Fingerprint) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(d.cfg.Patience, func() {
		cancel(fmt.Errorf("the driver sent no fingerprint within %v", d.cfg.Patience))
	})
	defer late.Stop()
	stream, err := p.driver.Fingerprint(ctx, &proto.FingerprintRequest{})
	for err == nil {
		var m *proto.FingerprintResponse
		if m, err = stream.Recv(); err == nil {
			late.Stop()
			f := wire.DecodeFingerprint(m)
			f.Attributes = d.rename(f.Attributes)
			send(ctx, ch, f)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("the driver's fingerprints ended: %w", wire.DecodeError(err))
}
