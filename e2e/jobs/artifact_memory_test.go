package jobs_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// growth is the maximum growth of the agent while artifacts attack it.
const growth = 32 << 20

// An endless body, headers without end, and archives that are bombs by their size and their count do not make the
// agent grow. The peak of its resident memory is measured by the kernel, so that no moment is missed.
func TestArtifactMemory(t *testing.T) {
	a := limitedAgent(t)
	s := attacker(t)
	attack := func(name, path, want string) {
		t.Helper()
		var blocks []string
		for i := range 3 { // as many as are downloaded at a time
			blocks = append(blocks, artifact(s.URL+path, fmt.Sprintf("destination = \"local/%d\"", i)))
		}
		status := "failed"
		if want == "" {
			status = "complete"
		}
		task := strings.Replace(harness.Shell("true", blocks...), "memory = 10", "memory = 64", 1)
		id, _ := harness.Run(t, a, harness.Job(name, `type = "batch"`, harness.Once+strings.Replace(task, `"raw_exec"`, `"exec2"`, 1)))
		al := harness.Await(t, a, id, status, 1)[0]
		if want == "" {
			return
		}
		if ev := harness.Event(t, al, "t", api.TaskArtifactDownloadFailed); !strings.Contains(ev.Details["download_error"], want) {
			t.Errorf("%s: event %q, want %q", name, ev.Details["download_error"], want)
		}
	}
	attack("warm", "/files.tar", "")
	resetPeak(t, a)
	before := residentPeak(t, a)
	for round := range 2 {
		for _, c := range []struct{ path, want string }{
			{"/endless", "larger than the limit of 67108864 bytes"}, {"/headers", "response headers exceeded"},
			{"/size.tar.gz", "larger than the limit of 67108864 bytes"},
			{"/count.tar", "more than 4096 entries"}, {"/files.tar", ""}, {"/large", ""},
		} {
			attack(fmt.Sprintf("attack%d%s", round, strings.ReplaceAll(c.path, "/", "-")), c.path, c.want)
		}
	}
	after := residentPeak(t, a)
	if after-before > growth {
		t.Errorf("the agent grew by %d MiB from %d MiB, want at most %d", (after-before)>>20, before>>20, growth>>20)
	}
	t.Logf("resident memory: %.1f MiB before, at most %.1f MiB during the attacks", float64(before)/(1<<20), float64(after)/(1<<20))
}

// limitedAgent is devAgent with small limits of artifacts.
func limitedAgent(t *testing.T) *cluster.Agent {
	t.Helper()
	cfg := filepath.Join(harness.TempDir(t), "limits.hcl")
	harness.WriteFile(t, cfg, "client {\n  artifact {\n    http_max_size = \"64MiB\"\n    decompression_size_limit = \"64MiB\"\n  }\n}\n")
	return harness.DevAgent(t, "-config="+cfg)
}

// attacker serves the attacks, and /files.tar and /large, which are good.
func attacker(t *testing.T) *httptest.Server {
	t.Helper()
	count, files, size := many(t, 5000), many(t, 4000), zeros(t, 1<<30)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			io.Copy(w, endless{}) //nolint:errcheck // until the client closes the connection
		case "/large":
			io.CopyN(w, endless{}, 60<<20) //nolint:errcheck // the client reports a short body
		case "/headers":
			for i := range 4096 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1024))
			}
		case "/count.tar":
			w.Write(count) //nolint:errcheck // the client reports a short body
		case "/files.tar":
			w.Write(files) //nolint:errcheck // as above
		case "/size.tar.gz":
			w.Write(size) //nolint:errcheck // as above
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// many returns an archive of n files in directories of 50.
func many(t *testing.T, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range n {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d/%s%d", i/50, strings.Repeat("n", 60), i), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zeros returns a compressed archive of one file of n zeros.
func zeros(t *testing.T, n int64) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: n}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, endless{}, n); err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{w, z} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// resetPeak sets the peak of the agent's resident memory to its present size (proc(5), clear_refs).
func resetPeak(t *testing.T, a *cluster.Agent) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", a.Pid()), []byte("5"), 0); err != nil {
		t.Skipf("needs a kernel that measures the peak of the resident memory: %v", err)
	}
}

// residentPeak returns the peak of the agent's resident memory in bytes.
func residentPeak(t *testing.T, a *cluster.Agent) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatal("the kernel does not report VmHWM")
	return 0
}
