package exec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// caller is the remote end of a session.
type caller struct {
	*rpc.Stream
	ended chan error
}

// begin serves a session, as the node does, until the end of the test's bubble.
func begin(tty bool, run exec.Run) caller {
	local, far := rpc.Pipe()
	c := caller{local, make(chan error, 1)}
	go func() {
		defer far.Close()
		_, err := exec.Session{Command: []string{"x"}, Tty: tty, Run: run}.Serve(context.Background(), far)
		c.ended <- err
	}()
	return c
}

func (c caller) send(t *testing.T, msg message.ExecInput) {
	t.Helper()
	if err := c.Encode(&msg); err != nil {
		t.Error(err)
	}
}

// next returns the next message, or nil at the end.
func (c caller) next(t *testing.T) *message.ExecOutput {
	t.Helper()
	var w message.StreamErrWrapper
	if c.Decode(&w) != nil {
		return nil
	}
	out := new(message.ExecOutput)
	if err := json.Unmarshal(w.Payload, out); err != nil {
		t.Errorf("payload %q: %v", w.Payload, err)
	}
	return out
}

// copier returns its input, writes its length to stderr, and exits with 7.
func copier(_ context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	n, err := io.Copy(o.Stdout, o.Stdin)
	if err != nil {
		return nil, err
	}
	io.WriteString(o.Stderr, strings.Repeat("e", int(n%10)))
	return &drivers.ExitResult{ExitCode: 7}, nil
}

func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(false, copier)
		sent := bytes.Repeat([]byte("0123456789"), 100_003)
		go func() {
			for rest := sent; len(rest) > 0; {
				n := min(50_000, len(rest))
				c.send(t, message.ExecInput{Stdin: &message.ExecIO{Data: rest[:n]}})
				c.send(t, message.ExecInput{})
				rest = rest[n:]
			}
			c.send(t, message.ExecInput{Stdin: &message.ExecIO{Data: []byte("end"), Close: true}})
			c.send(t, message.ExecInput{Stdin: &message.ExecIO{Data: []byte("dropped")}})
		}()
		var got, errs []byte
		var last []string
		for msg := c.next(t); msg != nil; msg = c.next(t) {
			switch {
			case msg.Stdout != nil:
				if got = append(got, msg.Stdout.Data...); msg.Stdout.Close {
					last = append(last, "stdout")
				}
			case msg.Stderr != nil:
				if errs = append(errs, msg.Stderr.Data...); msg.Stderr.Close {
					last = append(last, "stderr")
				}
			case msg.Exited:
				if last = append(last, "exited"); msg.Result == nil || msg.Result.ExitCode != 7 {
					t.Errorf("result = %+v, want exit code 7", msg.Result)
				}
			}
		}
		if !bytes.Equal(got, append(sent, "end"...)) || string(errs) != "eee" || strings.Join(last, " ") != "stdout stderr exited" {
			t.Errorf("got %d bytes, %q, ends %v; want %d bytes, eee, stdout stderr exited", len(got), errs, last, len(sent)+3)
		}
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
}

// A failed start is the error of the call. No message was sent before.
func TestSessionThatDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := errors.New("no such program")
		c := begin(false, func(context.Context, *drivers.ExecOptions) (*drivers.ExitResult, error) { return nil, fault })
		if msg := c.next(t); msg != nil {
			t.Errorf("message = %+v", msg)
		}
		if err := <-c.ended; !errors.Is(err, fault) {
			t.Errorf("Serve() = %v, want %v", err, fault)
		}
	})
}

func TestTerminalSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan drivers.TerminalSize, 10)
		run := func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
			for {
				select {
				case size := <-o.Resize:
					seen <- size
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		c := begin(true, run)
		for _, size := range []message.ExecTerminalSize{{Height: 24, Width: 80}, {Height: 0, Width: 80}, {Height: -1, Width: -1},
			{Height: 1 << 30, Width: 3}} {
			c.send(t, message.ExecInput{TtySize: &size})
			synctest.Wait()
		}
		if a, b := <-seen, <-seen; a != (drivers.TerminalSize{Height: 24, Width: 80}) || b != (drivers.TerminalSize{Height: 65535, Width: 3}) ||
			len(seen) > 0 {
			t.Errorf("sizes %v %v and %d more", a, b, len(seen))
		}
		c.Close()
		if err := <-c.ended; !errors.Is(err, exec.ErrGone) {
			t.Errorf("Serve() = %v, want ErrGone", err)
		}
	})
}

