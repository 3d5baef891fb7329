package sdk_test

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The SDK follows a log to its end: to the last line of a task that ends in the meantime, and
// through the complete log of one that ended before, even if it is empty.
func TestSDKFollowsLogToItsEnd(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(harness.TempDir(t), "gate")
	text := harness.Job("ends", `type = "batch"`, harness.Shell("echo one; until [ -e "+gate+" ]; do sleep 0.05; done; echo two"))
	parsed, err := c.Jobs().ParseHCL(text, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Jobs().Register(parsed, nil); err != nil {
		t.Fatal(err)
	}
	al := harness.Await(t, a, "ends", "running", 1)[0]
	alloc, _, err := c.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel := make(chan struct{})
	defer close(cancel)
	follow := func(kind string) io.ReadCloser {
		frames, errs := c.AllocFS().Logs(alloc, true, "t", kind, sdk.OriginStart, 0, cancel, nil)
		return sdk.NewFrameReader(frames, errs, make(chan struct{}))
	}
	running := follow(sdk.FSLogNameStdout)
	if err := firstOf(running, "one\n"); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, gate, "")
	toEnd(t, "of a running task", running, "two\n")
	harness.Await(t, a, "ends", "complete", 1)
	toEnd(t, "of a dead task", follow(sdk.FSLogNameStdout), "one\ntwo\n")
	if out, err := harness.Command(t, a, "alloc", "logs", "-f", al.ID); err != nil || out != "one\ntwo\n" {
		t.Errorf("alloc logs -f of a dead task: %q, %v", out, err)
	}
	toEnd(t, "without output", follow(sdk.FSLogNameStderr), "")
}

// toEnd expects that a stream ends after want.
func toEnd(t *testing.T, name string, in io.Reader, want string) {
	t.Helper()
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(in)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		if r.err != nil || string(r.text) != want {
			t.Errorf("log %s: %q, %v, want %q", name, r.text, r.err, want)
		}
	case <-time.After(harness.Patience):
		t.Fatalf("the log %s does not end", name)
	}
}
