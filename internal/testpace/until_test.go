package testpace_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// ended is a test that records how it failed.
type ended struct {
	testing.TB
	message string
}

func (e *ended) Helper() {}

func (e *ended) Fatalf(format string, args ...any) {
	e.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails runs a wait on synthetic time, and returns how it failed and after how long.
func fails(t *testing.T, wait func(testing.TB)) (message string, took time.Duration) {
	synctest.Test(t, func(*testing.T) {
		e, begun, done := &ended{}, time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			wait(e)
		}()
		<-done
		message, took = e.message, time.Since(begun)
	})
	return message, took
}

func TestConditionIsMet(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, 119 * time.Second} {
		var begun time.Time
		due := func() bool { return time.Since(begun) >= after }
		for name, wait := range map[string]func(testing.TB){
			"Until":  func(tb testing.TB) { testpace.Until(tb, "it", due) },
			"Within": func(tb testing.TB) { testpace.Within(tb, 2*time.Minute, "it", due) },
			"Succeeds": func(tb testing.TB) {
				testpace.Succeeds(tb, "it", func() error {
					if !due() {
						return errors.New("not yet")
					}
					return nil
				})
			},
		} {
			message, took := fails(t, func(tb testing.TB) { begun = time.Now(); wait(tb) })
			if message != "" || took < after || took > after+20*time.Millisecond {
				t.Errorf("%s, after %v: %q after %v", name, after, message, took)
			}
		}
	}
}

func TestConditionIsNeverMet(t *testing.T) {
	for name, c := range map[string]struct {
		wait  func(testing.TB)
		limit time.Duration
		want  string
	}{
		"Until":  {func(tb testing.TB) { testpace.Until(tb, "the end", func() bool { return false }) }, 2 * time.Minute, "the end"},
		"Within": {func(tb testing.TB) { testpace.Within(tb, time.Second, "the end", func() bool { return false }) }, time.Second, "the end"},
		"Succeeds": {func(tb testing.TB) { testpace.Succeeds(tb, "the call", func() error { return errors.New("refused") }) }, 2 * time.Minute,
			"the call: refused"},
	} {
		message, took := fails(t, c.wait)
		if !strings.Contains(message, c.want) || took < c.limit || took > c.limit+40*time.Millisecond {
			t.Errorf("%s: %q after %v, want a message with %q after %v", name, message, took, c.want, c.limit)
		}
	}
}
