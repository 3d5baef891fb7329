package jobs_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// slowServer sends the first quarter of 4 MiB, and the rest after release.
func slowServer(t *testing.T) (url string, release func()) {
	t.Helper()
	rest := make(chan struct{})
	release = sync.OnceFunc(func() { close(rest) })
	quarter := make([]byte, 1<<20)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(4*len(quarter)))
		w.Write(quarter) //nolint:errcheck // the client reports a short body
		w.(http.Flusher).Flush()
		select {
		case <-rest:
		case <-r.Context().Done():
			return
		}
		for range 3 {
			w.Write(quarter) //nolint:errcheck // as above
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(release)
	return s.URL, release
}

// The monitor of job run prints the progress of a long download, without credentials. With -detach, it does not.
func TestArtifactProgress(t *testing.T) {
	a := harness.DevAgent(t)
	defer harness.PurgeAll(t, a)
	url, release := slowServer(t)
	file := filepath.Join(harness.TempDir(t), "slow.nomad.hcl")
	source := strings.Replace(url, "://", "://user:passw0rd@", 1) + "/big?token=querytoken"
	const update = "update {\n min_healthy_time = \"0s\"\n healthy_deadline = \"50s\"\n progress_deadline = \"1m\"\n}"
	detached := filepath.Join(harness.TempDir(t), "detached.nomad.hcl")
	harness.WriteFile(t, file, harness.Job("slow", update, harness.Shell("sleep 1000", artifact(source))))
	harness.WriteFile(t, detached, harness.Job("detached", update, harness.Shell("sleep 1000", artifact(source))))
	out, err := harness.Command(t, a, "job", "run", "-detach", detached)
	if err != nil || strings.Contains(out, "ownloaded") {
		t.Fatalf("job run -detach = %v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "nomad", "job", "run", file)
	cmd.Env = append(os.Environ(), "NOMAD_ADDR="+a.Address())
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	progress := 0
	want := `, task "t": Downloaded 1 MiB of 4 MiB (25 %) from ` + url + "/big"
	for in := bufio.NewScanner(pipe); in.Scan(); {
		lines = append(lines, in.Text())
		if strings.HasSuffix(in.Text(), want) {
			progress++
			release()
		}
	}
	text := strings.Join(lines, "\n")
	if err := cmd.Wait(); err != nil || progress == 0 || !strings.Contains(text, "successful") {
		t.Errorf("job run = %v with %d lines that end with %q:\n%s", err, progress, want, text)
	}
	if n := strings.Count(text, "ownloaded"); n > 3 || strings.Contains(text, "passw0rd") || strings.Contains(text, "querytoken") {
		t.Errorf("%d lines of progress, want few ones without secrets:\n%s", n, text)
	}
}
