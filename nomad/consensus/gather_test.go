package consensus

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// slowLog is a log that applies commands on request.
type slowLog struct {
	mu    sync.Mutex
	taken []string
	apply chan struct{} // closed by release
}

// slowFuture is the result of one command.
type slowFuture struct {
	apply   chan struct{}
	index   uint64
	command string
}

var errRefused = errors.New("refused")

// Error implements raft.ApplyFuture.
func (f slowFuture) Error() error {
	<-f.apply
	if strings.HasPrefix(f.command, "bad") {
		return errRefused
	}
	return nil
}

// Index implements raft.ApplyFuture.
func (f slowFuture) Index() uint64 { return f.index }

// Response implements raft.ApplyFuture.
func (f slowFuture) Response() any { return "done: " + f.command }

func (l *slowLog) log(command []byte, _ time.Duration) raft.ApplyFuture {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = append(l.taken, string(command))
	return slowFuture{l.apply, uint64(len(l.taken)), string(command)}
}

// release applies the commands in the log and holds later ones.
func (l *slowLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.apply)
	l.apply = make(chan struct{})
}

// has waits until all goroutines are blocked, and compares the commands in the log.
func (l *slowLog) has(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.taken, want) {
		t.Errorf("the log was given %q, want %q", l.taken, want)
	}
}

// A single command is written at once. Commands that arrive meanwhile form a group after it was
// applied. Each gets its own result.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{apply: make(chan struct{})}
		g := gather{log: l.log}
		for _, lone := range []string{"one", "two"} {
			l.taken = nil
			done := g.add([]byte(lone))
			l.has(t, lone)
			l.release()
			if got := <-done; got != (applied{index: 1, resp: "done: " + lone}) {
				t.Errorf("the result is %v", got)
			}
			synctest.Wait()
		}
		l.taken = nil
		var done []<-chan applied
		for _, c := range []string{"a", "b", "bad", "d"} {
			done = append(done, g.add([]byte(c)))
			l.has(t, "a")
		}
		l.release()
		l.has(t, "a", "b", "bad", "d")
		l.release()
		for i, want := range []applied{{1, "done: a", nil}, {2, "done: b", nil}, {err: errRefused}, {4, "done: d", nil}} {
			if got := <-done[i]; got != want {
				t.Errorf("result %d is %v, want %v", i, got, want)
			}
		}
		synctest.Wait()
		if g.onWay != 0 || g.waiting != nil || g.late != nil {
			t.Errorf("final state %+v", &g)
		}
	})
}

// Commands wait at most holdFor for those before them.
func TestGather_HoldLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{apply: make(chan struct{})}
		g := gather{log: l.log}
		g.add([]byte("a"))
		g.add([]byte("b"))
		time.Sleep(holdFor - 1)
		g.add([]byte("c"))
		l.has(t, "a")
		time.Sleep(time.Nanosecond)
		l.has(t, "a", "b", "c")
		g.add([]byte("d"))
		time.Sleep(holdFor)
		l.has(t, "a", "b", "c", "d")
		g.add([]byte("e"))
		l.release()
		l.has(t, "a", "b", "c", "d", "e")
		l.release()
		synctest.Wait()
		if g.onWay != 0 || g.waiting != nil {
			t.Errorf("final state %+v", &g)
		}
	})
}

// hungLog accepts nothing and returns an error after the timeout.
type hungLog struct{ slowFuture }

// Error implements raft.ApplyFuture.
func (hungLog) Error() error { return raft.ErrEnqueueTimeout }

// Commands that wait for a hung log fail at the same time, not one after another.
func TestGather_HungLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gather{log: func(_ []byte, within time.Duration) raft.ApplyFuture {
			time.Sleep(within)
			return hungLog{}
		}}
		began := time.Now()
		var done []<-chan applied
		for range 100 {
			done = append(done, g.add([]byte("a")))
		}
		for _, d := range done {
			if got := <-d; !errors.Is(got.err, raft.ErrEnqueueTimeout) {
				t.Errorf("the result is %v", got)
			}
		}
		if took := time.Since(began); took > enqueueTimeout+2*holdFor {
			t.Errorf("the wait is %v, want %v", took, enqueueTimeout)
		}
	})
}

// The next group waits for the writers of a large group: until most of them are back, or for
// half of its duration. It does not wait for a few writers.
func TestGather_Many(t *testing.T) {
	tests := map[string]struct {
		many, back int
		after      time.Duration // after the answer
		sent       int           // the number of returning writers
	}{
		"few":           {fewWriters, 1, 0, 1},
		"many":          {8, 5, 0, 0},
		"most are back": {8, 6, 0, 6},
		"soon":          {8, 5, time.Millisecond - 1, 0},
		"not for long":  {8, 5, time.Millisecond, 5},
		"none is back":  {8, 0, time.Second, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &slowLog{apply: make(chan struct{})}
				g := gather{log: l.log}
				g.onWay = 1 // unrelated to these commands
				want := make([]string, tt.many, tt.many+tt.back)
				for range want {
					g.add(nil)
				}
				go g.write(g.written(1, time.Millisecond))
				l.has(t, want...)
				time.Sleep(2 * time.Millisecond)
				l.release()
				synctest.Wait()
				for range tt.back {
					g.add(nil)
				}
				time.Sleep(tt.after)
				l.has(t, append(want, make([]string, tt.sent)...)...)
				l.release()
				time.Sleep(holdFor)
				l.release()
				synctest.Wait()
				if g.onWay != 0 || g.due != 0 || g.waiting != nil || g.late != nil {
					t.Errorf("final state %+v", &g)
				}
			})
		})
	}
}

// stop waits for the commands in flight and for those that wait for them. Later ones are refused
// until resume.
func TestGather_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{apply: make(chan struct{})}
		g := gather{log: l.log}
		g.stop() // nothing is in flight
		g.resume()
		early := []<-chan applied{g.add([]byte("a")), g.add([]byte("b"))}
		l.has(t, "a")
		stopped := make(chan struct{})
		go func() {
			g.stop()
			close(stopped)
		}()
		l.has(t, "a", "b")
		if got := <-g.add([]byte("late")); !errors.Is(got.err, apierror.ErrNoLeader) {
			t.Errorf("a command during stop: %v", got)
		}
		select {
		case <-stopped:
			t.Error("stop did not wait for the commands in flight")
		default:
		}
		l.release()
		<-stopped
		for i, done := range early {
			if got := <-done; got.err != nil {
				t.Errorf("command %d: %v", i, got.err)
			}
		}
		g.resume()
		last := g.add([]byte("c"))
		l.has(t, "a", "b", "c")
		l.release()
		if got := <-last; got.err != nil {
			t.Errorf("a command after resume: %v", got.err)
		}
	})
}
