package monitor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/monitor"
)

// sink collects the payloads of a stream. hold, if set, blocks it.
type sink struct {
	hold chan struct{}

	mu       sync.Mutex
	payloads []string
}

func (s *sink) take(b []byte) error {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payloads = append(s.payloads, string(b))
	return nil
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.payloads, "")
}

// follow runs a monitor until the end of the test's bubble.
func follow(t *testing.T, s *monitor.Source, req message.MonitorRequest, to *sink) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Monitor(ctx, &req, to.take) }()
	synctest.Wait()
	return func() error { cancel(); return <-ended }
}

// Readers have levels and formats of their own. The agent's log is unchanged.
func TestMonitorLevelsAndFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var own bytes.Buffer
		s := monitor.New(monitor.Config{})
		log := s.Log(monitor.Format{Level: slog.LevelWarn}.Handler(&own)).With("node", "n1").WithGroup("g")
		log.Info("before any reader")
		info, trace, asJSON := &sink{}, &sink{}, &sink{}
		stops := []func() error{
			follow(t, s, message.MonitorRequest{PlainText: true}, info),
			follow(t, s, message.MonitorRequest{LogLevel: "trace", LogIncludeLocation: true, PlainText: true}, trace),
			follow(t, s, message.MonitorRequest{LogLevel: "ERROR", LogJSON: true, PlainText: true}, asJSON),
		}
		log.Log(t.Context(), monitor.LevelTrace, "tiny")
		log.Info("hello", "a", 1)
		log.Error("bad")
		synctest.Wait()
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Errorf("Monitor() = %v", err)
			}
		}
		log.Error("after the readers")
		if got := info.text(); !strings.Contains(got, " [INFO]  agent: hello: node=n1 g.a=1\n") || strings.Contains(got, "tiny") ||
			strings.Count(got, "\n") != 2 {
			t.Errorf("info reader got %q", got)
		}
		if got := trace.text(); !strings.Contains(got, " [TRACE] monitor/monitor_test.go:") || !strings.Contains(got, "monitor_test.go:") ||
			strings.Count(got, "\n") != 3 {
			t.Errorf("trace reader got %q", got)
		}
		var line struct {
			Level   string `json:"@level"`
			Message string `json:"@message"`
			Node    string
		}
		if err := json.Unmarshal([]byte(asJSON.text()), &line); err != nil || line.Level != "error" ||
			line.Message != "bad" || line.Node != "n1" {
			t.Errorf("JSON reader got %q, %v", asJSON.text(), err)
		}
		if got := own.String(); strings.Contains(got, "hello") || strings.Count(got, "\n") != 2 {
			t.Errorf("the agent's log is %q", got)
		}
	})
}

// A reader that does not read loses lines, and gets their number. Nothing waits for it.
func TestMonitorDropsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := monitor.New(monitor.Config{})
		log := s.Log(slog.DiscardHandler)
		slow := &sink{hold: make(chan struct{})}
		stop := follow(t, s, message.MonitorRequest{PlainText: true}, slow)
		log.Info("line")
		synctest.Wait() // the sink holds the first line
		for i := range 2000 {
			log.Info("line", "n", i)
		}
		close(slow.hold)
		time.Sleep(4 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		got := slow.text()
		if n := strings.Count(got, " agent: line"); n != 513 {
			t.Errorf("got %d lines, want 513", n)
		}
		if want := "[WARN] Monitor dropped 1488 logs during monitor request\n"; strings.Count(got, want) != 1 {
			t.Errorf("no %q in the last bytes: %q", want, got[len(got)-200:])
		}
	})
}

// JSON frames have at most 1,024 bytes of data. Quiet streams have heartbeats.
func TestMonitorFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := monitor.New(monitor.Config{})
		to := &sink{}
		stop := follow(t, s, message.MonitorRequest{}, to)
		s.Log(slog.DiscardHandler).Info("long", "text", strings.Repeat("x", 100_000))
		time.Sleep(2500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		beats, data := 0, ""
		for dec := json.NewDecoder(strings.NewReader(to.text())); ; {
			var frame message.StreamFrame
			if err := dec.Decode(&frame); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if len(frame.Data) > 1024 {
				t.Errorf("a frame has %d bytes", len(frame.Data))
			}
			if data += string(frame.Data); len(frame.Data) == 0 {
				beats++
			}
		}
		if beats != 3 || len(data) != 64<<10+1 || !strings.HasSuffix(data, "xx\n") {
			t.Errorf("%d heartbeats and %d bytes, want 3 and the cut line", beats, len(data))
		}
	})
}

