package testconsul_test

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// self asks for the description of the agent in the background.
func self(c *api.Client) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Agent().Self()
		done <- err
	}()
	return done
}

// TestModes checks each failure, and that the agent serves again afterwards.
func TestModes(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{})
	c := client(t, a, "")
	must(t, a.Set(testconsul.Mode{Refuse: true}))
	if err := within(t, "refused", self(c)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refuse: error = %v", err)
	}
	must(t, a.Set(testconsul.Mode{Fail: true}))
	refused(t, "fail", within(t, "fail", self(c)), "500", "No cluster leader")

	must(t, a.Set(testconsul.Mode{Hang: true}))
	hung := self(c)
	testpace.Until(t, "the request", func() bool { return a.Calls("GET /v1/agent/self") == 2 })
	select {
	case err := <-hung:
		t.Errorf("hang: answer with error %v", err)
	default:
	}
	must(t, a.Set(testconsul.Mode{}))
	must(t, within(t, "hang", hung))

	must(t, a.Set(testconsul.Mode{Slow: 300 * time.Millisecond}))
	start := time.Now()
	must(t, within(t, "slow", self(c)))
	if got := time.Since(start); got < 300*time.Millisecond {
		t.Errorf("slow: answer after %v", got)
	}
}

// TestModes_HangingClient checks that a request whose client is gone has no effect.
func TestModes_HangingClient(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	must(t, a.Set(testconsul.Mode{Hang: true}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- client(t, a, "").Agent().ServiceRegisterOpts(webService(1), api.ServiceRegisterOpts{}.WithContext(ctx))
	}()
	testpace.Until(t, "the request", func() bool { return a.Calls("PUT /v1/agent/service/register") == 1 })
	cancel()
	if err := within(t, "register", done); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	must(t, a.Set(testconsul.Mode{}))
	if got := a.IDs(); len(got) > 0 {
		t.Errorf("IDs() = %q", got)
	}
}

// TestPollLimit checks that a long poll loses its connection, and a short one does not.
func TestPollLimit(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	must(t, a.Set(testconsul.Mode{PollLimit: time.Minute}))
	kv := client(t, a, "").KV()
	_, meta, err := kv.Get("a", nil)
	must(t, err)
	poll := func(wait time.Duration) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, _, err := kv.Get("a", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: wait})
			done <- err
		}()
		return done
	}
	for wait, cut := range map[time.Duration]bool{5 * time.Minute: true, 30 * time.Second: false} {
		done, err := poll(wait), error(nil)
		testpace.Until(t, "the answer", func() bool {
			select {
			case err = <-done:
				return true
			default:
				a.Advance(time.Minute)
				return false
			}
		})
		if got := errors.Is(err, io.EOF); got != cut {
			t.Errorf("wait of %v: error = %v, want a cut connection: %v", wait, err, cut)
		}
	}
}

// TestLostState checks what a restart and a lost data directory leave.
func TestLostState(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true, ACL: true})
	token := a.NewToken(t, `service_prefix "" { policy = "write" } node_prefix "" { policy = "read" } key_prefix "" { policy = "read" }`)
	c := client(t, a, token)
	for _, lose := range []func() error{func() error { a.LoseServices(); return nil }, a.Restart} {
		a.PutKey("a", "b")
		must(t, c.Agent().ServiceRegister(webService(1)))
		_, before, err := c.Catalog().Services(nil)
		must(t, err)
		must(t, lose())
		if got := a.IDs(); len(got) > 0 {
			t.Errorf("IDs() = %q", got)
		}
		services, after, err := c.Catalog().Services(nil)
		if must(t, err); len(services) != 1 {
			t.Errorf("Services() = %v, want only consul", services)
		}
		pair, _, err := c.KV().Get("a", nil)
		if must(t, err); (pair == nil) != (after.LastIndex < before.LastIndex) {
			t.Errorf("key = %v, index %d after %d", pair, after.LastIndex, before.LastIndex)
		}
	}
}
