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
		d.keep(ctx, ch)
	}()
	return ch
}

func (d *Driver) keep(ctx context.Context, ch chan<- drivers.Fingerprint) {
	again := backoff.Backoff{Min: d.cfg.Backoff, Max: maxBackoff}
	for {
		begun := time.Now()
		err := d.run(ctx, ch)
		if ctx.Err() != nil || d.isClosed() {
			return // the process stays until close: tasks may still be stopped
		}
		if time.Since(begun) >= stable {
			again.Reset()
		}
		wait := again.Next()
		d.log.Warn("the program of a driver is started again", "err", err, "in", wait)
		send(ctx, ch, drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: wire.Clip(err.Error())})
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

func (d *Driver) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

func send(ctx context.Context, ch chan<- drivers.Fingerprint, f drivers.Fingerprint) {
	select {
	case <-ctx.Done():
	case ch <- f:
	}
}

// run serves with one process until that ends, or until ctx ends, when the process stays.
func (d *Driver) run(ctx context.Context, ch chan<- drivers.Fingerprint) error {
	p, err := d.next(ctx)
	if err != nil {
		return errors.Join(err, d.serve(nil, err))
	}
	serving := false
	if err = d.recoverAll(ctx, p); err == nil {
		err = d.serve(p, nil)
		serving = err == nil
	}
	if serving {
		if err = d.watch(ctx, p, ch); ctx.Err() != nil || d.isClosed() {
			return err // close stops the process
		}
	}
	err = p.explain(err)
	if d.serve(nil, err) != nil && serving {
		return err // as above
	}
	p.stop()
	return err
}

// next returns the process that SetConfig has started, or a new one.
func (d *Driver) next(ctx context.Context) (*process, error) {
	d.mu.Lock()
	p := d.spare
	d.spare = nil
	why, started := d.why, d.config != nil
	d.mu.Unlock()
	switch {
	case !started:
		return nil, fmt.Errorf("the driver is not configured: %w", why)
	case p == nil:
		return d.start(ctx)
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
