package login_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/login"
)

// TestSecret checks that no verb prints a secret.
func TestSecret(t *testing.T) {
	s := login.NewSecret("canary")
	text := fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, struct{ S login.Secret }{s}, s, s, s, &s)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s)
	if text += log.String(); strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") {
		t.Errorf("the secret is printed: %s", text)
	}
	if s.Reveal() != "canary" || s.IsZero() || !login.NewSecret("").IsZero() {
		t.Errorf("Reveal() and IsZero() of %v, or of the empty secret, are wrong", s)
	}
}

// product counts the logouts of tokens.
type product struct {
	mu       sync.Mutex
	err      error
	attempts map[string]int
	dropped  map[string]int
}

func (p *product) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *product) count(id string) (attempts, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts[id], p.dropped[id]
}

func (p *product) token(id string, expires time.Time) login.Ended {
	return login.Ended{Alloc: "a1", ID: id, Since: time.Now(), Expires: expires,
		Logout: func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.attempts[id]++
			return p.err
		},
		Drop: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.dropped[id]++
		}}
}

// TestLogouts checks that a token is logged out once, at the earliest of its times, again after errors, and not after its own
// end or after a day.
func TestLogouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &product{attempts: map[string]int{}, dropped: map[string]int{}}
		q := login.NewLogouts(login.LogoutsConfig{Product: "X", Down: func(error) bool { return false },
			Redact: func(err error) error { return err }, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go q.Run(ctx)
		expect := func(id string, attempts, dropped int) {
			t.Helper()
			synctest.Wait()
			if a, f := p.count(id); a != attempts || f != dropped {
				t.Errorf("token %s: %d logouts, dropped %d times, want %d and %d", id, a, f, attempts, dropped)
			}
		}
		q.Add(time.Hour, p.token("twice", time.Time{}))
		q.Add(time.Minute, p.token("twice", time.Time{}))
		time.Sleep(59 * time.Second)
		expect("twice", 0, 0)
		time.Sleep(2 * time.Second)
		expect("twice", 1, 1)
		q.Add(time.Hour, p.token("early", time.Time{}))
		q.EndAll(ctx, "a1", []login.Ended{p.token("late", time.Time{})})
		expect("early", 1, 1)
		expect("late", 1, 1)
		time.Sleep(2 * time.Hour)
		expect("twice", 1, 1)
		expect("early", 1, 1)

		p.set(errors.New("not now"))
		q.Add(0, p.token("hour", time.Now().Add(time.Hour)), p.token("day", time.Time{}))
		time.Sleep(2 * time.Hour)
		if a, f := p.count("hour"); a < 10 || f != 1 {
			t.Errorf("token with an end: %d logouts, dropped %d times", a, f)
		}
		if a, f := p.count("day"); a < 20 || f != 0 {
			t.Errorf("token without an end: %d logouts, dropped %d times after 2 hours", a, f)
		}
		time.Sleep(23 * time.Hour)
		if _, f := p.count("day"); f != 1 {
			t.Errorf("token without an end: dropped %d times after a day", f)
		}
	})
}

// TestLogouts_Down checks that a logout which fails delays the older ones only if the product is down.
func TestLogouts_Down(t *testing.T) {
	errDown := errors.New("down")
	for name, c := range map[string]struct {
		err  error
		want int // logouts of the older token
	}{"one token": {errors.New("status 500"), 1}, "the product": {errDown, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &product{attempts: map[string]int{}, dropped: map[string]int{}}
				q := login.NewLogouts(login.LogoutsConfig{Product: "X", Down: func(err error) bool { return errors.Is(err, errDown) },
					Redact: func(err error) error { return err }, Log: slog.New(slog.DiscardHandler)})
				newer := p.token("newer", time.Time{})
				newer.Logout = func(context.Context) error { return c.err }
				q.Add(0, p.token("older", time.Time{}), newer)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go q.Run(ctx)
				time.Sleep(time.Hour)
				if got, _ := p.count("older"); got != c.want {
					t.Errorf("%d logouts of the older token in an hour, want %d", got, c.want)
				}
			})
		})
	}
}