func code(err error) int {
	if coded, ok := errors.AsType[*apierror.Coded](err); ok {
		return coded.Code
	}
	return 0
}

func TestMonitorRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := monitor.New(monitor.Config{})
		err := s.Monitor(t.Context(), &message.MonitorRequest{LogLevel: "loud"}, (&sink{}).take)
		if code(err) != 400 || !strings.Contains(err.Error(), "loud") {
			t.Errorf("unknown level: %v", err)
		}
		var stops []func() error
		for range 64 {
			stops = append(stops, follow(t, s, message.MonitorRequest{}, &sink{}))
		}
		if err := s.Monitor(t.Context(), &message.MonitorRequest{}, (&sink{}).take); code(err) != 429 {
			t.Errorf("the 65th reader: %v", err)
		}
		for _, stop := range stops {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		stop := follow(t, s, message.MonitorRequest{}, &sink{})
		if err := stop(); err != nil {
			t.Errorf("after the others have ended: %v", err)
		}
		broken := errors.New("gone")
		if err := s.Monitor(t.Context(), &message.MonitorRequest{}, func([]byte) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("a sink that fails: %v", err)
		}
	})
}

// Readers come and go while many goroutines log.
func TestMonitorRace(t *testing.T) {
	s := monitor.New(monitor.Config{})
	log := s.Log(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				log.With("a", 1).Info("line")
			}
		})
	}
	for range 8 {
		readers.Go(func() {
			for range 50 {
				enough := errors.New("enough")
				n := 0
				err := s.Monitor(ctx, &message.MonitorRequest{PlainText: true}, func([]byte) error {
					if n++; n > 3 {
						return enough
					}
					return nil
				})
				if !errors.Is(err, enough) {
					t.Errorf("Monitor() = %v", err)
					return
				}
			}
		})
	}
	readers.Wait()
	cancel()
	writers.Wait()
}

func exported(t *testing.T, s *monitor.Source, req message.MonitorExportRequest) (string, error) {
	t.Helper()
	to := &sink{}
	req.PlainText = true
	err := s.Export(t.Context(), &req, to.take)
	return to.text(), err
}

func TestExportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nomad.log")
	text := strings.Repeat("a line\n", 5000)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := monitor.New(monitor.Config{OpenLog: func() (*os.File, error) { return os.Open(path) }})
	if got, err := exported(t, s, message.MonitorExportRequest{OnDisk: true, NomadLogPath: "/etc/passwd"}); err != nil || got != text {
		t.Errorf("Export() = %d bytes, %v, want the %d of the file", len(got), err, len(text))
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	err = s.Export(t.Context(), &message.MonitorExportRequest{OnDisk: true, PlainText: true},
		func(b []byte) error { // the export itself makes the file grow
			n += len(b)
			_, err := f.Write(append(b, b...))
			return err
		})
	if err != nil || n != len(text) {
		t.Errorf("a file that grows: %d bytes, %v, want %d", n, err, len(text))
	}
	if _, err := exported(t, monitor.New(monitor.Config{}), message.MonitorExportRequest{OnDisk: true}); code(err) != 400 ||
		!strings.Contains(err.Error(), "No nomad log file defined") {
		t.Errorf("without a log file: %v", err)
	}
	pipe := monitor.New(monitor.Config{OpenLog: func() (*os.File, error) { return os.Open("/dev/null") }})
	if _, err := exported(t, pipe, message.MonitorExportRequest{OnDisk: true}); err == nil {
		t.Error("a device is exported as a log file")
	}
}

// journal returns a source whose journalctl is a shell script.
func journal(t *testing.T, script string) *monitor.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return monitor.New(monitor.Config{Journalctl: path})
}

