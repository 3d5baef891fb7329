package agent_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/open-nomad/open-nomad/client/clienttest"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// The API of a restarted agent responds after the allocations are restored. An earlier request
// then gets the log of a task that was running during the restart.
func TestLogsRightAfterARestart(t *testing.T) {
	srv, _ := run(t, "-server", "-bootstrap-expect", "1", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-config", write(t, free))
	var leader string
	testpace.Until(t, "there is a leader", func() bool { return get(srv, "/v1/status/leader", &leader) == nil && leader != "" })
	args := []string{"-client", "-bind", "127.0.0.1", "-data-dir", clienttest.Dir(t), "-servers", leader,
		"-config", write(t, free+"plugin \"mock_driver\" {}\n")}
	cl, stop := run(t, args...)
	testpace.Until(t, "the node is ready", func() bool { return readyNodes(srv) == 1 })
	submit(t, srv, `{"run_for": "1h", "stdout_string": "hello"}`)
	testpace.Until(t, "the job runs", func() bool { return allocStatus(cl) == "running" })
	var allocs []struct{ ID string }
	if err := get(srv, "/v1/job/j/allocations", &allocs); err != nil {
		t.Fatal(err)
	}
	stop()

	cl, err := build(t, io.Discard, args...)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		status int
		text   string
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := http.Get("http://" + cl.Addr() + "/v1/client/fs/logs/" + allocs[0].ID + "?task=main&type=stdout&plain=true")
		if err != nil {
			answers <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		answers <- answer{resp.StatusCode, string(text), err}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cl.Run(ctx) }()
	if got := <-answers; got.err != nil || got.status != http.StatusOK || got.text != "hello" {
		t.Errorf("logs = %d %q, %v", got.status, got.text, got.err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
}
