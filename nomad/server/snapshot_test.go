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
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

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
func whoAmI(t *testing.T, s *server.Server, token string) (*rbac.AuthenticatedIdentity, error) {
	t.Helper()
	var out message.ACLWhoAmIResponse
	err := s.Call(servertest.Context(t), "ACL.WhoAmI",
		&message.GenericRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: token}}, &out)
	return out.Identity, err
}

func TestSnapshot_RoundTrip(t *testing.T) {
	for _, kind := range []string{"disk", "memory"} {
		t.Run(kind, func(t *testing.T) {
			dir := ""
			if kind == "disk" {
				dir = t.TempDir()
			}
			configure := func(c *server.Config) { c.DataDir = dir }
			s, stop := servertest.Start(t, configure)
			n := servertest.Join(t, s.RPCAddr())
			servertest.Register(t, s, servertest.ServiceJob("web"))
			allocs := n.Allocs(2)
			token := allocs[0].SignedIdentities["t"]
			if _, err := whoAmI(t, s, token); err != nil {
				t.Fatal(err)
			}
			raw := servertest.Save(t, s)

			// Later changes are reverted.
			servertest.Register(t, s, servertest.BatchJob("later", 1))
			n.Allocs(3)
			n.Report(nomad.AllocClientStatusFailed, allocs...)
			if _, err := whoAmI(t, s, token); err == nil {
				t.Fatal("the allocation still exists")
			}
			watched := make(chan message.JobListResponse, 1)
			from := servertest.Read[message.JobListResponse](t, s, "Job.List",
				&message.JobListRequest{QueryOptions: message.QueryOptions{Region: "global"}}).Index
			go func() {
				var out message.JobListResponse
				req := &message.JobListRequest{QueryOptions: message.QueryOptions{Region: "global", MinQueryIndex: from, MaxQueryTime: time.Minute}}
				servertest.Retry(t, func(ctx context.Context) error { return s.Call(ctx, "Job.List", req, &out) })
				watched <- out
			}()
			if err := servertest.Restore(t, servertest.RestoreStream(t, s), raw, "EOF"); err != nil {
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
			for _, name := range []string{"Node", "NodePool", "Job", "Eval", "Alloc", "JobSummary", "JobVersion", "Deployment", "Namespace",
				"SchedulerConfig", "ClusterMetadata", "RootKey"} {
				if len(want[name]) == 0 {
					t.Errorf("the archive has no %s", name)
				}
			}
			check := func(s *server.Server) {
				t.Helper()
				got := contents(t, servertest.Save(t, s))
				for name, rows := range want {
					if name != "Eval" && name != "Node" && fmt.Sprintf("%q", got[name]) != fmt.Sprintf("%q", rows) {
						t.Errorf("%s after the restore differs from the archive:\n%q\n%q", name, got[name], rows)
					}
				}
			}
			check(s)

			// A later request of a node with an old index returns at once.
			var list message.NodeClientAllocsResponse
			n.Must("Node.GetClientAllocs", &message.NodeSpecificRequest{NodeID: n.Node.ID, SecretID: n.Node.SecretID,
				QueryOptions: message.QueryOptions{
					Region: "global", AuthToken: n.JWT, MinQueryIndex: from, MaxQueryTime: time.Minute}}, &list)
			if len(list.Allocs) != 2 || list.Index <= from {
				t.Errorf("the node has %d allocations at %d, index in the request %d", len(list.Allocs), list.Index, from)
			}

			// The server continues: the restored node gets work.
			n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
				WriteRequest: n.Write(n.JWT)}, nil)
			servertest.Register(t, s, servertest.BatchJob("next", 1))
			n.Allocs(3)
			if dir == "" {
				return
			}
			stop()
			again, _ := servertest.Start(t, configure)
			if got := servertest.Read[message.SingleJobResponse](t, again, "Job.GetJob", servertest.JobRequest("next")); got.Job == nil {
				t.Error("after a restart a job registered after the restore is lost")
			}
			if _, err := whoAmI(t, again, token); err != nil {
				t.Errorf("the earlier token after a restart: %v", err)
			}
		})
	}
}

