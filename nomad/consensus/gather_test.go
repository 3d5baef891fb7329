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
)

// slowLog is a log that applies commands when it is told to.
type slowLog struct {
	mu    sync.Mutex
	taken []string
	apply chan struct{} // closed by who lets go on
}

// slowFuture is the outcome of one command.
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

// release applies what is in the log, and holds what comes.
func (l *slowLog) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.apply)
	l.apply = make(chan struct{})
}

// has waits until everything that can happen now did, and compares.
func (l *slowLog) has(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.taken, want) {
		t.Errorf("the log was given %q, want %q", l.taken, want)
	}
}

// A lone command goes at once; those that come meanwhile go together when it was
// applied; each hears of its own outcome.
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
				t.Errorf("the outcome is %v", got)
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
				t.Errorf("the outcome %d is %v, want %v", i, got, want)
			}
		}
		synctest.Wait()
		if g.onWay != 0 || g.waiting != nil || g.late != nil {
			t.Errorf("in the end there is %+v", &g)
		}
	})
}

// Commands do not wait longer than holdFor for those before them.
func TestGatherHoldsNotForLong(t *testing.T) {
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
			t.Errorf("in the end there is %+v", &g)
		}
	})
}

// hungLog takes nothing, and says so when the time is over.
type hungLog struct{ slowFuture }

// Error implements raft.ApplyFuture.
func (hungLog) Error() error { return raft.ErrEnqueueTimeout }

// Those that wait for a log that hangs hear of it at the same time, not one after another.
func TestGatherWaitsForAHungLogOnce(t *testing.T) {
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
				t.Errorf("the outcome is %v", got)
			}
		}
		if took := time.Since(began); took > enqueueTimeout+2*holdFor {
			t.Errorf("they wait for %v, want %v", took, enqueueTimeout)
		}
	})
}

// Who was answered with many others is waited for, until most of them are there again
// or for half of the time that they took. Few are not waited for.
func TestGatherWaitsForMany(t *testing.T) {
	tests := map[string]struct {
		many, back int
		after      time.Duration // from the answer
		sent       int           // of those that came back
	}{
		"few":            {fewWriters, 1, 0, 1},
		"many":           {8, 5, 0, 0},
		"most are back":  {8, 6, 0, 6},
		"soon":           {8, 5, time.Millisecond - 1, 0},
		"not for long":   {8, 5, time.Millisecond, 5},
		"nobody is back": {8, 0, time.Second, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &slowLog{apply: make(chan struct{})}
				g := gather{log: l.log}
				g.onWay = 1 // of which they hear nothing
				want := make([]string, tt.many, tt.many+tt.back)
				for range want {
					g.add(nil)
				}
				go g.carry(g.landed(1, time.Millisecond))
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
					t.Errorf("in the end there is %+v", &g)
				}
			})
		})
	}
}
