package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// saved returns an archive of a server's state. It waits for a leader.
func saved(t testing.TB, s *server.Server) (raw []byte) {
	t.Helper()
	err := led(t, func(context.Context) (err error) {
		raw, err = savedWith(t, s, message.QueryOptions{Region: "global"})
		return err
	})
	if err != nil {
		t.Fatalf("Operator.SnapshotSave: %v", err)
	}
	return raw
}

// restore sends an archive in small pieces and returns the error of the answer. It repeats the
// restore if the leader was lost.
func restore(t testing.TB, open func() (*rpc.Stream, error), raw []byte, end string) error {
	t.Helper()
	return led(t, func(context.Context) error { return restoreOnce(t, open, raw, end) })
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
			if st.Encode(&nomad.StreamErrWrapper{Payload: rest[:n]}) != nil {
				return
			}
			rest = rest[n:]
		}
		st.Encode(&nomad.StreamErrWrapper{Error: &nomad.RpcError{Message: end}})
	}()
	var reply message.SnapshotRestoreResponse
	if err := st.Decode(&reply); err != nil {
		t.Fatalf("Operator.SnapshotRestore: %v", err)
	}
	if reply.ErrorMsg != "" {
		return fmt.Errorf("%d %w", reply.ErrorCode, nomad.ErrorFromText(reply.ErrorMsg))
	}
	return nil
}

