package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// newStream returns a pump that does not run yet, and the write end of its pipe.
func newStream(t testing.TB, maxBytes int64) (p *pump, task *os.File, logs string) {
	t.Helper()
	logs = t.TempDir()
	l := proc.Logs{Root: logs, Name: "t", MaxFiles: 10, MaxBytes: maxBytes}
	x, err := openIndex(l, InheritNothing)
	if err != nil {
		t.Fatal(err)
	}
	to, err := newRotator(l, "stdout", x)
	if err != nil {
		t.Fatal(err)
	}
	pipe, task, err := os.Pipe() // nonblocking, as Go makes them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { task.Close() })
	return newPump(pipe, to), task, logs
}

// collected returns the content of all files of a log.
func collected(t *testing.T, logs string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(logs, "t.stdout.?"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range names {
		part, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(part)
	}
	return b.String()
}

// TestCutOffStreamIsWhole stops a pump before it ran at all, as on a machine slower than patience.
// Everything written so far is kept, though another process keeps the pipe open.
func TestCutOffStreamIsWhole(t *testing.T) {
	for name, splices := range map[string]bool{"spliced": true, "copied": false} {
		t.Run(name, func(t *testing.T) {
			p, task, logs := newStream(t, 700)
			p.to.copy = !splices
			want := strings.Repeat("one line\n", 400)
			if _, err := task.WriteString(want); err != nil {
				t.Fatal(err)
			}
			if err := p.pipe.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			p.run()
			if got := collected(t, logs); got != want || p.err != nil {
				t.Errorf("the log has %d bytes, %v, want %d", len(got), p.err, len(want))
			}
		})
	}
}

// TestEndlessWriterIsCutOff has a process that outlived the task write without end.
func TestEndlessWriterIsCutOff(t *testing.T) {
	p, task, logs := newStream(t, 1<<20)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for {
			if _, err := task.WriteString(strings.Repeat("x", 4096)); err != nil {
				return // nobody reads any more
			}
		}
	}()
	go p.run()
	p.finish(0)
	<-written
	if p.err != nil {
		t.Errorf("pump: %v", p.err)
	}
	if got := collected(t, logs); strings.Trim(got, "x") != "" {
		t.Error("the log holds bytes that were never written")
	}
}

// TestFailedWriteIsTriedAgain has a copied stream whose file cannot be written to for a while: no
// byte is dropped.
func TestFailedWriteIsTriedAgain(t *testing.T) {
	p, task, logs := newStream(t, 1<<20)
	p.to.copy = true
	if _, err := task.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	good := p.to.file
	bad, err := os.Open(os.DevNull) // read-only
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	var n int64
	p.to.file = bad
	withPipe(t, p, func(fd int) { n, err = p.to.take(fd) })
	if n != 0 || err == nil {
		t.Fatalf("take() = %d, %v, want an error", n, err)
	}
	p.to.file = good
	task.Close()
	p.run()
	if got := collected(t, logs); got != "hello" || p.err != nil {
		t.Errorf("the log is %q, %v, want hello", got, p.err)
	}
}

// TestBusyStream waits for output in the kernel: for a limited time, until there is some, and until the last writer is gone.
func TestBusyStream(t *testing.T) {
	p, task, logs := newStream(t, 1<<20)
	defer p.close()
	take := func() (n int64, err error) {
		withPipe(t, p, func(fd int) { n, err = p.takeBusy(fd) })
		return n, err
	}
	if n, err := take(); n != 0 || err != unix.EAGAIN {
		t.Errorf("takeBusy() of an empty pipe = %d, %v, want EAGAIN", n, err)
	}
	go task.WriteString("hello")
	testpace.Until(t, "the output", func() bool {
		n, err := take()
		if err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return n == 5
	})
	task.Close()
	if n, err := take(); n != 0 || err != nil {
		t.Errorf("takeBusy() after the last writer = %d, %v, want the end", n, err)
	}
	if got := collected(t, logs); got != "hello" {
		t.Errorf("the log is %q, want hello", got)
	}
}

// TestSmallWritesAreNotBusy: after a small move, the next moves are those of other streams, whatever their size.
func TestSmallWritesAreNotBusy(t *testing.T) {
	if busy, pause := next(busyBytes, 0); !busy || pause != 0 {
		t.Errorf("next() after a large move = %t, %d, want busy", busy, pause)
	}
	busy, pause := next(1, 0)
	for range busyPause {
		if busy || pause == 0 {
			t.Fatalf("busy %t, %d moves after a small one", busy, busyPause-pause)
		}
		busy, pause = next(busyBytes, pause)
	}
	if busy, _ := next(busyBytes, pause); pause != 0 || !busy {
		t.Errorf("%d moves after a small one: pause %d, want busy", busyPause, pause)
	}
}

func withPipe(t *testing.T, p *pump, f func(fd int)) {
	t.Helper()
	conn, err := p.pipe.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { f(int(fd)) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The descriptors of the pipes keep the order of the streams if one of them has ended.
func TestDescriptors(t *testing.T) {
	pipe, task, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := proc.Logs{Root: t.TempDir(), Name: "t", MaxFiles: 1, MaxBytes: 1}
	c, err := Start(l, Pipes{nil, pipe}, InheritNothing, func(string, error) {})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Descriptors(); len(got) != 2 || got[0] != -1 || got[1] < 0 {
		t.Errorf("Descriptors() = %v, want -1 and a descriptor", got)
	}
	task.Close()
	if err := c.Finish(time.Minute); err != nil {
		t.Errorf("Finish() = %v", err)
	}
}
