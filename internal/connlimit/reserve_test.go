package connlimit_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// TestReserve uses up the descriptors of this process: connections are refused at once, and served when descriptors are
// free again.
func TestReserve(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, text) //nolint:errcheck // the dialer checks it
			c.Close()
		}
	}
	r, err := connlimit.NewReserve(ln, answer("refused"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := r.Accept()
			switch {
			case err == nil:
				answer("served")(conn)
			case errors.Is(err, net.ErrClosed):
				return
			default:
				time.Sleep(time.Millisecond) // as the HTTP server does, between calls
			}
		}
	}()
	ask := func(conn *net.TCPConn) string {
		t.Helper()
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // sockets support deadlines
		text, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dial := func() *net.TCPConn {
		t.Helper()
		conn, err := net.DialTCP("tcp", nil, ln.Addr().(*net.TCPAddr))
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	if got := ask(dial()); got != "served" {
		t.Fatalf("answer = %q, want that of the server", got)
	}
	for range 3 {
		lift := exhaust(t)
		got := make(chan string, 1)
		conn := func() *net.TCPConn { // the descriptor of the dialer is one that was free
			lift.one()
			return dial()
		}()
		go func() { got <- ask(conn) }()
		select {
		case text := <-got:
			if text != "refused" {
				t.Errorf("answer without descriptors = %q, want a refusal", text)
			}
		case <-time.After(30 * time.Second):
			t.Error("no answer without descriptors")
		}
		lift.all()
		testpace.Until(t, "connections are served again", func() bool { return ask(dial()) == "served" })
	}
	ln.Close()
	<-ended
}

// files are open files that use up the descriptors.
type files struct {
	t    *testing.T
	open []*os.File
	old  unix.Rlimit
}

// exhaust lowers the limit of descriptors and opens files until none is free.
func exhaust(t *testing.T) *files {
	t.Helper()
	f := &files{t: t}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &f.old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: f.old.Max}); err != nil {
		t.Fatal(err)
	}
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return f
		}
		f.open = append(f.open, file)
	}
}

// one frees one descriptor.
func (f *files) one() {
	f.t.Helper()
	f.open[0].Close()
	f.open = f.open[1:]
}

// all frees all descriptors.
func (f *files) all() {
	f.t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &f.old); err != nil {
		f.t.Fatal(err)
	}
	for _, file := range f.open {
		file.Close()
	}
}
