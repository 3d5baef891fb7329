package taskrunner

import (
	"context"
	"sync"

	"github.com/open-nomad/open-nomad/nomad"
)

// latch is closed once.
type latch struct {
	once sync.Once
	done chan struct{}
}

func newLatch() *latch { return &latch{done: make(chan struct{})} }

func (l *latch) close() { l.once.Do(func() { close(l.done) }) }

// requests are the requests to end or to restart the task.
type requests struct {
	killed    chan struct{} // closed by the first kill
	preKilled chan struct{} // closed when the pre-kill hooks have run
	skipDelay *latch        // closed when the servers cancel the shutdown delay
	restarts  chan restartRequest

	mu    sync.Mutex
	cause *nomad.TaskEvent // of the first kill
}

// restartRequest asks Run to stop the process and start the task again.
type restartRequest struct {
	event  *nomad.TaskEvent
	failed bool       // the restart policy counts it as a failure
	done   chan error // buffered 1: receives when the process has exited
}

func newRequests() *requests {
	return &requests{killed: make(chan struct{}), preKilled: make(chan struct{}), skipDelay: newLatch(), restarts: make(chan restartRequest)}
}

// setCause sets the cause of a kill, and reports whether it is the first.
func (q *requests) setCause(e *nomad.TaskEvent) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cause != nil {
		return false
	}
	q.cause = e
	return true
}

// killCause returns the event of the first kill, nil if there is none.
func (q *requests) killCause() *nomad.TaskEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

// isKilled reports whether killed is closed.
func (q *requests) isKilled() bool {
	select {
	case <-q.killed:
		return true
	default:
		return false
	}
}

// untilKilled returns a context that also ends when the task is killed. It is already cancelled
// if the task was killed before.
func (q *requests) untilKilled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if q.isKilled() {
		cancel()
		return ctx, cancel
	}
	go func() {
		select {
		case <-q.killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
