package servertest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// IsCoded reports whether an error has the status and contains the text.
func IsCoded(err error, code int, text string) bool {
	var coded *apierror.Coded
	return errors.As(err, &coded) && coded.Code == code && strings.Contains(coded.Message, text)
}

// Global are the options of a read in the region "global".
var Global = message.QueryOptions{Region: "global"}

// WantError fails the test unless err has the status and contains the parts.
func WantError(t *testing.T, err error, code int, parts ...string) {
	t.Helper()
	var c *apierror.Coded
	if !errors.As(err, &c) || c.Code != code {
		t.Fatalf("error = %v, want status %d", err, code)
	}
	for _, p := range parts {
		if !strings.Contains(c.Message, p) {
			t.Errorf("error %q lacks %q", c.Message, p)
		}
	}
}

// Equal fails the test, which continues, unless got is want.
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// Eventually waits for a condition, which the reported line describes.
func Eventually(t *testing.T, holds func() bool) {
	t.Helper()
	testpace.Until(t, "the condition of this line", holds)
}

// Logger writes to the test's output if NOMAD_TEST_LOG is set.
func Logger() *slog.Logger {
	if os.Getenv("NOMAD_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Start runs a server until the test ends or stop is called.
func Start(t testing.TB, change func(*server.Config)) (s *server.Server, stop func()) {
	t.Helper()
	return StartLogging(t, change, Logger())
}

// StartLogging is Start with a log.
func StartLogging(t testing.TB, change func(*server.Config), log *slog.Logger) (s *server.Server, stop func()) {
	t.Helper()
	// Fake nodes send no heartbeats by themselves.
	cfg := server.Config{Region: "global", Datacenter: "dc1", Name: "test", RPCAddr: testnet.Any, Version: "2.0.6", HeartbeatGrace: time.Hour}
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// Context returns a context that ends with the test, or after two minutes.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// leadersLost is how many leader changes a test tolerates during one call.
const leadersLost = 5

// Retry repeats a call while no leader accepts it. Calls wait for a leader, but on a busy machine
// an election may take longer. It also tolerates some lost leaders: a test's writes may be
// applied twice.
func Retry(t testing.TB, call func(context.Context) error) error {
	t.Helper()
	ctx := Context(t)
	for lost := 0; ; {
		err := call(ctx)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, apierror.ErrMaybeApplied):
			if lost++; lost > leadersLost {
				return err
			}
		case !errors.Is(err, apierror.ErrNoLeader) && !errors.Is(err, apierror.ErrNotReady):
			return err
		}
	}
}

// Read makes an in-process read.
func Read[T any](t *testing.T, s *server.Server, method string, req any) T {
	t.Helper()
	var out T
	if err := Retry(t, func(ctx context.Context) error { return s.Call(ctx, method, req, &out) }); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return out
}
