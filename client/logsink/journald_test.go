package logsink_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// journal is a socket that receives entries as systemd-journald does.
type journal struct{ *net.UnixConn }

func newJournal(t *testing.T) (journal, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return journal{conn}, path
}

// entry reads one entry, from a datagram or a memory file.
func (j journal) entry(t *testing.T) map[string]string {
	t.Helper()
	buf, oob := make([]byte, 1<<20), make([]byte, 1024)
	if err := j.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, m, _, _, err := j.ReadMsgUnix(buf, oob)
	if err != nil {
		t.Fatal(err)
	}
	data := buf[:n]
	if m > 0 {
		messages, err := syscall.ParseSocketControlMessage(oob[:m])
		if err != nil {
			t.Fatal(err)
		}
		fds, err := syscall.ParseUnixRights(&messages[0])
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fds[0]), "entry")
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		data = make([]byte, info.Size())
		if _, err := f.ReadAt(data, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	fields := map[string]string{}
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		name, value, ok := strings.Cut(string(line), "=")
		if !ok {
			size := binary.LittleEndian.Uint64(rest)
			value, rest = string(rest[8:8+size]), rest[8+size+1:]
		}
		fields[name], data = value, rest
	}
	return fields
}

func TestJournal(t *testing.T) {
	j, path := newJournal(t)
	sink := logsink.NewJournal(path)
	src := source(t)
	for _, tc := range []struct {
		name, line, priority string
		stderr               bool
	}{
		{"standard output", "hello", "6", false},
		{"standard error", "a=b", "3", true},
		{"control characters", "a\nMESSAGE=forged\nPRIORITY=0", "6", false},
		{"too large for a datagram", strings.Repeat("x", 700_000), "6", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := make(chan error, 1)
			go func() {
				rejected, err := sink.Send(t.Context(), []logsink.Record{{Subject: &src.Subject, Stderr: tc.stderr, Line: []byte(tc.line)}})
				if rejected > 0 {
					t.Error("the line was rejected")
				}
				sent <- err
			}()
			select {
			case err := <-sent:
				if err != nil {
					t.Fatal(err)
				}
				sent <- nil
			case <-time.After(time.Second): // the journal has not read yet
			}
			got := j.entry(t)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"MESSAGE": tc.line, "PRIORITY": tc.priority, "SYSLOG_IDENTIFIER": "t",
				"NOMAD_JOB": "web", "NOMAD_ALLOC_ID": "alloc-id", "NOMAD_TASK": "t", "NOMAD_NAMESPACE": "default", "NOMAD_GROUP": "g"} {
				if got[name] != want {
					t.Errorf("%s = %.80q, want %.80q", name, got[name], want)
				}
			}
		})
	}
}

// A journal that is restarted gets the lines that it missed.
func TestJournalReturns(t *testing.T) {
	j, path := newJournal(t)
	src := source(t)
	s, _ := run(t, logsink.NewJournal(path))
	write(t, src, "t.stdout.0", "before\n")
	if err := src.follow(s, "rec"); err != nil {
		t.Fatal(err)
	}
	if got := j.entry(t)["MESSAGE"]; got != "before" {
		t.Fatalf("got %q", got)
	}
	j.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, src, "t.stdout.0", "meanwhile\n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testpace.Until(t, "the missed line", func() bool { return journal{conn}.entry(t)["MESSAGE"] == "meanwhile" })
}