// TestSnapshot_AnotherServer moves a cluster: the restored root key signs and verifies there.
func TestSnapshot_AnotherServer(t *testing.T) {
	one, _ := servertest.Start(t, nil)
	n := servertest.Join(t, one.RPCAddr())
	servertest.Register(t, one, servertest.BatchJob("b", 1))
	token := n.Allocs(1)[0].SignedIdentities["t"]
	raw := servertest.Save(t, one)

	two, _ := servertest.Start(t, func(c *server.Config) { c.DataDir = t.TempDir() })
	if _, err := whoAmI(t, two, token); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("another cluster's token: %v", err)
	}
	n.Addr = two.RPCAddr()
	if err := servertest.Restore(t, func() (*rpc.Stream, error) {
		return n.Pool.Stream(t.Context(), two.RPCAddr(), "Operator.SnapshotRestore")
	}, raw, "EOF"); err != nil {
		t.Fatal(err)
	}
	if _, err := whoAmI(t, two, token); err != nil {
		t.Errorf("the token after the restore: %v", err)
	}
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, nil)
	servertest.Register(t, two, servertest.BatchJob("c", 1))
	allocs := n.Allocs(2)
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

// TestRestore_BadSnapshot restores invalid archives.
func TestRestore_BadSnapshot(t *testing.T) {
	s, _ := servertest.Start(t, func(c *server.Config) { c.DataDir, c.Workers = t.TempDir(), -1 })
	servertest.Register(t, s, servertest.BatchJob("before", 1))
	raw := servertest.Save(t, s)
	servertest.Register(t, s, servertest.BatchJob("after", 1))
	want := fmt.Sprint(contents(t, servertest.Save(t, s)))
	refused := func(what string, bad []byte, end string) {
		t.Helper()
		if err := servertest.Restore(t, servertest.RestoreStream(t, s), bad, end); err == nil {
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
	if got := fmt.Sprint(contents(t, servertest.Save(t, s))); got != want {
		t.Error("a refused archive changed something")
	}
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("after")); got.Job == nil {
		t.Error("a job is lost")
	}
	if err := servertest.Restore(t, servertest.RestoreStream(t, s), raw, "EOF"); err != nil {
		t.Errorf("the valid one: %v", err)
	}
	if got := servertest.Read[message.SingleJobResponse](t, s, "Job.GetJob", servertest.JobRequest("after")); got.Job != nil {
		t.Error("the valid one changed nothing")
	}
}

// TestRestore_UnderLoad registers jobs while archives are restored. The server continues, and
// has everything that it acknowledged after the last restore.
func TestRestore_UnderLoad(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	n := servertest.Join(t, s.RPCAddr())
	raw := servertest.Save(t, s)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-ended:
				return
			default:
			}
			j := servertest.BatchJob(fmt.Sprint("load", i%20), 1) // the node has resources for one more

			// The restore may abort it.
			s.Call(t.Context(), "Job.Register", &message.JobRegisterRequest{Job: j, WriteRequest: message.WriteRequest{Region: "global"}}, nil)
		}
	}()
	for range 10 {
		if err := servertest.Restore(t, servertest.RestoreStream(t, s), raw, "EOF"); err != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	<-done
	n.Must("Node.UpdateStatus", &message.NodeUpdateStatusRequest{NodeID: n.Node.ID, Status: nomad.NodeStatusReady,
		WriteRequest: n.Write(n.JWT)}, nil)
	servertest.Register(t, s, servertest.BatchJob("last", 1))
	for ctx := servertest.Context(t); ; {
		summary := servertest.Read[message.JobSummaryResponse](t, s, "Job.Summary",
			&message.JobSummaryRequest{JobID: "last", QueryOptions: message.QueryOptions{Region: "global"}})
		if summary.JobSummary != nil && summary.JobSummary.Summary["g"].Starting == 1 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the job is not placed: %+v", summary.JobSummary)
		}
	}
}
