package server_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// Every client that waits for a task gets its exit, also if another one that waited has disconnected, and if it
// waits after the end.
func TestWaitOfSeveralClients(t *testing.T) {
	r := newRig(t)
	gone, first, second := r.client(), r.client(), r.client()
	gate := filepath.Join(r.logs, "gate")
	s := r.spec("until [ -e " + gate + " ]; do sleep 0.01; done; exit 7")
	r.start(gone, s)
	lost := make(chan error, 1)
	go func() {
		_, err := gone.Wait(t.Context(), s.ID)
		lost <- err
	}()
	var waiting sync.WaitGroup
	codes := make([]int, 2)
	waiting.Go(func() { codes[0] = r.wait(first, s.ID).Code })
	testpace.Succeeds(t, "the task is known", func() error {
		_, err := second.Task(t.Context(), s.ID)
		return err
	})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-lost; err == nil {
		t.Error("the client that was closed got an exit")
	}
	waiting.Go(func() { codes[1] = r.wait(second, s.ID).Code })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if codes[0] != 7 || codes[1] != 7 {
		t.Errorf("exit codes %v, want 7 for both", codes)
	}
	if code := r.wait(second, s.ID).Code; code != 7 {
		t.Errorf("exit code %d after the end, want 7", code)
	}
}