// savedWith returns an archive with query options, or the error.
func savedWith(t testing.TB, s *server.Server, q message.QueryOptions) ([]byte, error) {
	t.Helper()
	st, err := s.Stream(within(t), "Operator.SnapshotSave")
	if err != nil {
		return nil, err
	}
	defer st.Close()
	var reply message.SnapshotSaveResponse
	if err := errors.Join(st.Encode(&message.SnapshotSaveRequest{QueryOptions: q}), st.Decode(&reply)); err != nil {
		return nil, err
	}
	if reply.ErrorMsg != "" {
		return nil, fmt.Errorf("%d %w", reply.ErrorCode, nomad.ErrorFromText(reply.ErrorMsg))
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

func inProcess(t testing.TB, s *server.Server) func() (*rpc.Stream, error) {
	return func() (*rpc.Stream, error) { return s.Stream(t.Context(), "Operator.SnapshotRestore") }
}

// contents returns the records of an archive by type, without table indexes.
func contents(t testing.TB, raw []byte) map[string][]string {
	t.Helper()
	a, err := snapshot.Open(bytes.NewReader(raw), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	out := map[string][]string{}
	err = a.Records(func(r snapshot.Record) error {
		if r.Name != "Index" {
			text, err := json.Marshal(r.Value)
			out[r.Name] = append(out[r.Name], string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// whoAmI returns the identity of a token's holder.
func whoAmI(t *testing.T, s *server.Server, token string) (*acls.AuthenticatedIdentity, error) {
	t.Helper()
	var out acls.WhoAmIResponse
	err := s.Call(within(t), "ACL.WhoAmI", &message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token}}, &out)
	return out.Identity, err
}

func serviceJob(id string) *nomad.Job {
	j := batchJob(id, 2)
	j.Type, j.Update = nomad.JobTypeService, nomad.UpdateStrategy{MaxParallel: 1}
	j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1, HealthCheck: "task_states", MinHealthyTime: time.Second, HealthyDeadline: time.Minute, ProgressDeadline: time.Hour}
	return j
}

func TestSnapshotRoundTrip(t *testing.T) {
	for _, kind := range []string{"disk", "memory"} {
		t.Run(kind, func(t *testing.T) {
			dir := ""
			if kind == "disk" {
				dir = t.TempDir()
			}
			configure := func(c *server.Config) { c.DataDir = dir }
			s, stop := start(t, configure)
			n := join(t, s.RPCAddr())
			register(t, s, serviceJob("web"))
			allocs := n.allocs(2)
			token := allocs[0].SignedIdentities["t"]
			if _, err := whoAmI(t, s, token); err != nil {
				t.Fatal(err)
			}
			raw := saved(t, s)

			// Later changes are reverted.
			register(t, s, batchJob("later", 1))
			n.allocs(3)
			n.report(nomad.AllocClientStatusFailed, allocs...)
			if _, err := whoAmI(t, s, token); err == nil {
				t.Fatal("the allocation still exists")
			}
			watched := make(chan message.JobListResponse, 1)
			from := read[message.JobListResponse](t, s, "Job.List", &message.JobListRequest{QueryOptions: message.QueryOptions{Region: "global"}}).Index
			go func() {
				var out message.JobListResponse
				req := &message.JobListRequest{QueryOptions: message.QueryOptions{Region: "global", MinQueryIndex: from, MaxQueryTime: time.Minute}}
				led(t, func(ctx context.Context) error { return s.Call(ctx, "Job.List", req, &out) })
				watched <- out
			}()
			if err := restore(t, inProcess(t, s), raw, "EOF"); err != nil {
				t.Fatal(err)
			}
			select {
			case out := <-watched:
				if len(out.Jobs) != 1 || out.Index <= from {
					t.Errorf("a blocking query sees %d jobs at %d, waited from %d", len(out.Jobs), out.Index, from)
				}
			case <-time.After(2 * time.Minute):
				t.Error("a blocking query did not return")
			}
			id, err := whoAmI(t, s, token)
			if err != nil || id.Claims == nil || id.Claims.WorkloadIdentityClaims == nil || id.Claims.AllocationID != allocs[0].ID {
				t.Errorf("the earlier token: %+v, %v", id, err)
			}
			want := contents(t, raw)
			for _, name := range []string{"Node", "NodePool", "Job", "Eval", "Alloc", "JobSummary", "JobVersion", "Deployment", "Namespace", "SchedulerConfig", "ClusterMetadata", "RootKey"} {
				if len(want[name]) == 0 {
					t.Errorf("the archive has no %s", name)
				}
			}
			check := func(s *server.Server) {
				t.Helper()
				got := contents(t, saved(t, s))
				for name, rows := range want {
					if name != "Eval" && name != "Node" && fmt.Sprintf("%q", got[name]) != fmt.Sprintf("%q", rows) {
						t.Errorf("%s after the restore differs from the archive:\n%q\n%q", name, got[name], rows)
					}
				}
			}
			check(s)

			// A later request of a node with an old index returns at once.
			var list message.NodeClientAllocsResponse
			n.must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.node.ID, SecretID: n.node.SecretID, QueryOptions: message.QueryOptions{
				Region: "global", AuthToken: n.jwt, MinQueryIndex: from, MaxQueryTime: time.Minute}}, &list)
			if len(list.Allocs) != 2 || list.Index <= from {
				t.Errorf("the node has %d allocations at %d, index in the request %d", len(list.Allocs), list.Index, from)
			}

			// The server continues: the restored node gets work.
			n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.write(n.jwt)}, nil)
			register(t, s, batchJob("next", 1))
			n.allocs(3)
			if dir == "" {
				return
			}
			stop()
			again, _ := start(t, configure)
			if got := read[message.SingleJobResponse](t, again, "Job.GetJob", jobRead("next")); got.Job == nil {
				t.Error("after a restart a job registered after the restore is lost")
			}
			if _, err := whoAmI(t, again, token); err != nil {
				t.Errorf("the earlier token after a restart: %v", err)
			}
		})
	}
}

// TestSnapshotToAnotherServer moves a cluster: the restored root key signs and verifies there.
func TestSnapshotToAnotherServer(t *testing.T) {
	one, _ := start(t, nil)
	n := join(t, one.RPCAddr())
	register(t, one, batchJob("b", 1))
	token := n.allocs(1)[0].SignedIdentities["t"]
	raw := saved(t, one)

	two, _ := start(t, func(c *server.Config) { c.DataDir = t.TempDir() })
	if _, err := whoAmI(t, two, token); !errors.Is(err, nomad.ErrPermissionDenied) {
		t.Errorf("another cluster's token: %v", err)
	}
	n.addr = two.RPCAddr()
	if err := restore(t, func() (*rpc.Stream, error) {
		return n.pool.Stream(t.Context(), two.RPCAddr(), "Operator.SnapshotRestore")
	}, raw, "EOF"); err != nil {
		t.Fatal(err)
	}
	if _, err := whoAmI(t, two, token); err != nil {
		t.Errorf("the token after the restore: %v", err)
	}
	n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.write(n.jwt)}, nil)
	register(t, two, batchJob("c", 1))
	allocs := n.allocs(2)
	for _, a := range allocs {
		if _, err := whoAmI(t, two, a.SignedIdentities["t"]); err != nil {
			t.Errorf("a token of %s: %v", a.JobID, err)
		}
	}
}

