package jobs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// anyFSM applies every entry, like a server with more features.
type anyFSM struct{}

func (anyFSM) Apply(*raft.Log) any                  { return nil }
func (anyFSM) ApplyBatch(entries []*raft.Log) []any { return make([]any, len(entries)) }
func (anyFSM) Snapshot() (raft.FSMSnapshot, error)  { return nil, errors.ErrUnsupported }
func (anyFSM) Restore(io.ReadCloser) error          { return errors.ErrUnsupported }

// An agent whose log contains an entry of an unsupported command ends with exit status 1 and an
// error that names the entry, at each start.
func TestUnsupportedEntryEndsAgent(t *testing.T) {
	bin, err := exec.LookPath("nomad")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	log, err := consensus.Open(consensus.Config{FSM: anyFSM{}, Dir: filepath.Join(data, "server"), Address: "127.0.0.1:4647", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	for leads := false; !leads; leads = <-log.Leadership() {
	}
	index, err := log.Apply(t.Context(), message.CommandType(66), map[string]any{})
	if err = errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	if index == 0 {
		t.Fatal("the entry has no index")
	}
	host, _, err := net.SplitHostPort(testnet.Take(t).Addr(4646))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, bin, "agent", "-server", "-bootstrap-expect=1", "-bind="+host, "-data-dir="+data).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("the agent ended with %v, want exit status 1", err)
		}
		for _, want := range []string{"has type 66 (unknown), which this version does not support", "upgrade this server"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
	}
}
