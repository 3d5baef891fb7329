package jobs_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// sinkLines counts the lines that the sinks of a test received.
type sinkLines struct {
	mu      sync.Mutex
	journal map[string]int // by message and task
	otlp    map[string]int
}

func (s *sinkLines) get(of map[string]int, line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of[line]
}

// ServeHTTP is an OTLP collector.
func (s *sinkLines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := io.ReadAll(z)
	req := &collector.ExportLogsServiceRequest{}
	if err := errors.Join(err, proto.Unmarshal(raw, req)); err != nil || r.Header.Get("X-Team") != "web" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range req.ResourceLogs {
		for _, rec := range l.ScopeLogs[0].LogRecords {
			s.otlp[rec.Body.GetStringValue()]++
		}
	}
}

// readJournal reads datagrams as journald does.
func (s *sinkLines) readJournal(conn *net.UnixConn) {
	buf := make([]byte, 1<<20)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		fields := map[string]string{}
		for line := range strings.Lines(string(buf[:n])) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			fields[name] = value
		}
		s.mu.Lock()
		s.journal[fmt.Sprintf("%s %s %s %s", fields["NOMAD_JOB"], fields["NOMAD_TASK"], fields["PRIORITY"], fields["MESSAGE"])]++
		s.mu.Unlock()
	}
}

// The logs of a task reach journald and a collector: also what the task writes while the agent is down, and the rest
// after its end. Every line comes once. Another task sends nothing, and a job needs a node with its sinks.
func TestLogSinks(t *testing.T) {
	dir, gates := harness.TempDir(t), harness.TempDir(t)
	got := &sinkLines{journal: map[string]int{}, otlp: map[string]int{}}
	socket := filepath.Join(gates, "journal")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go got.readJournal(conn)
	server := httptest.NewServer(got)
	defer server.Close()
	cfg := filepath.Join(gates, "agent.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf(`plugin "raw_exec" {
  config {
    enabled = true
  }
}
client {
  log_sink "journald" {
    socket = %q
  }
  log_sink "otlp" {
    endpoint = "%s/v1/logs"
    headers {
      X-Team = "web"
    }
  }
}
`, socket, server.URL))
	options := cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}}
	a := harness.StartIn(t, options)
	defer func() { harness.PurgeAll(t, a) }()

	gate := func(name string) string {
		return "until [ -e " + filepath.Join(gates, name) + " ]; do sleep 0.05; done; "
	}
	script := "echo one; echo problem >&2; " + gate("down") + "echo two; touch " + filepath.Join(gates, "written") + "; " + gate("end") +
		"echo three; printf last"
	sinks := "privileged = true\nlogs {\n sinks = [\"journald\", \"otlp\"]\n}"
	harness.Run(t, a, harness.Job("web", `type = "batch"`, harness.Shell(script, sinks)))
	harness.Run(t, a, harness.Job("silent", `type = "batch"`, harness.Shell("echo silent", "privileged = true")))
	each := func(priority, line string) {
		t.Helper()
		key := "web t " + priority + " " + line
		testpace.Within(t, harness.Patience, "the line "+line,
			func() bool { return got.get(got.journal, key) > 0 && got.get(got.otlp, line) > 0 })
	}
	each("6", "one")
	each("3", "problem")

	if err := a.Stop(); err != nil {
		t.Logf("stop the agent: %v", err)
	}
	harness.WriteFile(t, filepath.Join(gates, "down"), "")
	testpace.Within(t, harness.Patience, "the task writes while no agent runs", func() bool {
		_, err := os.Stat(filepath.Join(gates, "written"))
		return err == nil
	})
	a = harness.Restart(t, a)
	each("6", "two")
	harness.WriteFile(t, filepath.Join(gates, "end"), "")
	each("6", "three")
	each("6", "last")
	for _, line := range []string{"one", "problem", "two", "three", "last"} {
		if n := got.get(got.otlp, line); n != 1 {
			t.Errorf("the collector got the line %s %d times", line, n)
		}
	}
	if n := got.get(got.otlp, "silent"); n != 0 {
		t.Error("a task without sinks sent its log")
	}
}