// unzip returns the contents of a gzip file, as far as it is readable.
func unzip(raw []byte) []byte {
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		return nil
	}
	return text
}

// TestBadSnapshotChangesNothing restores invalid archives.
func TestBadSnapshotChangesNothing(t *testing.T) {
	s, _ := start(t, func(c *server.Config) { c.DataDir, c.Workers = t.TempDir(), -1 })
	register(t, s, batchJob("before", 1))
	raw := saved(t, s)
	register(t, s, batchJob("after", 1))
	want := fmt.Sprint(contents(t, saved(t, s)))
	refused := func(what string, bad []byte, end string) {
		t.Helper()
		if err := restore(t, inProcess(t, s), bad, end); err == nil {
			t.Fatalf("%s is accepted", what)
		} else if !strings.Contains(err.Error(), "snapshot archive: ") || !strings.HasPrefix(err.Error(), "400 ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for at := 16; at < len(raw); at += max(1, len(raw)/40) {
		bad := bytes.Clone(raw)
		bad[at] ^= 0x55
		if !bytes.Equal(unzip(bad), unzip(raw)) { // a few bits of gzip are insignificant
			refused(fmt.Sprintf("an archive with byte %d of %d altered", at, len(raw)), bad, "EOF")
		}
		refused(fmt.Sprintf("%d of %d bytes", at, len(raw)), raw[:at], "EOF")
	}
	refused("nothing", nil, "EOF")
	refused("an upload that failed", raw, "upload incomplete")
	if got := fmt.Sprint(contents(t, saved(t, s))); got != want {
		t.Error("a refused archive changed something")
	}
	if got := read[message.SingleJobResponse](t, s, "Job.GetJob", jobRead("after")); got.Job == nil {
		t.Error("a job is lost")
	}
	if err := restore(t, inProcess(t, s), raw, "EOF"); err != nil {
		t.Errorf("the valid one: %v", err)
	}
	if got := read[message.SingleJobResponse](t, s, "Job.GetJob", jobRead("after")); got.Job != nil {
		t.Error("the valid one changed nothing")
	}
}

// TestRestoreUnderLoad registers jobs while archives are restored. The server continues, and
// has everything that it acknowledged after the last restore.
func TestRestoreUnderLoad(t *testing.T) {
	s, _ := start(t, nil)
	n := join(t, s.RPCAddr())
	raw := saved(t, s)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			j := batchJob(fmt.Sprint("load", i%20), 1) // the node has resources for one more

			// The restore may abort it.
			s.Call(t.Context(), "Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
		}
	}()
	for range 10 {
		if err := restore(t, inProcess(t, s), raw, "EOF"); err != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	<-done
	n.must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.node.ID, Status: nomad.NodeStatusReady, WriteRequest: n.write(n.jwt)}, nil)
	register(t, s, batchJob("last", 1))
	for ctx := within(t); ; {
		summary := read[message.JobSummaryResponse](t, s, "Job.Summary", &message.JobSummaryRequest{JobID: "last", QueryOptions: message.QueryOptions{Region: "global"}})
		if summary.JobSummary != nil && summary.JobSummary.Summary["g"].Starting == 1 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the job is not placed: %+v", summary.JobSummary)
		}
	}
}
