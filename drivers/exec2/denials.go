package exec2

import (
	"context"
	"log/slog"
	"sync"

	"github.com/open-nomad/open-nomad/internal/denials"
)

// Denials reads the kernel's records of denials for all instances of the driver in an agent. The
// kernel sends each record to every reader, so one reader is enough. It passes the denials of a task
// to the instance of the task. It reads while at least one instance needs it.
type Denials struct {
	watcher *denials.Watcher

	mu     sync.Mutex
	owners map[string]*watch // by task ID
	users  int               // instances that need the reader
	reader *reader           // nil if users is 0
}

// reader is a running reader. err is set before ended is closed.
type reader struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// NewDenials returns a Denials that does not read yet.
func NewDenials(log *slog.Logger) *Denials {
	d := &Denials{owners: map[string]*watch{}}
	d.watcher = denials.New(log, d.report)
	return d
}

// add adds a task of an instance. It replaces one with the same ID.
func (d *Denials) add(t denials.Task, w *watch) {
	d.mu.Lock()
	d.owners[t.ID] = w
	d.mu.Unlock()
	d.watcher.Add(t)
}

// remove removes a task, if it was added.
func (d *Denials) remove(id string) {
	d.watcher.Remove(id)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, id)
}

// report passes a report to the instance of its task.
func (d *Denials) report(r denials.Report) {
	d.mu.Lock()
	w := d.owners[r.TaskID]
	d.mu.Unlock()
	if w != nil {
		w.denied(r)
	}
}

// read returns when ctx has ended or the reader has failed. Until then the kernel's records are read.
func (d *Denials) read(ctx context.Context) error {
	r := d.join()
	defer d.leave()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return r.err
	}
}

// join starts the reader unless it runs.
func (d *Denials) join() *reader {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users++; d.users == 1 {
		ctx, stop := context.WithCancel(context.Background())
		r := &reader{stop: stop, ended: make(chan struct{})}
		d.reader = r
		go func() {
			defer close(r.ended)
			r.err = d.watcher.Run(ctx)
		}()
	}
	return d.reader
}

// leave stops the reader when the last instance leaves, and waits for its end.
func (d *Denials) leave() {
	d.mu.Lock()
	r := d.reader
	if d.users--; d.users > 0 {
		d.mu.Unlock()
		return
	}
	d.reader = nil
	d.mu.Unlock()
	r.stop()
	<-r.ended
}