func TestExportJournal(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "a secret of the agent")
	s := journal(t, `for a; do echo "[$a]"; done; env`)
	got, err := exported(t, s, message.MonitorExportRequest{ServiceName: "nomad@a.service", LogsSince: "1h30m", Follow: true})
	if err != nil || !strings.HasPrefix(got, "[-xu]\n[nomad@a.service]\n[--since]\n[5400 seconds ago]\n[--no-pager]\n[-f]\n") {
		t.Errorf("journalctl = %q, %v", got, err)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("journalctl has the environment of the agent: %q", got)
	}
	if _, err := exported(t, journal(t, "echo no such unit >&2; exit 3"), message.MonitorExportRequest{ServiceName: "nomad"}); err == nil ||
		!strings.Contains(err.Error(), "no such unit") {
		t.Errorf("a failed journalctl: %v", err)
	}
	missing := monitor.New(monitor.Config{Journalctl: filepath.Join(t.TempDir(), "none")})
	if _, err := exported(t, missing, message.MonitorExportRequest{ServiceName: "nomad"}); err == nil ||
		!strings.Contains(err.Error(), "export the journal") {
		t.Errorf("without journalctl: %v", err)
	}
}

// A followed journal ends with its caller, and so does the program.
func TestExportJournalEnds(t *testing.T) {
	s := journal(t, "echo $$\nexec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pid int
	err := s.Export(ctx, &message.MonitorExportRequest{ServiceName: "nomad", Follow: true, PlainText: true}, func(b []byte) error {
		_, err := fmt.Sscan(string(b), &pid)
		cancel()
		return err
	})
	if err != nil || pid == 0 {
		t.Fatalf("Export() = %v, process %d", err, pid)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

func TestExportRefusals(t *testing.T) {
	s := journal(t, "echo called")
	for name, c := range map[string]struct {
		req  message.MonitorExportRequest
		code int
		want string
	}{
		"nothing":         {message.MonitorExportRequest{}, 400, "Either -service-name or -on-disk must be set"},
		"both":            {message.MonitorExportRequest{OnDisk: true, ServiceName: "nomad"}, 400, "simultaneously"},
		"follow a file":   {message.MonitorExportRequest{OnDisk: true, Follow: true}, 400, "Cannot follow log file"},
		"age":             {message.MonitorExportRequest{ServiceName: "nomad", LogsSince: "yesterday"}, 400, "yesterday"},
		"negative age":    {message.MonitorExportRequest{ServiceName: "nomad", LogsSince: "-1h"}, 400, "-1h"},
		"another service": {message.MonitorExportRequest{ServiceName: "sshd.service"}, 422, "must contain nomad"},
		"pattern":         {message.MonitorExportRequest{ServiceName: "*nomad*"}, 422, "characters"},
		"space":           {message.MonitorExportRequest{ServiceName: "nomad --file=/etc/shadow"}, 422, "characters"},
		"shell":           {message.MonitorExportRequest{ServiceName: "nomad;id"}, 422, "characters"},
		"slash":           {message.MonitorExportRequest{ServiceName: "../nomad"}, 422, "suffix"},
		"suffix":          {message.MonitorExportRequest{ServiceName: "nomad.exe"}, 422, "suffix"},
		"newline":         {message.MonitorExportRequest{ServiceName: "nomad\n"}, 422, "characters"},
		"long":            {message.MonitorExportRequest{ServiceName: "nomad" + strings.Repeat("a", 256)}, 422, "255"},
	} {
		got, err := exported(t, s, c.req)
		if code(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) || got != "" {
			t.Errorf("%s: %q, %v, want %d with %q", name, got, err, c.code, c.want)
		}
	}
	for _, name := range []string{"nomad", "nomad.service", "my-nomad@1.service", `nomad\x2dclient.service`, "nomad.slice"} {
		if got, err := exported(t, s, message.MonitorExportRequest{ServiceName: name}); err != nil || got != "called\n" {
			t.Errorf("unit %s: %q, %v", name, got, err)
		}
	}
}
