package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// Save returns an archive of a server's state. It waits for a leader.
func Save(t testing.TB, s *server.Server) (raw []byte) {
	t.Helper()
	err := Retry(t, func(context.Context) (err error) {
		raw, err = SaveWith(t, s, message.QueryOptions{Region: "global"})
		return err
	})
	if err != nil {
		t.Fatalf("Operator.SnapshotSave: %v", err)
	}
	return raw
}

// Restore sends an archive in small pieces and returns the error of the answer. It repeats the
// restore if the leader was lost.
func Restore(t testing.TB, open func() (*rpc.Stream, error), raw []byte, end string) error {
	t.Helper()
	return Retry(t, func(context.Context) error { return restoreOnce(t, open, raw, end) })
}

func restoreOnce(t testing.TB, open func() (*rpc.Stream, error), raw []byte, end string) error {
	t.Helper()
	st, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Encode(&message.SnapshotRestoreRequest{WriteRequest: message.WriteRequest{Region: "global"}}); err != nil {
		t.Fatal(err)
	}
	go func() { // a refusal may arrive before all data is sent
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), 64<<10)
			if st.Encode(&message.StreamErrWrapper{Payload: rest[:n]}) != nil {
				return
			}
			rest = rest[n:]
		}
		st.Encode(&message.StreamErrWrapper{Error: &message.RpcError{Message: end}})
	}()
	var reply message.SnapshotRestoreResponse
	if err := st.Decode(&reply); err != nil {
		t.Fatalf("Operator.SnapshotRestore: %v", err)
	}
	if reply.ErrorMsg != "" {
		return fmt.Errorf("%d %w", reply.ErrorCode, apierror.FromText(reply.ErrorMsg))
	}
	return nil
}

// SaveWith returns an archive with query options, or the error.
func SaveWith(t testing.TB, s *server.Server, q message.QueryOptions) ([]byte, error) {
	t.Helper()
	st, err := s.Stream(Context(t), "Operator.SnapshotSave")
	if err != nil {
		return nil, err
	}
	defer st.Close()
	var reply message.SnapshotSaveResponse
	if err := errors.Join(st.Encode(&message.SnapshotSaveRequest{QueryOptions: q}), st.Decode(&reply)); err != nil {
		return nil, err
	}
	if reply.ErrorMsg != "" {
		return nil, fmt.Errorf("%d %w", reply.ErrorCode, apierror.FromText(reply.ErrorMsg))
	}
	raw, err := io.ReadAll(st)
	if err != nil {
		return nil, err
	}
	if digest, err := snapshot.Digest(bytes.NewReader(raw)); err != nil || digest != reply.SnapshotChecksum {
		t.Errorf("the digest is %q, the answer has %q", digest, reply.SnapshotChecksum)
	}
	return raw, nil
}

// RestoreStream opens streams for restores in the process of the server.
func RestoreStream(t testing.TB, s *server.Server) func() (*rpc.Stream, error) {
	return func() (*rpc.Stream, error) { return s.Stream(t.Context(), "Operator.SnapshotRestore") }
}

// State returns the state of a server from a snapshot.
func State(t *testing.T, s *server.Server) []byte {
	t.Helper()
	f, _, err := s.Save(Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := snapshot.Open(f, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	state, err := a.State()
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(state)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