// A program with a terminal gets its size before the start, or starts without it after a delay.
func TestTerminalSizeIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		started := make(chan time.Duration, 1)
		run := func(context.Context, *drivers.ExecOptions) (*drivers.ExitResult, error) {
			started <- time.Since(begun)
			return &drivers.ExitResult{}, nil
		}
		begin(true, run)
		if took := <-started; took != 250*time.Millisecond {
			t.Errorf("without a size it starts after %v", took)
		}
		begun = time.Now()
		begin(true, run).send(t, message.ExecInput{TtySize: &message.ExecTerminalSize{Height: 1, Width: 1}})
		if took := <-started; took != 0 {
			t.Errorf("with a size it starts after %v", took)
		}
		begun = time.Now()
		begin(false, run)
		if took := <-started; took != 0 {
			t.Errorf("without a terminal it starts after %v", took)
		}
	})
}

// A program whose caller does not read is blocked, with a limited amount of data in flight.
func TestSlowCallerStopsTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		run := func(_ context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
			for {
				n, err := o.Stdout.Write(make([]byte, 10_000))
				written.Add(int64(n))
				if err != nil {
					return nil, err
				}
			}
		}
		c := begin(false, run)
		time.Sleep(time.Hour)
		if n := written.Load(); n == 0 || n > 1<<20 {
			t.Errorf("%d bytes were written without a reader", n)
		}
		c.Close()
		if err := <-c.ended; !errors.Is(err, exec.ErrGone) {
			t.Errorf("Serve() = %v, want ErrGone", err)
		}
	})
}

// A caller whose program does not read is blocked. Its disconnect is still noticed.
func TestProgramThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(false, func(ctx context.Context, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		var sent atomic.Int64
		go func() {
			for c.Encode(&message.ExecInput{Stdin: &message.ExecIO{Data: make([]byte, 10_000)}}) == nil {
				sent.Add(10_000)
			}
		}()
		for range 3 { // probes of the caller
			if msg := c.next(t); msg == nil || *msg != (message.ExecOutput{}) {
				t.Fatalf("message = %+v", msg)
			}
		}
		if n := sent.Load(); n == 0 || n > 1<<20 {
			t.Errorf("%d bytes were accepted without a reader", n)
		}
		left := time.Now()
		c.Close()
		if err := <-c.ended; !errors.Is(err, exec.ErrGone) {
			t.Errorf("Serve() = %v, want ErrGone", err)
		}
		if took := time.Since(left); took > 10*time.Second {
			t.Errorf("the disconnect was noticed after %v", took)
		}
	})
}

// A message that is too large ends the session.
func TestHugeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(false, copier)
		go c.Encode(&message.ExecInput{Stdin: &message.ExecIO{Data: make([]byte, 2<<20)}}) //nolint:errcheck // the session ends
		if err := <-c.ended; !errors.Is(err, exec.ErrGone) {
			t.Errorf("Serve() = %v, want ErrGone", err)
		}
	})
}

func TestLimits(t *testing.T) {
	l := exec.NewLimits("exec sessions")
	var releases []func()
	for range exec.MaxPerAlloc {
		release, err := l.Take("a")
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := l.Take("a"); apierror.HTTPStatus(err) != 429 || !strings.Contains(err.Error(), "allocation a has 32 exec sessions") {
		t.Errorf("Take() = %v", err)
	}
	for i := exec.MaxPerAlloc; i < exec.MaxPerNode; i++ {
		if _, err := l.Take(string(rune('b' + i/exec.MaxPerAlloc))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Take("other"); apierror.HTTPStatus(err) != 429 || !strings.Contains(err.Error(), "the node has 256 exec sessions") {
		t.Errorf("Take() = %v", err)
	}
	releases[0]()
	releases[0]()
	if _, err := l.Take("a"); err != nil {
		t.Errorf("Take() after a release = %v", err)
	}
	if _, err := l.Take("other"); err == nil {
		t.Error("a double release is the end of two sessions")
	}
}
